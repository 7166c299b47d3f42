"""TLS between servers: Apache ZooKeeper 3.9.5 and ours in one ensemble, with PEM stores and verified host names."""

from __future__ import annotations

from pathlib import Path

from tests.ensemble.server.pem_files import Authority, needs_openssl
from tests.interop.real_zookeeper import MixedEnsemble, needs_java


def secured(directory: Path) -> MixedEnsemble:
    """Three servers that communicate only over TLS."""
    authority = Authority(directory / "ssl")
    store = authority.store("peer", "/CN=peer", "DNS:localhost,IP:127.0.0.1")
    ensemble = MixedEnsemble(directory, 3, tick_time=500)
    for i in ensemble.client_ports:
        with ensemble.config(i).open("a") as config:
            config.write(
                f"sslQuorum=true\nssl.quorum.keyStore.location={store}\nssl.quorum.keyStore.type=PEM\n"
                f"ssl.quorum.trustStore.location={authority.ca}\nssl.quorum.trustStore.type=PEM\n"
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
            )
    return ensemble


@needs_java
@needs_openssl
def test_our_server_follows_and_leads_java_servers_over_tls(tmp_path: Path) -> None:
    ensemble = secured(tmp_path)
    try:
        ensemble.start_java(3)
        ensemble.start(1)
        assert ensemble.wait_for_quorum() == 3
        with ensemble.client(1) as client:
            client.create("/secret", b"from ours")
        ensemble.kill(3)
        ensemble.start(2)
        assert ensemble.wait_for_quorum() == 1
        ensemble.start_java(3)
        assert ensemble.wait_for_quorum() == 1
        with ensemble.client(3) as client:
            assert client.get("/secret")[0] == b"from ours"
            client.set("/secret", b"from java")
        with ensemble.client(2) as client:
            client.sync("/")
            assert client.get("/secret")[0] == b"from java"
    finally:
        ensemble.close()
