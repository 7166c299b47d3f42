"""DIFF, TRUNC and SNAP between Apache ZooKeeper 3.9.5 and our peers, in both directions, also to observers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.real_zookeeper import MixedEnsemble, needs_java
from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.records import OPEN_ACL, OpCode
from zabka.ensemble.txn import CreateTxn, Txn
from zabka.ensemble.txnlog.log import LogWriter, list_logs, read_log
from zabka.ensemble.txnlog.losses import MARKER_NAME

pytestmark = [needs_java, pytest.mark.long]


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[MixedEnsemble]:
    mixed = MixedEnsemble(tmp_path, 3)
    mixed.log_level = "INFO"
    try:
        yield mixed
    finally:
        mixed.close()


def add_to_config(ensemble: MixedEnsemble, i: int, text: str) -> None:
    with ensemble.config(i).open("a") as file:
        file.write(text + "\n")


def write(ensemble: MixedEnsemble, at: int, name: str, count: int = 3) -> None:
    with ensemble.client(at) as client:
        client.ensure_path("/w")
        done = [client.create_async(f"/w/{name}-{n:04d}", b"%d" % n) for n in range(count)]
        for one in done:
            one.get(timeout=30)


def check(ensemble: MixedEnsemble, at: int, *names: str) -> None:
    with ensemble.client(at) as client:
        client.sync("/w")
        found = client.get_children("/w")
        for name in names:
            assert f"{name}-0000" in found, name


def modes_of_ours(ensemble: MixedEnsemble, i: int) -> list[str]:
    """Return how our peer was synchronized each time (DIFF, TRUNC or SNAP), in order."""
    lines = [
        line
        for path in sorted((ensemble.directory / str(i) / "data" / "journal").iterdir())
        for line in path.read_text().splitlines()
    ]
    events = [json.loads(line) for line in lines]
    # The journal also has message lines, which have no type.
    return [str(event["mode"]) for event in events if event.get("type") == "learner_synced"]


def append_unseen(ensemble: MixedEnsemble, i: int) -> None:
    """Append to a stopped peer's log a transaction that no other peer has.

    A leader leaves such a log if it dies before it sends the proposal.
    """
    directory = ensemble.data(i)
    last = read_log(list_logs(directory)[-1][1])[1].txns[-1]
    body = CreateTxn("/dirty", b"", OPEN_ACL, False, 99)
    extra = Txn(SessionId(0), 0, Zxid(last.zxid + 1), last.time_ms, OpCode.CREATE, body)
    writer = LogWriter(directory, preallocate_bytes=4096)
    writer.append([extra])
    writer.roll()


def test_our_learner_gets_snap_diff_and_trunc_from_a_java_leader(ensemble: MixedEnsemble) -> None:
    ensemble.start_java(1, 3)
    assert ensemble.wait_for_quorum() == 3
    write(ensemble, 1, "first")
    ensemble.start(2)
    ensemble.wait_for_quorum()
    ensemble.kill(2)
    write(ensemble, 1, "missed")
    ensemble.start(2)
    ensemble.wait_for_quorum()
    check(ensemble, 2, "first", "missed")
    for i in (2, 3, 1):
        ensemble.kill(i)
    append_unseen(ensemble, 2)
    ensemble.start_java(1, 3)
    ensemble.wait_for_quorum()
    ensemble.start(2)
    ensemble.wait_for_quorum()
    with ensemble.client(2) as client:
        assert client.exists("/dirty") is None
    write(ensemble, 2, "after")
    check(ensemble, 2, "first", "missed", "after")
    shutil.rmtree(ensemble.data(2))
    ensemble.kill(2)
    write(ensemble, 1, "many", 600)
    ensemble.start(2)
    ensemble.wait_for_quorum()
    check(ensemble, 2, "first", "after", "many")
    modes = modes_of_ours(ensemble, 2)
    assert modes[1:] == ["DIFF", "TRUNC", "SNAP"] and modes[0] in ("DIFF", "SNAP"), modes


def test_java_learner_gets_snap_diff_and_trunc_from_our_leader(ensemble: MixedEnsemble) -> None:
    for i in (1, 3):
        add_to_config(ensemble, i, "zabka.snapshotSizeFactor=1000")
    ensemble.start(1, 3)
    assert ensemble.wait_for_quorum() == 3
    write(ensemble, 1, "first")
    ensemble.start_java(2)
    ensemble.wait_for_quorum()
    ensemble.kill(2)
    write(ensemble, 1, "missed")
    ensemble.start_java(2)
    ensemble.wait_for_quorum()
    assert "Getting a diff from the leader" in ensemble.java_log(2)
    ensemble.kill(2)
    # Write more than the leader keeps for a DIFF (committedLog), but less than the size at which it sends a snapshot.
    write(ensemble, 3, "many", 1500)
    before = ensemble.java_log(2)
    ensemble.start_java(2)
    ensemble.wait_for_quorum()
    assert "Getting a diff from the leader" in ensemble.java_log(2)[len(before) :]
    assert "Getting a snapshot from leader" not in ensemble.java_log(2)[len(before) :]
    check(ensemble, 2, "first", "missed", "many")
    for i in (2, 3, 1):
        ensemble.kill(i)
    append_unseen(ensemble, 2)
    ensemble.start(1, 3)
    ensemble.wait_for_quorum()
    before = ensemble.java_log(2)
    ensemble.start_java(2)
    ensemble.wait_for_quorum()
    assert "Truncating log to get in sync" in ensemble.java_log(2)[len(before) :]
    with ensemble.client(2) as client:
        assert client.exists("/dirty") is None
    ensemble.kill(2)
    shutil.rmtree(ensemble.data(2))
    for i in (1, 3):
        ensemble.kill(i)
        add_to_config(ensemble, i, "zabka.snapshotSizeFactor=-1")
    ensemble.start(1, 3)
    ensemble.wait_for_quorum()
    write(ensemble, 1, "last", 600)
    before = ensemble.java_log(2)
    ensemble.start_java(2)
    ensemble.wait_for_quorum()
    assert "Getting a snapshot from leader" in ensemble.java_log(2)[len(before) :]
    check(ensemble, 2, "first", "many", "last")


def make_observer(ensemble: MixedEnsemble, observer: int) -> None:
    for i in ensemble.client_ports:
        lines = ensemble.config(i).read_text().splitlines()
        lines = [f"{line}:observer" if line.startswith(f"server.{observer}=") else line for line in lines]
        ensemble.config(i).write_text("\n".join(lines) + "\n")


def test_our_observer_follows_a_java_leader(ensemble: MixedEnsemble) -> None:
    make_observer(ensemble, 2)
    ensemble.start_java(1, 3)
    ensemble.wait_for_quorum()
    write(ensemble, 1, "before")
    ensemble.start(2)
    ensemble.wait_for_quorum()
    write(ensemble, 2, "through-the-observer")
    check(ensemble, 2, "before", "through-the-observer")
    assert ensemble.modes()[2] == "observer"


def test_java_observer_follows_our_leader(ensemble: MixedEnsemble) -> None:
    make_observer(ensemble, 2)
    add_to_config(ensemble, 2, "peerType=observer")
    ensemble.start(1, 3)
    ensemble.wait_for_quorum()
    write(ensemble, 1, "before")
    ensemble.start_java(2)
    ensemble.wait_for_quorum()
    write(ensemble, 2, "through-the-observer")
    check(ensemble, 2, "before", "through-the-observer")
    assert ensemble.modes()[2] == "observer"


def test_our_damaged_peer_recovers_from_a_java_leader(ensemble: MixedEnsemble) -> None:
    ensemble.start_java(1, 3)
    ensemble.start(2)
    ensemble.wait_for_quorum()
    write(ensemble, 2, "first", 20)
    ensemble.kill(2)
    path = list_logs(ensemble.data(2))[-1][1]
    raw = bytearray(path.read_bytes())
    raw[read_log(path)[1].ends[8] + 20] ^= 0xFF
    path.write_bytes(raw)
    ensemble.start(2)
    ensemble.wait_for_quorum()
    assert "bad checksum behind 0x" in ensemble.log(2)
    assert not (ensemble.data(2) / MARKER_NAME).exists()
    check(ensemble, 2, "first")
    with ensemble.client(2) as client:
        assert len(client.get_children("/w")) == 20
    # Server 2 has the same data as server 3, so the two are a quorum without server 1.
    ensemble.kill(1)
    write(ensemble, 3, "after")
    check(ensemble, 2, "first", "after")
