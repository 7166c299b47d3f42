"""The storage thread: order, groups, and what a barrier promises."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_txnlog_formats import a_txn, some_snapshot
from test_txnlog_recovery import EPOCH_1, counters, directories_with

from ensemble.effects import (
    Append,
    Barrier,
    Effect,
    SaveAcceptedEpoch,
    SaveCurrentEpoch,
    SaveSnapshot,
    TruncateLog,
)
from ensemble.ids import Epoch, Zxid
from ensemble.txnlog.log import list_logs
from ensemble.txnlog.recovery import Directories, Recovery
from ensemble.txnlog.snapshots import WrittenSnapshot, list_snapshots
from ensemble.txnlog.storage import Storage


class Owner:
    """Takes the place of the event loop: callbacks wait in a queue until the test runs them."""

    def __init__(self, directories: Directories) -> None:
        self.directories = directories
        self.tokens: list[list[int]] = []
        self.truncated: list[Recovery] = []
        self.snapshots: list[WrittenSnapshot] = []
        self.failures: list[str] = []
        self.posted: queue.Queue[tuple[Callable[..., None], tuple[object, ...]]] = queue.Queue()
        self.storage = Storage(directories, self, self._post, preallocate_bytes=8192)

    def _post(self, callback: Callable[..., None], *args: object) -> None:
        self.posted.put((callback, args))

    def run_one(self) -> None:
        callback, args = self.posted.get(timeout=10)
        callback(*args)

    def on_durable(self, tokens: list[int]) -> None:
        self.tokens.append(tokens)

    def on_truncated(self, recovery: Recovery) -> None:
        self.truncated.append(recovery)

    def on_snapshot(self, written: WrittenSnapshot) -> None:
        self.snapshots.append(written)

    def on_storage_failed(self, reason: str) -> None:
        self.failures.append(reason)


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    owner = Owner(directories_with(tmp_path, range(1, 3)))
    yield owner
    owner.storage.close()


def appends(*zxids: int) -> list[Effect]:
    return [Append(a_txn(EPOCH_1 + n)) for n in zxids]


def test_everything_before_a_barrier_can_be_recovered_when_it_is_answered(owner: Owner) -> None:
    owner.storage.submit([*appends(3, 4), Barrier(1)])
    owner.run_one()
    assert owner.tokens == [[1]]
    assert counters(owner.directories) == [1, 2, 3, 4]


def test_many_appends_and_barriers_of_a_group_share_one_sync(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (syncs.append(fd), real(fd))[1])
    group: list[Effect] = []
    for n in range(3, 53):
        group += [*appends(n), Barrier(n)]
    owner.storage.submit(group)
    owner.run_one()
    assert owner.tokens == [list(range(3, 53))]
    assert len(syncs) == 1
    assert counters(owner.directories) == list(range(1, 53))


def test_effects_are_carried_out_in_order(owner: Owner, tmp_path: Path) -> None:
    owner.storage.submit([SaveAcceptedEpoch(Epoch(2)), *appends(3), SaveCurrentEpoch(Epoch(2)), Barrier(1)])
    owner.run_one()
    assert (tmp_path / "acceptedEpoch").read_text() == (tmp_path / "currentEpoch").read_text() == "2"
    owner.storage.submit([*appends(4), TruncateLog(Zxid(EPOCH_1 + 2)), *appends(3), Barrier(2)])
    owner.run_one()
    owner.run_one()
    assert [txn.zxid for txn in owner.truncated[0].recovered.txns] == [EPOCH_1 + 1, EPOCH_1 + 2]
    assert counters(owner.directories) == [1, 2, 3]


def test_an_ordinary_snapshot_rolls_the_log(owner: Owner, tmp_path: Path) -> None:
    owner.storage.submit([*appends(3), SaveSnapshot(some_snapshot(EPOCH_1 + 3), False), *appends(4), Barrier(1)])
    owner.run_one()
    owner.run_one()
    assert [written.zxid for written in owner.snapshots] == [EPOCH_1 + 3]
    assert [path.name for _, path in list_logs(tmp_path)] == ["log.100000001", "log.100000003", "log.100000004"]
    assert counters(owner.directories) == [4]


def test_a_replacing_snapshot_begins_a_new_history(owner: Owner, tmp_path: Path) -> None:
    owner.storage.submit([SaveSnapshot(some_snapshot(EPOCH_1 + 9), True), *appends(10), Barrier(1)])
    owner.run_one()
    owner.run_one()
    assert owner.tokens == [[1]]
    assert [zxid for zxid, _ in list_snapshots(tmp_path)] == [EPOCH_1 + 9]
    assert counters(owner.directories) == [10]


def test_a_failing_disk_is_said_once_and_nothing_is_answered_after_it(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", fail)
    owner.storage.submit([*appends(3), Barrier(1)])
    owner.run_one()
    owner.storage.submit([*appends(4), Barrier(2)])
    assert owner.tokens == []
    assert owner.failures == ["the disk failed: [Errno 28] No space left on device"]
    assert owner.posted.empty()


def test_closing_finishes_what_is_queued(owner: Owner) -> None:
    owner.storage.submit([*appends(3, 4, 5), Barrier(1), SaveSnapshot(some_snapshot(EPOCH_1 + 5), False)])
    owner.storage.close()
    assert owner.posted.qsize() == 2
    assert counters(owner.directories) == []
