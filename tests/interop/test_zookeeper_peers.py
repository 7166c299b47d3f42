"""Apache ZooKeeper 3.9.5 and our peers run in one ensemble.

Each of them also starts with data that the other has written.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, RolledBackError
from kazoo.security import make_digest_acl

from tests.interop.real_zookeeper import MixedEnsemble, needs_java

pytestmark = needs_java


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[MixedEnsemble]:
    mixed = MixedEnsemble(tmp_path, 3)
    try:
        yield mixed
    finally:
        mixed.close()


def work(ensemble: MixedEnsemble, at: int, path: str) -> None:
    """Execute operations of every kind at peer `at`, and check each result at every other peer."""
    with ensemble.client(at) as client:
        client.create(path, b"0")
        client.create(f"{path}/ephemeral", ephemeral=True)
        client.create(f"{path}/secret", b"s", acl=[make_digest_acl("u", "p", all=True)])
        client.create(f"{path}/empty", None)
        results = check_multi(client, path)
        for n in range(30):
            client.set(path, str(n).encode())
        for other in ensemble.processes:
            with ensemble.client(other) as reader:
                reader.sync(path)
                assert reader.get(path)[0] == b"29"
                stat = reader.exists(f"{path}/ephemeral")
                assert stat is not None
                assert stat.ephemeralOwner == client.client_id[0]
                assert reader.exists(results) is not None
                reader.add_auth("digest", "u:p")
                assert reader.get(f"{path}/secret")[0] == b"s"
    for other in ensemble.processes:
        with ensemble.client(other) as reader:
            reader.sync(path)
            assert reader.exists(f"{path}/ephemeral") is None


def check_multi(client: KazooClient, path: str) -> str:
    """Assert that a failed multi changes nothing, and that a successful one applies all its operations.

    Return the path of its sequential znode.
    """
    failing = client.transaction()
    failing.create(f"{path}/never", b"")
    failing.check(path, 99)
    outcome = failing.commit()
    assert isinstance(outcome[0], RolledBackError)
    assert isinstance(outcome[1], BadVersionError)
    working = client.transaction()
    working.create(f"{path}/made-", b"", sequence=True)
    working.set_data(path, b"multi")
    made, _ = working.commit()
    return str(made)


def no_complaints(ensemble: MixedEnsemble) -> None:
    for i in ensemble.client_ports:
        log = ensemble.directory / str(i) / "log"
        if log.exists():
            assert "Traceback" not in log.read_text()
            journal = "".join(p.read_text() for p in (ensemble.directory / str(i) / "data" / "journal").iterdir())
            assert "invariant_violated" not in journal
            assert "peer_protocol_broken" not in journal


def test_our_server_follows_a_java_leader_and_leads_java_servers(ensemble: MixedEnsemble) -> None:
    ensemble.start_java(1, 3)
    assert ensemble.wait_for_quorum() == 3
    work(ensemble, 1, "/before")
    ensemble.start(2)
    assert ensemble.wait_for_quorum() == 3
    work(ensemble, 2, "/ours-follows")
    ensemble.kill(3)
    assert ensemble.wait_for_quorum() == 2
    work(ensemble, 1, "/ours-leads")
    shutil.rmtree(ensemble.data(3))
    ensemble.start_java(3)
    assert ensemble.wait_for_quorum() == 2
    work(ensemble, 3, "/java-came-back-empty")
    no_complaints(ensemble)


def test_java_and_zabka_servers_start_from_each_others_data(ensemble: MixedEnsemble) -> None:
    ensemble.start()
    ensemble.wait_for_quorum()
    work(ensemble, 1, "/by-ours")
    for i in (1, 2, 3):
        ensemble.stop(i)
    ensemble.start_java(1, 2, 3)
    ensemble.wait_for_quorum()
    with ensemble.client(2) as client:
        assert client.get("/by-ours")[0] == b"29"
    work(ensemble, 2, "/by-java")
    for i in (1, 2, 3):
        assert "mismatch" not in ensemble.java_log(i)
        ensemble.kill(i)
    ensemble.start()
    ensemble.wait_for_quorum()
    with ensemble.client(3) as client:
        assert client.get("/by-ours")[0] == b"29"
        assert client.get("/by-java")[0] == b"29"
    no_complaints(ensemble)
