"""Random outages of a compacted partition: all invariants hold, and each injected bug violates one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.broker_sim.replication.compacted_outages import CompactedOutages
from tests.broker_sim.replication.replication_cluster import Cluster
from zabka.broker_sim.logs import cleaner, partition_log
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.logs.segment import Segment
from zabka.broker_sim.replication import following
from zabka.kafka.record_batch import Record

STEPS = 60


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    Cluster.stop_all()


def wrong_in(seed: int) -> list[str]:
    outages = CompactedOutages(seed)
    outages.play(STEPS)
    return outages.wrong()


@pytest.mark.parametrize("seed", range(40))
def test_latest_acknowledged_record_of_each_key_survives_faults(seed: int) -> None:
    assert wrong_in(seed) == []


def drop_tombstones_at_once(self: Any, _: bool, record: Record) -> bool:
    """Injected bug: compaction removes tombstones immediately, even if other replicas have not fetched them yet."""
    is_last = record.key is not None and record.offset >= self.keys.get(record.key)
    return record.offset >= self.end or (is_last and record.value is not None)


def go_on_after_a_truncation(log: PartitionLog, _: int, segment: Segment) -> bool:
    """Injected bug: a compaction that runs during a truncation continues with the log's state from before the
    truncation.
    """
    return log.is_closed or segment not in log.segments


def return_nothing(*_: Any) -> bytes:
    """Injected bug: the leader returns no bytes for a compaction gap."""
    return b""


@pytest.mark.parametrize(
    ("at", "name", "mistake", "seed", "shown"),
    [
        (cleaner._Pass, "_stays", drop_tombstones_at_once, 1, "of a the last is at None"),
        (cleaner, "_is_gone", go_on_after_a_truncation, 324, "was acknowledged as"),
        (partition_log, "empty_batches", return_nothing, 0, "the condition is not reached"),
        (following, "is_compacted", lambda _: False, 0, "epoch and offset name one batch"),
    ],
)
def test_injected_bug_fails_a_seed_that_passes_without_it(
    monkeypatch: pytest.MonkeyPatch, at: Any, name: str, mistake: Any, seed: int, shown: str
) -> None:
    assert wrong_in(seed) == []
    monkeypatch.setattr(at, name, mistake)
    try:
        found = wrong_in(seed)
    except AssertionError as stuck:
        found = [str(stuck)]
    assert any(shown in each for each in found), found[:3]
