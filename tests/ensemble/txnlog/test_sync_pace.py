"""Syncs on a fast disk run in the event loop instead of the storage thread: the rules, and a storage that uses them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ensemble.txnlog.test_recovery import counters, directories_with
from tests.ensemble.txnlog.test_storage import Owner, appends
from zabka.ensemble.ids import Epoch
from zabka.ensemble.runtime.files import HOST
from zabka.ensemble.txnlog.log import list_logs
from zabka.ensemble.txnlog.storage import WAIT_TXNS_MAX, Storage
from zabka.ensemble.txnlog.sync_pace import BAR_NS_MAX, BAR_NS_MIN, STALL_NS, WINDOW, SyncPace
from zabka.ensemble.zab.effects import Barrier, Effect, SaveAcceptedEpoch

MS = 1_000_000


class Clock:
    """Monotonic clock that advances by `sync_ns` at each sync of the log."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.sync_ns = 100_000

    def __call__(self) -> int:
        return self.now_ns


def noted(pace: SyncPace, *took_ns: int, now_ns: int = 0) -> SyncPace:
    for each in took_ns:
        pace.note(now_ns, each)
    return pace


def quick_pace(quick_us: int = 1000) -> SyncPace:
    return noted(SyncPace(quick_us), *[MS // 10] * WINDOW)


def test_disk_counts_as_slow_before_it_is_measured() -> None:
    pace = noted(SyncPace(1000), *[MS // 10] * (WINDOW - 1))
    assert not pace.is_quick(0)
    assert noted(pace, MS // 10).is_quick(0)


def test_median_sync_time_ignores_a_few_slow_syncs() -> None:
    half = WINDOW // 2
    assert noted(quick_pace(), *[30 * MS] * (half - 1)).is_quick(0)
    assert not noted(quick_pace(), *[2 * MS] * half).is_quick(0)
    assert noted(quick_pace(), *[2 * MS] * WINDOW, *[MS // 10] * (half + 1)).is_quick(0)


def test_slow_sync_moves_later_syncs_to_the_thread_temporarily() -> None:
    pace = noted(quick_pace(), STALL_NS)
    assert not pace.is_quick(BAR_NS_MIN)
    noted(pace, *[MS // 10] * WINDOW, now_ns=BAR_NS_MIN - 1)
    assert not pace.is_quick(BAR_NS_MIN - 1)
    assert pace.is_quick(BAR_NS_MIN)


def test_frequent_slow_syncs_double_the_pause_up_to_a_limit() -> None:
    pace, now_ns = quick_pace(), 0
    bars: list[int] = []
    for _ in range(9):
        noted(pace, STALL_NS, *[MS // 10] * WINDOW, now_ns=now_ns)
        bars.append(next(n for n in range(1, 100) if pace.is_quick(now_ns + n * BAR_NS_MIN)))
        now_ns += bars[-1] * BAR_NS_MIN
    assert bars == [1, 2, 4, 8, 16, 32, 60, 60, 60] and BAR_NS_MAX == 60 * BAR_NS_MIN


def test_single_slow_sync_does_not_double_the_pause() -> None:
    pace = noted(quick_pace(), STALL_NS)
    noted(pace, STALL_NS, *[MS // 10] * WINDOW, now_ns=2 * BAR_NS_MIN)
    assert pace.is_quick(3 * BAR_NS_MIN)


def test_threshold_of_zero_always_syncs_in_the_thread() -> None:
    assert not quick_pace(quick_us=0).is_quick(0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return a clock that advances only in syncs."""
    clock = Clock()
    real = os.fdatasync

    def fdatasync(descriptor: int) -> None:
        real(descriptor)
        clock.now_ns += clock.sync_ns

    monkeypatch.setattr(HOST, "fdatasync", fdatasync)
    return clock


@pytest.fixture
def owner(tmp_path: Path, clock: Clock) -> Iterator[Owner]:
    """Yield the owner of a storage that has measured its disk as fast."""
    owner = Owner(directories_with(tmp_path, range(1, 3)), clock_ns=clock)
    for token in range(WINDOW):
        owner.storage.submit([Barrier(token)])
        owner.run_one()
    wait_for_thread(owner.storage)
    owner.tokens.clear()
    yield owner
    owner.storage.close()


def wait_for_thread(storage: Storage) -> None:
    """Wait until the storage thread is idle, so that the next sync can run in the event loop."""
    while not storage.is_quick([]):
        os.sched_yield()


def test_sync_on_a_fast_disk_completes_within_the_call(owner: Owner) -> None:
    effects = [*appends(3), Barrier(100), *appends(4), Barrier(101)]
    assert owner.storage.is_quick(effects)
    owner.storage.carry_out(effects)
    assert owner.tokens == [[100, 101]] and owner.posted.empty()
    assert counters(owner.directories) == [1, 2, 3, 4]
    assert (owner.storage.txns_logged, owner.storage.batch_sizes.count) == (2, 1)


def test_event_loop_appends_to_log_file_created_by_thread(owner: Owner) -> None:
    owner.storage.submit([*appends(3), Barrier(100)])
    owner.run_one()
    wait_for_thread(owner.storage)
    owner.storage.carry_out([*appends(4), Barrier(101)])
    owner.storage.submit([*appends(5), Barrier(102)])
    owner.run_one()
    assert owner.tokens == [[100], [101], [102]]
    assert len(list_logs(owner.directories.log)) == 2
    assert counters(owner.directories) == [1, 2, 3, 4, 5]


def test_sync_after_pending_ones_runs_in_the_storage_thread(owner: Owner) -> None:
    owner.storage.submit([*appends(3), Barrier(100)])
    callback, args = owner.posted.get(timeout=10)
    assert not owner.storage.is_quick([*appends(4), Barrier(101)])
    callback(*args)
    wait_for_thread(owner.storage)
    assert owner.tokens == [[100]]


def test_disk_operations_other_than_appends_run_in_the_thread(owner: Owner) -> None:
    assert not owner.storage.is_quick([SaveAcceptedEpoch(Epoch(2)), Barrier(100)])


def test_large_group_commit_runs_in_the_storage_thread(owner: Owner) -> None:
    few, many = appends(*range(3, 3 + WAIT_TXNS_MAX)), appends(*range(3, 4 + WAIT_TXNS_MAX))
    assert owner.storage.is_quick(few) and not owner.storage.is_quick(many)


def test_slow_sync_in_the_event_loop_moves_the_next_to_a_thread(owner: Owner, clock: Clock) -> None:
    effects: list[Effect] = [*appends(3), Barrier(100)]
    clock.sync_ns = STALL_NS
    owner.storage.carry_out(effects)
    assert owner.tokens == [[100]] and not owner.storage.is_quick(effects)


def test_slow_syncs_in_the_thread_mark_the_disk_as_slow(owner: Owner, clock: Clock) -> None:
    clock.sync_ns = 2 * MS
    for token in range(100, 100 + WINDOW):
        owner.storage.submit([*appends(token), Barrier(token)])
        owner.run_one()
    assert not owner.storage.is_quick([])


@pytest.mark.parametrize(
    ("number", "line"),
    [(errno.EIO, "the disk failed: [Errno 5] trouble"), (errno.ENOSPC, "the disk is full: this server stops")],
)
def test_disk_failure_in_event_loop_is_final_and_reported_once(
    owner: Owner, number: int, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk failure in the event loop is reported once, and no later write succeeds, as in the storage thread."""

    def fail(descriptor: int) -> None:
        raise OSError(number, "trouble")

    monkeypatch.setattr(HOST, "fdatasync", fail)
    owner.storage.carry_out([*appends(3), Barrier(100)])
    more: list[Effect] = [*appends(4), Barrier(101)]
    assert not owner.storage.is_quick(more)
    owner.storage.submit(more)
    owner.storage.close()
    assert owner.tokens == [] and owner.posted.empty()
    assert len(owner.failures) == 1 and owner.failures[0].startswith(line)
    monkeypatch.undo()
    assert counters(owner.directories) in ([1, 2], [1, 2, 3])
