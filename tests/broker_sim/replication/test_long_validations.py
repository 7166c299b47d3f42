"""Validation of large and of small record batches at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.replication.replication_cluster import TP, Cluster, at_once, batch
from tests.virtual_time.runtime import SimRuntime
from zabka.broker_sim.replication.validation_scheduler import (
    BEGUN_MAX,
    COST_MIN,
    SLICES_AT_ONCE,
    ValidationScheduler,
    cost_of,
)
from zabka.broker_sim.slices import PAUSE_MS
from zabka.journal.events import TopicPartition
from zabka.kafka.compression import Codec
from zabka.kafka.record_batch import Record, build_batch
from zabka.kafka.record_refusals import RecordsRefused
from zabka.kafka.record_rules import Append, TopicRules
from zabka.kafka.record_validation import SLICE_RECORDS, validate
from zabka.simulation.engine.scheduler import Scheduler

MANY = 40 * SLICE_RECORDS
OTHER = TopicPartition("others", 0)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    yield Cluster()
    Cluster.stop_all()


def many(count: int = MANY, key: bytes | None = b"k") -> bytes:
    return build_batch([Record(key, b"v", 1_000 + n) for n in range(count)], codec=Codec.GZIP)


def test_small_batches_proceed_during_validation_of_a_large_one(cluster: Cluster) -> None:
    cluster.create([1])
    cluster.create([1], OTHER)
    long = cluster.produce_later(1, many(), acks=1)
    assert not long.done()
    other = cluster[1].manager.produce([(OTHER, batch("x"))], 1, 1_000)
    assert other.done() and not long.done()  # type: ignore[attr-defined]
    cluster.until(long.done)
    assert (long.result()[0].error, cluster[1].partition.log.end_offset) == (0, MANY)


def wide_request(cluster: Cluster, width: int) -> tuple[list[TopicPartition], Any]:
    partitions = [TopicPartition("wide", number) for number in range(width)]
    for partition in partitions:
        cluster.create([1], partition)
    return partitions, cluster[1].manager.produce([(partition, many(10)) for partition in partitions], 1, 10_000)


def test_immediate_validation_limit_covers_all_partitions(cluster: Cluster) -> None:
    small_at_once = SLICES_AT_ONCE * SLICE_RECORDS // COST_MIN
    partitions, answer = wide_request(cluster, 3 * small_at_once)
    ends = [cluster[1].manager.partitions[partition].log.end_offset for partition in partitions]
    assert ends == [10] * small_at_once + [0] * 2 * small_at_once and not answer.done()
    cluster.until(answer.done)
    assert [row.base_offset for row in answer.result()] == [0] * len(partitions)


def test_small_batches_of_many_partitions_share_event_loop_turns(cluster: Cluster) -> None:
    before = cluster[1].runtime.now().mono_ms
    _, answer = wide_request(cluster, 500)
    cluster.until(answer.done)
    assert cluster[1].runtime.now().mono_ms - before < 100, "46 kB of records in total"


def test_small_batches_do_not_wait_for_validation_of_large_ones(cluster: Cluster) -> None:
    long = [TopicPartition("long", number) for number in range(2 * BEGUN_MAX)]
    for partition in long:
        cluster.create([1], partition)
    slow: Any = cluster[1].manager.produce([(partition, many()) for partition in long], 1, 10_000)
    _, answer = wide_request(cluster, 50)
    cluster.until(answer.done)
    assert not slow.done()
    cluster.until(slow.done)
    assert [row.error for row in slow.result()] == [0] * len(long)


def test_leader_replaced_during_validation_appends_nothing(cluster: Cluster) -> None:
    cluster.create([1, 2, 3])
    long = cluster.produce_later(1, many())
    cluster.elect(2, [1, 2, 3])
    cluster.until(long.done)
    assert long.result()[0].error == ErrorCode.not_leader_or_follower
    assert cluster[1].partition.log.end_offset == 0


def test_append_after_a_leader_epoch_change_is_not_acknowledged(
    cluster: Cluster,
) -> None:
    cluster.create([1, 2, 3])
    cluster.create([1], OTHER)
    cluster.run(10)
    for other in (2, 3):
        cluster.cut_link(1, other)
    both: Any = cluster[1].manager.produce([(TP, batch("lost")), (OTHER, many(10 * MANY))], -1, 30_000)
    cluster.elect(2, [2])
    cluster.heal()
    cluster.produce(2, "instead", acks=1)
    cluster.settle()
    cluster.elect(1, [1, 2, 3])
    cluster.settle()
    assert cluster[1].values == ["instead"] and not both.done()
    cluster.until(both.done)
    assert [row.error for row in both.result()] == [ErrorCode.not_leader_or_follower, 0]
    assert cluster.violations() == []


def test_rejected_batch_error_includes_its_reason(cluster: Cluster) -> None:
    cluster.topic_configs["orders"] = {"cleanup.policy": "compact"}
    cluster.create([1])
    long = cluster.produce_later(1, many(key=None), acks=1)
    cluster.until(long.done)
    (row,) = long.result()
    assert (row.error, row.log_start_offset, row.record_errors[0].batch_index) == (ErrorCode.invalid_record, 0, 0)
    assert f"due to {MANY} record errors" in str(row.error_message)


def test_broker_completes_waiting_requests_when_it_stops(cluster: Cluster) -> None:
    cluster.create([1])
    long = cluster.produce_later(1, many(), acks=1)
    cluster[1].manager.shutdown()
    cluster.until(long.done)
    assert long.result()[0].error != 0


def test_offset_lookup_by_time_yields_in_a_large_batch(cluster: Cluster) -> None:
    cluster.create([1])
    long = cluster.produce_later(1, many(), acks=1)
    cluster.until(long.done)
    with pytest.raises(AssertionError, match="it waits"):
        at_once(cluster[1].manager.list_offset(TP, 1_000 + MANY - 1, -1, True))
    asked = cluster[1].runtime.spawn(cluster[1].manager.list_offset(TP, 1_000 + MANY - 1, -1, True), "asks")
    cluster.until(asked.done)


# ---- validations take turns -------------------------------------------------------------------------------------


class Counted:
    """Fake validation of records that logs each of its steps."""

    def __init__(self, log: list[int], number: int, slices: int) -> None:
        self.log = log
        self.number = number
        self.slices = slices

    def work(self) -> Any:
        for _ in range(self.slices):
            self.log.append(self.number)
            yield
        raise RecordsRefused(87, str(self.number))


def test_validations_take_turns_and_few_run_concurrently() -> None:
    scheduler = Scheduler()
    turns = ValidationScheduler(SimRuntime(scheduler, Random(1)))
    log: list[int] = []
    done: list[str] = []
    for number in range(BEGUN_MAX + 2):
        turns.add(Counted(log, number, 3).work(), lambda outcome: done.append(str(outcome)))
    scheduler.run_until(1_000_000)
    assert log[: 2 * BEGUN_MAX] == [*range(BEGUN_MAX)] * 2
    assert done == [str(number) for number in range(BEGUN_MAX + 2)] and len(turns) == 0


def test_small_validations_share_a_slice_and_take_turns() -> None:
    scheduler = Scheduler()
    turns = ValidationScheduler(SimRuntime(scheduler, Random(1)))
    log: list[int] = []
    seen = []
    for number in (-1, -2):
        turns.add(Counted(log, number, 0).work(), lambda outcome: log.append(-9), 200)
    turns.add(Counted(log, 7, 2).work(), lambda outcome: None)
    turns.add(Counted(log, 0, 0).work(), lambda outcome: log.append(0), COST_MIN)
    for _ in range(5):
        scheduler.step()
        seen.append(log.copy())
        log.clear()
    assert seen == [[-9], [7], [-9, 0], [7], []]


def test_large_batches_are_validated_a_few_at_a_time() -> None:
    scheduler = Scheduler()
    turns = ValidationScheduler(SimRuntime(scheduler, Random(1)))
    log: list[int] = []
    for number in range(5 * BEGUN_MAX):
        turns.add(Counted(log, number, 1_000).work(), lambda outcome: None, COST_MIN)
    scheduler.run_until(100_000)
    assert set(log) == {*range(2 * BEGUN_MAX)}
    done: list[int] = []
    turns.add(Counted(log, -1, 0).work(), lambda outcome: done.append(len(log)), COST_MIN)
    scheduler.run_until(100_000_000)
    assert len(log) == 5 * BEGUN_MAX * 1_000 and done and len(turns) == 0


def test_validation_cost_of_a_batch_is_estimated_from_its_header() -> None:
    assert [cost_of(many(count)) for count in (1, 100, 5_000)] == [COST_MIN, 100, SLICE_RECORDS]
    assert [cost_of(many(1) * 2), cost_of(b"x"), cost_of(bytes(100))] == [SLICE_RECORDS] * 3


def test_one_event_loop_turn_runs_at_most_one_validation_slice() -> None:
    scheduler = Scheduler()
    runtime = SimRuntime(scheduler, Random(1))
    turns = ValidationScheduler(runtime)
    log: list[int] = []
    turns.add(Counted(log, 1, 5).work(), lambda outcome: None)
    seen = []
    for _ in range(5):
        scheduler.step()
        seen.append(len(log))
    assert seen == [1, 2, 3, 4, 5]


def test_every_validation_pauses_after_each_slice() -> None:
    scheduler = Scheduler()
    turns = ValidationScheduler(SimRuntime(scheduler, Random(1)))
    log: list[int] = []
    for number in range(3):
        turns.add(Counted(log, number, 5).work(), lambda outcome: None)
    seen = []
    for turn in range(1, 5):
        scheduler.run_until(turn * PAUSE_MS * 1_000)
        seen.append(len(log))
    assert seen == [1, 2, 3, 4]


def test_request_that_spans_many_turns_waits_for_one_slice_only() -> None:
    runtime = SimRuntime(scheduler := Scheduler(), Random(1))
    turns = ValidationScheduler(runtime)
    log: list[int] = []
    turns.add(Counted(log, 1, 5).work(), lambda outcome: None)
    while not log:
        scheduler.step()

    def take_turns(left: int) -> None:
        if left:
            runtime.call_later(0, lambda: take_turns(left - 1))
        else:
            log.append(-1)

    take_turns(10)
    scheduler.run_until(1_000_000)
    assert log == [1, -1, 1, 1, 1, 1]


def test_sliced_validation_has_the_same_result_as_unsliced() -> None:
    scheduler = Scheduler()
    turns = ValidationScheduler(SimRuntime(scheduler, Random(1)))
    done: list[Any] = []
    data = many()
    turns.add(validate(data, Append(TopicRules(), TP, 0)), done.append)
    scheduler.run_until(1_000_000)
    assert done[0].data is data
