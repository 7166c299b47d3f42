"""Snapshots written while the tree changes: their content, reused blocks, results, and leftover files."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import adler32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ensemble.tree.test_capture import SECRETS, World
from tests.ensemble.txnlog.test_formats import some_snapshot
from zabka.ensemble.records import OPEN_ACL, OpCode
from zabka.ensemble.runtime.files import HOST
from zabka.ensemble.runtime.workers import THREADS
from zabka.ensemble.tree.blocks import BLOCK_ZNODES
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.nodes import Nodes
from zabka.ensemble.tree_snapshot import NodeImage
from zabka.ensemble.txn import SetACLTxn
from zabka.ensemble.txnlog import snapshot_writer
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.snapshot_writer import SnapshotWriter, adler32_of_both
from zabka.ensemble.txnlog.snapshots import WrittenSnapshot, list_snapshots, read_snapshot

SPOILED = "spoiled"


class Owner(World):
    """A peer's tree and a fake event loop. The loop's callbacks run only when the test runs them."""

    def __init__(self, directory: Path, suffix: str = "", tree: DataTree | None = None) -> None:
        super().__init__(tree)
        self.directory = directory
        self.posted: queue.Queue[tuple[Callable[..., object], tuple[object, ...]]] = queue.Queue()
        self.outcomes: queue.Queue[WrittenSnapshot | int | str] = queue.Queue()
        self.closed = False
        self.writer = SnapshotWriter(
            Directories(directory, directory),
            suffix,
            self._post,
            self.outcomes.put,
            self.outcomes.put,
            lambda: self.outcomes.put(SPOILED),
        )

    def _post(self, callback: Callable[..., object], *args: object) -> None:
        if self.closed:
            raise RuntimeError("Event loop is closed")
        self.posted.put((callback, args))

    def fill(self, blocks: int) -> None:
        for n in range(blocks * BLOCK_ZNODES):
            self.create(f"/n{n}", b"x")

    def take(self) -> bool:
        return self.writer.start_snapshot(self.tree.to_snapshot())

    def run_one(self) -> None:
        callback, args = self.posted.get(timeout=20)
        callback(*args)

    def outcome(self) -> WrittenSnapshot | int | str:
        """Run callbacks until the snapshot has ended, and return the result."""
        while True:
            try:
                return self.outcomes.get(timeout=0.002)
            except queue.Empty:
                if not self.posted.empty():
                    self.run_one()

    def snapshot(self) -> Path:
        """Take a snapshot and publish it."""
        assert self.take()
        self.writer.publish(self.writer.taken)
        written = self.outcome()
        assert isinstance(written, WrittenSnapshot), written
        return list_snapshots(self.directory)[-1][1]

    def made_for_next(self) -> int:
        """Start the next snapshot and cancel it. Return how many blocks of the tree it would have to encode again."""
        while not self.posted.empty():
            self.run_one()
        assert self.take()
        callback, _ = self.posted.get(timeout=20)
        made = len(callback.__self__.pieces)  # type: ignore[attr-defined]
        self.writer.cancel()
        return made


def held(path: Path) -> dict[str, NodeImage]:
    return {image.path or "/": image for image in read_snapshot(path).nodes}


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    owner = Owner(tmp_path)
    yield owner
    owner.writer.cancel()


@pytest.mark.parametrize("suffix", ["", ".gz", ".snappy"])
def test_snapshot_file_contains_the_tree_at_its_start(tmp_path: Path, suffix: str) -> None:
    owner = Owner(tmp_path, suffix)
    owner.fill(3)
    for n in range(2):
        then, zxid = owner.images(), owner.zxid
        assert owner.take()
        owner.run_one()
        owner.set("/n1", b"later %d" % n)
        owner.set(f"/n{2 * BLOCK_ZNODES}", b"later %d" % n)
        owner.create(f"/later{n}")
        owner.writer.publish(n + 1)
        written = owner.outcome()
        path = tmp_path / f"snapshot.{zxid:x}{suffix}"
        assert isinstance(written, WrittenSnapshot)
        assert (written.zxid, written.size_bytes) == (zxid, path.stat().st_size)
        assert held(path) == then
    assert {each.name for each in tmp_path.iterdir()} == {path.name for _, path in list_snapshots(tmp_path)}
    read = read_snapshot(path)
    twin = DataTree.from_snapshot(read)
    assert (twin.digest, len(twin.nodes)) == (read.digest, len(then))


def test_incremental_snapshot_equals_a_full_snapshot(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    owner = Owner(tmp_path / "one")
    owner.fill(20)
    owner.snapshot()
    owner.set("/n1000", b"changed")
    path = owner.snapshot()
    full = Owner(tmp_path / "other", tree=owner.tree).snapshot()
    assert path.read_bytes() == full.read_bytes()


def test_incremental_snapshot_encodes_only_changed_blocks(owner: Owner) -> None:
    owner.fill(20)
    owner.snapshot()
    owner.set("/n1000", b"changed")
    owner.set("/n1001", b"changed")
    owner.set("/n3000", b"changed")
    assert owner.made_for_next() == 2


def flip(path: Path, offset: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[offset] ^= 0x55
    path.write_bytes(raw)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: flip(path, path.stat().st_size // 2),
        lambda path: flip(path, path.stat().st_size - 200),
        lambda path: os.truncate(path, path.stat().st_size // 3),
        lambda path: path.unlink(),
    ],
    ids=["a byte in the middle", "a byte near the end", "cut", "gone"],
)
def test_damage_in_the_previous_snapshot_is_not_copied(owner: Owner, damage: Callable[[Path], None]) -> None:
    owner.fill(5)
    path = owner.snapshot()
    owner.set("/n1", b"later")
    damage(path)
    assert owner.take()
    owner.writer.publish(owner.writer.taken)
    assert owner.outcome() == SPOILED
    assert [each.name for each in owner.directory.iterdir()] in ([path.name], [])
    assert held(owner.snapshot()) == owner.images()


def test_acl_lists_of_changed_znodes_are_written(owner: Owner) -> None:
    owner.fill(3)
    owner.create("/secret", b"", SECRETS[0])
    owner.snapshot()
    owner.create("/other", b"", SECRETS[1])
    owner.do(OpCode.SET_ACL, SetACLTxn("/n0", SECRETS[2], 1))
    found = held(owner.snapshot())
    assert [tuple(found[path].acl) for path in ("/secret", "/other", "/n0", "/n1")] == [*SECRETS, OPEN_ACL]


def test_too_many_new_acl_lists_cause_a_full_snapshot(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    owner.fill(3)
    owner.create("/secret", b"", SECRETS[0])
    owner.snapshot()
    assert owner.made_for_next() == 0
    blocks = len(owner.tree.blocks)
    monkeypatch.setattr(snapshot_writer, "ACLS_TAKEN", 3 - blocks)
    assert owner.made_for_next() == 0, "three lists, and room for three"
    monkeypatch.setattr(snapshot_writer, "ACLS_TAKEN", 2 - blocks)
    assert owner.made_for_next() == blocks


def test_snapshot_after_a_history_replacement_reuses_no_block(owner: Owner) -> None:
    """A snapshot reuses no blocks of the previous snapshot after the history was replaced.

    After that, blocks with the same number have different content.
    """
    owner.fill(3)
    path = owner.snapshot()
    owner.tree = DataTree.from_snapshot(read_snapshot(path))
    assert owner.made_for_next() == len(owner.tree.blocks)


def test_abandoned_snapshot_does_not_affect_the_next(owner: Owner) -> None:
    owner.fill(5)
    owner.snapshot()
    owner.set("/n1", b"before")
    assert owner.take()
    owner.set("/n2", b"after")
    owner.writer.cancel()
    assert held(owner.snapshot()) == owner.images()


def test_blocks_of_large_znodes_are_always_encoded_again(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_writer, "TAKEN_BYTES_MAX", 100_000)
    owner.fill(3)
    owner.create("/large", b"x" * 200_000)
    owner.snapshot()
    assert owner.made_for_next() == 1
    assert held(owner.snapshot()) == owner.images()


def test_long_runs_of_unchanged_blocks_are_copied_in_chunks(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_writer, "WRITE_BYTES", 40_000)
    owner.fill(30)
    owner.snapshot()
    owner.set("/n2000", b"changed")
    assert held(owner.snapshot()) == owner.images()


def test_only_one_snapshot_is_written_at_a_time(owner: Owner) -> None:
    owner.fill(1)
    assert owner.take()
    assert not owner.take()
    owner.writer.cancel()
    assert list(owner.directory.iterdir()) == [] and owner.outcomes.empty()
    assert owner.take()


def test_snapshot_interrupted_by_a_peer_stop_leaves_no_file(owner: Owner) -> None:
    owner.fill(5)
    owner.closed = True
    assert owner.take()
    owner.writer.publish(1)
    owner.writer.wait()
    assert list(owner.directory.iterdir()) == [] and owner.outcomes.empty()


def test_snapshot_is_published_only_after_its_log_is_durable(owner: Owner) -> None:
    """A snapshot becomes visible only after the log up to it is durable.

    Otherwise a power loss could leave a gap in the log that only this snapshot covers (seed 11238 of the simulated
    world).
    """
    assert owner.writer.start_snapshot(some_snapshot())
    while not [each for each in owner.directory.iterdir() if each.stat().st_size]:
        pass
    owner.writer.publish(0)
    assert list_snapshots(owner.directory) == [] and owner.outcomes.empty()
    owner.writer.publish(1)
    assert isinstance(owner.outcome(), WrittenSnapshot)
    assert len(list_snapshots(owner.directory)) == 1


def test_snapshot_duration_is_measured_in_the_writer_thread(owner: Owner) -> None:
    class Slow:
        """Clock that advances by 1.5 seconds between two reads."""

        start, call, breathe = THREADS.start, THREADS.call, THREADS.breathe
        at_s = 10.0

        def now_s(self) -> float:
            self.at_s += 1.5
            return self.at_s

    owner.writer._workers = Slow()
    assert owner.writer.start_snapshot(some_snapshot())
    owner.writer.publish(1)
    written = owner.outcome()
    assert isinstance(written, WrittenSnapshot) and written.duration_ms == 1500


def test_snapshot_is_reported_after_its_file_name_is_durable(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot is reported only after its file name is durable.

    After the report, earlier logs can be purged, so a power loss must not remove the name.
    """
    done: list[str] = []
    rename = HOST.rename

    def note_rename(path: Path, to: Path) -> None:
        done.append(to.name)
        rename(path, to)

    def note_sync(descriptor: int) -> None:
        done.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    monkeypatch.setattr(HOST, "rename", note_rename)
    monkeypatch.setattr(HOST, "fsync", note_sync)
    path = owner.snapshot()
    assert done == [".snapshot.tmp", path.name, owner.directory.name]


@pytest.mark.parametrize("end", ["written", "failed", "spoiled"])
def test_callback_of_a_finished_snapshot_can_start_another(
    owner: Owner, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.fill(1)
    if end == "spoiled":
        flip(owner.snapshot(), 100)
    may_begin: list[bool] = []

    def on_end(*result: object) -> None:
        assert owner.writer._writing is not None
        may_begin.append(not owner.writer._writing.goes_on)

    owner.writer._done = owner.writer._failed = owner.writer._spoiled = on_end
    if end == "failed":
        monkeypatch.setattr(HOST, "fsync", full_disk)
    assert owner.take()
    owner.writer.publish(owner.writer.taken)
    while not may_begin:
        if not owner.posted.empty():
            owner.run_one()
    assert may_begin == [True]


def full_disk(descriptor: int) -> None:
    raise OSError(28, "No space left on device")


def test_cancelled_snapshot_leaves_no_file(owner: Owner) -> None:
    assert owner.writer.start_snapshot(some_snapshot())
    owner.writer.cancel()
    assert list(owner.directory.iterdir()) == []


def test_full_disk_during_a_snapshot_is_reported_by_its_errno(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    owner.fill(1)
    monkeypatch.setattr(HOST, "fsync", full_disk)
    assert owner.take()
    assert owner.outcome() == 28
    assert list(owner.directory.iterdir()) == []


def test_snapshot_is_retried_when_no_thread_can_be_started(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    owner.fill(1)
    with monkeypatch.context() as without:
        without.setattr(threading.Thread, "start", refuse)
        assert not owner.take()
    owner.writer.cancel()
    owner.set("/n1", b"later")
    assert owner.tree.blocks.keeper is None
    assert held(owner.snapshot()) == owner.images()


def test_taking_a_snapshot_does_not_copy_the_znode_table(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    owner.fill(1)
    monkeypatch.setattr(Nodes, "copy", lambda nodes: pytest.fail("copied"))
    owner.snapshot()
    owner.set("/n1", b"later")
    assert owner.tree.nodes["/n1"].data == b"later"


@given(st.binary(max_size=70), st.binary(max_size=70))
def test_adler32_of_joined_data_is_computed_from_two_checksums(one: bytes, other: bytes) -> None:
    assert adler32_of_both(adler32(one), adler32(other), len(other)) == adler32(one + other)
