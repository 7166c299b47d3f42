"""When the next snapshot is due: after snapCount transactions if it is set, or else when the log is large enough."""

from __future__ import annotations

import pytest

from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.records import OpCode
from zabka.ensemble.txn import SetDataTxn, Txn
from zabka.ensemble.zab.application import EnsembleConfig
from zabka.ensemble.zab.snapshot_pace import SnapshotPace


class Draws:
    """Random source that always returns the smallest or always the largest number of a range."""

    def __init__(self, largest: bool = True) -> None:
        self._largest = largest

    def randrange(self, start: int, stop: int) -> int:
        return stop - 1 if self._largest else start


def write(size: int) -> Txn:
    return Txn(SessionId(1), 1, Zxid(1), 1, OpCode.SET_DATA, SetDataTxn("/a", b"", 1), raw=bytes(size))


def pace(tree_bytes: int, largest: bool = True, limit_bytes: int = 0, **counts: int) -> SnapshotPace:
    """Return the snapshot schedule of a peer whose last snapshot had `tree_bytes` bytes."""
    config = EnsembleConfig(1, (1,), snap_size_limit_bytes=limit_bytes, **counts)
    made = SnapshotPace(config, Draws(largest))  # type: ignore[arg-type]
    made.taken(tree_bytes)
    return made


def due_after(made: SnapshotPace, size: int = 100) -> int:
    """Return the number of applied transactions of size `size` after which a snapshot is due."""
    count = 0
    while not made.is_due:
        made.count([write(size)])
        count += 1
    return count


@pytest.mark.parametrize(("largest", "count"), [(True, 40), (False, 20)])
def test_configured_snap_count_is_used_for_any_tree_size(largest: bool, count: int) -> None:
    assert due_after(pace(10**9, largest, snap_count=40, snap_count_max=40)) == count


def test_snapshot_of_a_large_tree_waits_for_an_equally_large_log() -> None:
    assert due_after(pace(30_000, snap_count=40, snap_count_max=4000)) == 300


def test_snapshot_of_a_small_tree_waits_for_snap_count_txns() -> None:
    assert due_after(pace(200, snap_count=40, snap_count_max=4000)) == 40


@pytest.mark.parametrize(("largest", "count"), [(True, 400), (False, 200)])
def test_snapshot_becomes_due_no_later_than_the_replay_limit(largest: bool, count: int) -> None:
    assert due_after(pace(10**9, largest, snap_count=40, snap_count_max=400)) == count


@pytest.mark.parametrize(("largest", "count"), [(True, 10), (False, 5)])
def test_log_size_limit_triggers_a_snapshot_before_snap_count(largest: bool, count: int) -> None:
    assert due_after(pace(10**9, largest, limit_bytes=1000, snap_count=40, snap_count_max=400)) == count


def test_forced_snapshot_is_due_immediately() -> None:
    made = pace(10**9, snap_count=40, snap_count_max=400)
    made.force()
    assert made.is_due


def test_replaced_history_restarts_the_count_to_a_snapshot() -> None:
    made = pace(30_000, snap_count=40, snap_count_max=4000)
    made.count([write(100)] * 250)
    made.replaced(10_000)
    assert due_after(made) == 100


def test_snapshot_defaults_equal_those_of_zookeeper() -> None:
    """The defaults of the snapshot and log settings are ZooKeeper's.

    ZooKeeper defines them in ZooKeeperServer.getSnapCount and snapSizeLimitInKb, and in ZKDatabase's commitLogCount and
    snapshotSizeFactor. Session timeouts are -1, which means that they are computed from tickTime.
    """
    config = EnsembleConfig(1, (1,))
    assert (config.snap_count, config.snap_size_limit_bytes) == (100_000, 4_194_304 * 1024)
    assert (config.committed_log_length, config.snapshot_size_factor) == (500, 0.33)
    assert (config.min_session_timeout_ms, config.max_session_timeout_ms) == (-1, -1)
