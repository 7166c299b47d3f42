"""Server id 0, which Apache ZooKeeper 3.9.5 accepts like any other id.

Our server 0 runs with Java servers, and a Java server 0 with ours.
"""

from __future__ import annotations

from pathlib import Path

from tests.interop.real_zookeeper import MixedEnsemble, needs_java


@needs_java
def test_server_with_id_0_can_lead_java_and_our_servers(tmp_path: Path) -> None:
    """Server 0 can be leader, whether it is one of our servers or a ZooKeeper server.

    Server 0 is the only server with a weight. Therefore only it can lead, and it forms a quorum alone.
    """
    ensemble = MixedEnsemble(tmp_path, 3, first=0)
    for i in ensemble.client_ports:
        with ensemble.config(i).open("a") as config:
            config.write("group.1=0:1:2\nweight.0=1\nweight.1=0\nweight.2=0\n")
    try:
        ensemble.start(0, 2)
        ensemble.start_java(1)
        assert ensemble.wait_for_quorum() == 0
        for i in ensemble.client_ports:
            with ensemble.client(i) as client:
                client.create(f"/from-{i}", ephemeral=True)
                assert client.client_id[0] >> 56 == i, "a session's id begins with its server's"
        assert "serverId=0\n" in ensemble.word(0, "conf")
        ensemble.kill(0)
        ensemble.start_java(0)
        assert ensemble.wait_for_quorum() == 0
        with ensemble.client(2) as client:
            client.create("/from-ours", b"x")
        with ensemble.client(0) as client:
            assert client.get("/from-ours")[0] == b"x"
    finally:
        ensemble.close()
