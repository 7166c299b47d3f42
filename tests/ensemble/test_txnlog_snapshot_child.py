"""Snapshots written by a forked child: what they hold, how they end, and that they leave nothing behind."""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
from pathlib import Path

import pytest
from test_txnlog_formats import some_snapshot

from ensemble.ids import SessionId, Zxid
from ensemble.records import OPEN_ACL, OpCode
from ensemble.tree.datatree import DataTree
from ensemble.tree.snapshot import TreeSnapshot
from ensemble.txn import CreateTxn, SetDataTxn, Txn
from ensemble.txnlog import snapshot_child
from ensemble.txnlog.snapshot_child import SnapshotChildren
from ensemble.txnlog.snapshots import WrittenSnapshot, list_snapshots, read_snapshot


class Outcome:
    def __init__(self, directory: Path, suffix: str = "") -> None:
        self.done: queue.Queue[WrittenSnapshot | int] = queue.Queue()
        self.children = SnapshotChildren(directory, suffix, self.done.put, self.done.put)

    def get(self) -> WrittenSnapshot | int:
        return self.done.get(timeout=20)


def a_tree(nodes: int) -> DataTree:
    tree = DataTree()
    for n in range(1, nodes + 1):
        tree.apply(Txn(SessionId(1), n, Zxid(n), n, OpCode.CREATE, CreateTxn(f"/n{n}", b"x", OPEN_ACL, False, n)))
    return tree


@pytest.mark.parametrize("suffix", ["", ".gz", ".snappy"])
def test_the_child_writes_the_tree_as_it_was_at_the_fork(tmp_path: Path, suffix: str) -> None:
    tree = a_tree(300)
    before = list(tree.to_snapshot().nodes)
    outcome = Outcome(tmp_path, suffix)
    assert outcome.children.take(tree.to_snapshot())
    outcome.children.publish(1)
    tree.apply(Txn(SessionId(1), 0, Zxid(301), 0, OpCode.SET_DATA, SetDataTxn("/n1", b"later", 1)))
    written = outcome.get()
    assert isinstance(written, WrittenSnapshot)
    path = tmp_path / f"snapshot.12c{suffix}"
    assert (written.zxid, written.size_bytes) == (300, path.stat().st_size)
    read = read_snapshot(path)
    assert sorted(read.nodes, key=lambda n: n.path) == sorted(before, key=lambda n: n.path)
    assert [name.name for name in tmp_path.iterdir()] == [path.name]
    twin = DataTree.from_snapshot(read)
    assert (twin.digest, twin.data_size_bytes, len(twin.nodes)) == (read.digest, sum(
        len(n.path or "/") + len(n.data or b"") for n in before), len(before))  # fmt: skip


def test_a_snapshot_that_is_gone_before_the_next_change_copies_nothing() -> None:
    tree = a_tree(10)
    node = tree.nodes["/n1"]
    snapshot = tree.to_snapshot()
    del snapshot
    tree.apply(Txn(SessionId(1), 0, Zxid(11), 0, OpCode.SET_DATA, SetDataTxn("/n1", b"later", 1)))
    assert tree.nodes["/n1"] is node
    held = tree.to_snapshot()
    tree.apply(Txn(SessionId(1), 0, Zxid(12), 0, OpCode.SET_DATA, SetDataTxn("/n1", b"still later", 2)))
    assert tree.nodes["/n1"] is not node and node.data == b"later"
    assert {image.path: image.data for image in held.nodes}["/n1"] == b"later"


def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot that is never done."""

    def write(staged: Path, snapshot: TreeSnapshot, suffix: str, pace: object) -> None:
        staged.write_bytes(b"half")
        signal.pause()

    monkeypatch.setattr(snapshot_child, "stage_snapshot", write)


def test_one_child_at_a_time_and_a_cancelled_one_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless(monkeypatch)
    outcome = Outcome(tmp_path)
    assert outcome.children.take(some_snapshot())
    assert not outcome.children.take(some_snapshot())
    outcome.children.cancel()
    assert list(tmp_path.iterdir()) == [] and outcome.done.empty()
    assert threading.active_count() == 1 or not any(t.name == "snapshot" for t in threading.enumerate())


def test_the_child_holds_no_connection_of_its_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or clients and learners of a killed peer would not notice until its snapshot is done."""
    endless(monkeypatch)
    ours, theirs = socket.socketpair()
    outcome = Outcome(tmp_path)
    outcome.children.take(some_snapshot())
    while not list(tmp_path.iterdir()):
        pass
    ours.close()
    theirs.settimeout(10)
    assert theirs.recv(1) == b""
    theirs.close()
    outcome.children.cancel()


def test_a_child_without_its_peer_gives_up(tmp_path: Path) -> None:
    hear, say = os.pipe()
    os.write(say, b"1")
    orphan = os.fork()
    if orphan == 0:
        # The snapshot's parent, as far as it knows, is somebody who is gone.
        snapshot_child._write_and_exit(some_snapshot(), tmp_path / "snapshot.100000005", peer=1 << 22, hear=hear)
    os.waitpid(orphan, 0)
    assert list_snapshots(tmp_path) == []
    os.close(hear)
    os.close(say)


def test_a_snapshot_counts_only_when_the_log_is_durable_as_far(tmp_path: Path) -> None:
    """Or, after a power loss, the log has a hole that only this snapshot covers: seed 11238 of the simulated world."""
    outcome = Outcome(tmp_path)
    assert outcome.children.take(some_snapshot())
    while not [each for each in tmp_path.iterdir() if each.stat().st_size]:
        pass
    outcome.children.publish(0)
    assert list_snapshots(tmp_path) == [] and outcome.done.empty()
    outcome.children.publish(1)
    assert isinstance(outcome.get(), WrittenSnapshot)
    assert len(list_snapshots(tmp_path)) == 1


def test_a_peer_that_ends_before_its_log_is_durable_leaves_no_snapshot(tmp_path: Path) -> None:
    hear, say = os.pipe()
    peer = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(say)
        snapshot_child._write_and_exit(some_snapshot(), tmp_path / "snapshot.100000005", peer, hear)
    os.close(say)
    os.waitpid(child, 0)
    os.close(hear)
    assert list_snapshots(tmp_path) == []


def test_a_full_disk_is_told_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshot_child, "stage_snapshot", full)
    outcome = Outcome(tmp_path)
    outcome.children.take(some_snapshot())
    assert outcome.get() == 28
