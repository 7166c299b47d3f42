"""Produce, replicate, acknowledge and fetch records while there are no faults."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.replication.replication_cluster import TP, Channel, Cluster, at_once, batch
from zabka.broker_sim.ports import FetchParams, FetchPartition
from zabka.journal import events as e
from zabka.kafka.record_batch import Record, build_batch, decode_records


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(3)
    made.create([1, 2, 3])
    return made


def test_records_reach_every_follower_byte_for_byte(cluster: Cluster) -> None:
    for i in range(20):
        assert cluster.produce(1, f"a{i}", f"b{i}").base_offset == 2 * i
    cluster.settle()
    logs = [cluster[b].partition.log for b in (1, 2, 3)]
    assert [log.end_offset for log in logs] == [40, 40, 40]
    assert len({log.read(0, 1 << 20, 40, True) for log in logs}) == 1
    assert cluster.violations() == []


def test_acks_all_waits_for_the_isr_and_acks_one_does_not(cluster: Cluster) -> None:
    cluster.cut_link(1, 3)
    cluster.run(600)
    one = cluster.produce_later(1, batch("x"), acks=1)
    every = cluster.produce_later(1, batch("y"), acks=-1)
    assert one.done() and not every.done()
    cluster.run(300)
    assert not every.done()
    cluster.until(every.done)
    assert every.result()[0].error == 0
    assert cluster[1].partition.isr_state.isr == (1, 2), "the smaller ISR committed it"


def test_acks_all_times_out_while_the_isr_lags() -> None:
    cluster = Cluster(2, replica_lag_time_max_ms=60_000)
    cluster.create([1, 2])
    cluster.cut_link(1, 2)
    assert cluster.produce(1, "x", timeout_ms=300).error == ErrorCode.request_timed_out
    assert cluster.now_ms == 300


def test_acks_zero_returns_immediately_without_acknowledgement(cluster: Cluster) -> None:
    answer = cluster.produce_later(1, batch("x"), acks=0)
    assert answer.done() and answer.result()[0].error == 0
    cluster.settle()
    assert cluster.events(e.RecordsAcknowledged) == []
    assert cluster.events(e.RecordsAppended)[0].checksum == cluster.events(e.RecordsReplicated, 2)[0].checksum


def test_acks_value_other_than_minus_1_0_and_1_is_rejected(cluster: Cluster) -> None:
    assert cluster.produce(1, "x", acks=2).error == ErrorCode.invalid_required_acks


def test_rejected_produce_has_no_offset_or_timestamp(cluster: Cluster) -> None:
    """A rejected produce gets INVALID_OFFSET for both offsets, and NO_TIMESTAMP.

    ProduceResponse.PartitionResponse has these values in an error response.
    """
    row = cluster.produce(2, "x")
    assert (row.error, row.base_offset, row.log_append_time_ms, row.log_start_offset) == (
        ErrorCode.not_leader_or_follower, -1, -1, -1
    )  # fmt: skip
    (row,) = cluster.produce_later(1, bytes(40), acks=1).result()
    assert (row.error, row.base_offset, row.log_append_time_ms) == (ErrorCode.corrupt_message, -1, -1)


def test_min_insync_replicas_applies_only_to_acks_all() -> None:
    cluster = Cluster(2, min_insync_replicas=2)
    cluster.create([1, 2])
    cluster.kill(2)
    cluster.elect(1, [1])
    assert cluster.produce(1, "x").error == ErrorCode.not_enough_replicas
    assert cluster.produce(1, "x", acks=1).error == 0


def test_acks_all_fails_after_the_append_if_the_isr_has_shrunk() -> None:
    cluster = Cluster(2)
    cluster.create([1, 2])
    cluster.produce(1, "x")
    cluster.kill(2)
    cluster.elect(1, [1])
    assert cluster[1].partition.acks_all_state(1, 0) == 0
    cluster.topic_configs["orders"] = {"min.insync.replicas": "2"}
    assert cluster[1].partition.acks_all_state(1, 0) == 0, "the change is not applied yet"
    cluster[1].manager.topic_configs_changed(["orders"])
    assert cluster[1].partition.acks_all_state(1, 0) == ErrorCode.not_enough_replicas_after_append
    assert cluster[1].partition.acks_all_state(2, 0) is None


def test_min_isr_is_limited_to_the_replica_count() -> None:
    cluster = Cluster(1, min_insync_replicas=3)
    cluster.create([1])
    assert cluster.produce(1, "x").error == 0


def test_produce_to_a_follower_or_unknown_partition_is_rejected(cluster: Cluster) -> None:
    assert cluster.produce(2, "x").error == ErrorCode.not_leader_or_follower
    unknown = e.TopicPartition("nowhere", 3)
    assert cluster.produce(1, "x", topic_partition=unknown).error == ErrorCode.not_leader_or_follower


def test_waiting_produce_fails_if_its_leader_is_replaced() -> None:
    cluster = Cluster(2, replica_lag_time_max_ms=60_000)
    cluster.create([1, 2])
    cluster.cut_link(1, 2)
    answer = cluster.produce_later(1, batch("x"))
    cluster.run(100)
    cluster.elect(2, [2])
    assert answer.result()[0].error == ErrorCode.not_leader_or_follower


def test_consumer_reads_to_the_hw_and_follower_to_the_log_end() -> None:
    cluster = Cluster(2, replica_lag_time_max_ms=60_000)
    cluster.create([1, 2])
    cluster.produce(1, "a")
    cluster.settle()
    cluster.cut_link(1, 2)
    cluster.produce(1, "b", acks=1)
    consumer = cluster.fetch(1, 0, max_wait_ms=0)
    assert (consumer.high_watermark, [r.value for r in decode_records(consumer.records)]) == (1, [b"a"])
    follower = cluster.fetch(1, 1, max_wait_ms=0, replica_id=2, epoch=0, last_epoch=0)
    assert [r.value for r in decode_records(follower.records)] == [b"b"]


def test_fetch_at_the_log_end_waits_for_data_up_to_max_wait(cluster: Cluster) -> None:
    cluster.produce(1, "a")
    started = cluster.now_ms
    empty = cluster.fetch(1, 1, max_wait_ms=200)
    assert empty.records == b"" and cluster.now_ms - started == 200
    waiting = cluster.fetch_later(1, 1, max_wait_ms=10_000)
    cluster.run(300)
    assert not waiting.done()
    cluster.produce(1, "b")
    assert waiting.done()
    assert [r.value for r in decode_records(waiting.result()[0].records)] == [b"b"]


def test_fetch_waits_for_min_bytes(cluster: Cluster) -> None:
    size = len(batch("a"))
    waiting = cluster.fetch_later(1, 0, max_wait_ms=60_000, min_bytes=2 * size)
    cluster.produce(1, "a")
    assert not waiting.done()
    cluster.produce(1, "b")
    assert waiting.done() and len(waiting.result()[0].records) == 2 * size


def test_fetch_of_an_older_segment_does_not_wait_for_min_bytes(cluster: Cluster) -> None:
    """A fetch from an older segment returns immediately, because no new record can be appended to that segment.

    This is case F in Kafka's DelayedFetch.
    """
    cluster[1].partition.log.segment_bytes = 1
    cluster.produce(1, "x")
    cluster.produce(1, "y")
    answer = cluster.fetch_later(1, 0, max_wait_ms=60_000, min_bytes=1 << 20)
    assert answer.done() and decode_records(answer.result()[0].records)[0].value == b"x"
    assert not cluster.fetch_later(1, 1, max_wait_ms=60_000, min_bytes=1 << 20).done()


def test_waiting_fetch_completes_when_its_segment_rolls(cluster: Cluster) -> None:
    cluster.produce(1, "x")
    waiting = cluster.fetch_later(1, 0, max_wait_ms=60_000, min_bytes=1 << 20)
    cluster[1].partition.log.segment_bytes = 1
    assert not waiting.done()
    cluster.produce(1, "y")
    assert waiting.done()


def test_fetch_returns_whole_batches_and_at_least_one(cluster: Cluster) -> None:
    size = len(batch("a"))
    for value in "abc":
        cluster.produce(1, value)
    assert len(cluster.fetch(1, 0, max_bytes=2 * size + 5).records) == 2 * size
    assert len(cluster.fetch(1, 0, max_bytes=1).records) == size


def test_fetch_of_an_offset_out_of_range_fails_immediately(cluster: Cluster) -> None:
    cluster.produce(1, "a")
    assert cluster.fetch(1, 7, max_wait_ms=10_000).error == ErrorCode.offset_out_of_range
    assert cluster.now_ms < 1_000


def test_fetch_with_another_leader_epoch_is_fenced(cluster: Cluster) -> None:
    cluster.elect(1, [1, 2, 3])
    assert cluster.fetch(1, 0, epoch=0).error == ErrorCode.fenced_leader_epoch
    assert cluster.fetch(1, 0, epoch=2).error == ErrorCode.unknown_leader_epoch
    assert cluster.fetch(2, 0, epoch=1).error == ErrorCode.not_leader_or_follower
    assert cluster.fetch(1, 0, epoch=1, max_wait_ms=0).error == 0


def test_waiting_fetch_fails_immediately_when_the_leader_changes(cluster: Cluster) -> None:
    waiting = cluster.fetch_later(1, 0, max_wait_ms=60_000, epoch=0)
    cluster.elect(2, [1, 2, 3])
    assert waiting.result()[0].error == ErrorCode.fenced_leader_epoch


def test_fetch_by_a_broker_without_a_replica_is_rejected(cluster: Cluster) -> None:
    assert cluster.fetch(1, 0, replica_id=8, epoch=0).error == ErrorCode.unknown_leader_epoch
    assert cluster.fetch(1, 0, replica_id=8).error == ErrorCode.not_leader_or_follower


@pytest.mark.parametrize("producer_id", [0, 5])
def test_idempotent_retry_returns_the_original_offsets(cluster: Cluster, producer_id: int) -> None:
    def send(sequence: int, epoch: int = 0) -> tuple[int, int]:
        data = batch("a", "b", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        answer = cluster.produce_later(1, data)
        cluster.until(answer.done)
        return answer.result()[0].error, answer.result()[0].base_offset

    assert send(0) == (0, 0)
    assert send(2) == (0, 2)
    assert send(0) == (0, 0)
    assert send(2) == (0, 2)
    assert send(6)[0] == ErrorCode.out_of_order_sequence_number
    assert send(4) == (0, 4)
    assert send(0, epoch=1) == (0, 6)
    assert send(8, epoch=0)[0] == ErrorCode.invalid_producer_epoch
    assert send(7, epoch=2)[0] == ErrorCode.out_of_order_sequence_number
    assert cluster[1].partition.log.end_offset == 8


def test_retry_with_acks_all_waits_until_the_record_is_committed() -> None:
    cluster = Cluster(2, replica_lag_time_max_ms=60_000)
    cluster.create([1, 2])
    cluster.cut_link(1, 2)
    data = batch("a", producer_id=5, producer_epoch=0, base_sequence=0)
    assert cluster.produce_later(1, data, acks=1).done()
    again = cluster.produce_later(1, data, acks=-1)
    assert not again.done()
    cluster.heal()
    cluster.until(again.done)
    assert (again.result()[0].error, again.result()[0].base_offset) == (0, 0)


def test_next_leader_restores_idempotent_producer_state(cluster: Cluster) -> None:
    data = batch("a", producer_id=5, producer_epoch=0, base_sequence=0)
    cluster.until(cluster.produce_later(1, data).done)
    cluster.settle()
    cluster.elect(2, [1, 2, 3])
    answer = cluster.produce_later(2, data)
    cluster.until(answer.done)
    assert answer.result()[0].base_offset == 0 and cluster[2].partition.log.end_offset == 1


def test_damaged_and_oversized_batches_are_rejected(cluster: Cluster) -> None:
    good = batch("hello")
    cases = {
        good[:-1] + bytes([good[-1] ^ 1]): ErrorCode.corrupt_message,
        good[:16] + b"\x01" + good[17:]: ErrorCode.corrupt_message,
        bytes(40): ErrorCode.corrupt_message,
        batch("x" * 2_000_000): ErrorCode.message_too_large,
    }
    for data, error in cases.items():
        answer = cluster.produce_later(1, data, acks=1)
        assert answer.result()[0].error == error
    assert cluster[1].partition.log.end_offset == 0


def test_incomplete_batch_is_not_appended(cluster: Cluster) -> None:
    answer = cluster.produce_later(1, batch("hello")[:-3], acks=1)
    assert (answer.result()[0].error, cluster[1].partition.log.end_offset) == (0, 0)


def test_topic_can_override_max_message_bytes(cluster: Cluster) -> None:
    cluster.topic_configs["orders"] = {"max.message.bytes": "100"}
    assert cluster.produce(1, "x" * 500).error == 0
    cluster[1].manager.topic_configs_changed(["orders"])
    assert cluster.produce(1, "x" * 500).error == ErrorCode.message_too_large


def test_produce_with_two_batches_for_a_partition_is_rejected(cluster: Cluster) -> None:
    answer = cluster.produce_later(1, batch("a", "b") + batch("c"))
    cluster.until(answer.done)
    assert answer.result()[0].error == ErrorCode.invalid_record
    assert cluster[1].partition.log.end_offset == 0


def test_list_offsets_finds_offsets_by_timestamp(cluster: Cluster) -> None:
    cluster.produce(1, "a", "b", "c")
    cluster.produce(1, "d")
    manager = cluster[1].manager
    assert at_once(manager.list_offset(TP, -2, -1, False)) == (0, -1, 0, 0)
    assert at_once(manager.list_offset(TP, -1, 0, False)) == (0, -1, 4, 0)
    assert at_once(manager.list_offset(TP, 1_001, -1, False)) == (0, 1_001, 1, 0)
    assert at_once(manager.list_offset(TP, 5_000, -1, False)) == (0, -1, -1, -1)
    assert at_once(manager.list_offset(TP, -3, -1, False)) == (0, 1_002, 2, 0)
    assert at_once(manager.list_offset(TP, -1, 3, False))[0] == ErrorCode.unknown_leader_epoch


def test_replica_progress_is_journaled_up_to_four_times_a_second(cluster: Cluster) -> None:
    for _ in range(50):
        cluster.produce(1, "x")
        cluster.run(20)
    cluster.run(1_000)
    rows = cluster.events(e.ReplicaProgressed, 1)
    assert 2 <= len(rows) <= 10
    assert rows[-1].replicas == [("orders", 0, 50, 50)]


def test_many_partitions_share_one_fetcher_and_all_progress() -> None:
    cluster = Cluster(2)
    names = [e.TopicPartition("orders", number) for number in range(30)]
    for name in names:
        cluster.create([1, 2], name)
    answers = [cluster.produce_later(1, batch(str(name)), topic_partition=name) for name in names]
    cluster.until(lambda: all(answer.done() for answer in answers))
    assert [answer.result()[0].error for answer in answers] == [0] * 30
    assert cluster.now_ms < 1_100


def test_follower_lists_a_forgotten_partition_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that stops fetching a partition lists it as forgotten in one request only.

    If the partition stayed in the requests, the leader would return it in every response, which restarts the session
    each time.
    """
    cluster = Cluster(2)
    for name in (TP, e.TopicPartition("orders", 1)):
        cluster.create([1, 2], name)
    cluster.run(1_000)
    asked: list[Any] = []
    call = Channel.call

    def note(channel: Channel, to: Any, message: Any, timeout_ms: int) -> Any:
        asked.append(message)
        return call(channel, to, message, timeout_ms)

    monkeypatch.setattr(Channel, "call", note)
    cluster[2].manager.stop_replica(cluster.stop_replica(0, False))
    cluster.run(3_000)
    forgotten = [row for each in asked for topic in each.forgotten_topics_data for row in topic.partitions]
    assert forgotten == [0] and all(each.session_epoch > 0 for each in asked)


def test_idempotent_producer_survives_a_kill_and_a_clean_stop(cluster: Cluster) -> None:
    def send(broker_id: int, sequence: int) -> tuple[int, int]:
        data = batch("a", producer_id=5, producer_epoch=0, base_sequence=sequence)
        answer = cluster.produce_later(broker_id, data)
        cluster.until(answer.done)
        return answer.result()[0].error, answer.result()[0].base_offset

    for sequence in range(7):
        assert send(1, sequence) == (0, sequence)
    cluster.settle()
    cluster.kill(1)
    cluster.elect(2, [2, 3])
    assert send(2, 6) == (0, 6), "repeated to the next leader"
    assert send(2, 8)[0] == ErrorCode.out_of_order_sequence_number
    cluster.restart(1)
    cluster.until(lambda: 1 in cluster[2].partition.isr_state.isr)
    cluster.restart(2)
    cluster.elect(1, [1, 3])
    assert send(1, 6) == (0, 6)
    assert send(1, 0)[0] == ErrorCode.out_of_order_sequence_number, "only the last five batches are remembered"
    assert send(1, 7) == (0, 7)


def test_sequence_numbers_wrap_at_the_largest_int(cluster: Cluster) -> None:
    largest = 2**31 - 1

    def send(*values: str, sequence: int) -> int:
        data = batch(*values, producer_id=5, producer_epoch=0, base_sequence=sequence)
        answer = cluster.produce_later(1, data)
        cluster.until(answer.done)
        return int(answer.result()[0].error)

    assert send("a", sequence=largest - 1) == 0, "an unknown producer can start with any sequence"
    assert send("b", "c", sequence=largest) == 0
    assert send("d", sequence=1) == 0
    assert send("e", sequence=3) == ErrorCode.out_of_order_sequence_number


def test_topic_can_use_log_append_time(cluster: Cluster) -> None:
    cluster.topic_configs["orders"] = {"message.timestamp.type": "LogAppendTime"}
    cluster[1].manager.topic_configs_changed(["orders"])
    row = cluster.produce(1, "a", "b")
    now_ms = cluster[1].runtime.now().wall_ms
    assert now_ms - 1_000 < row.log_append_time_ms <= now_ms
    cluster.settle()
    records = decode_records(cluster.fetch(2, 0, epoch=-1, replica_id=-2).records)
    assert [r.timestamp_ms for r in records] == [row.log_append_time_ms] * 2, "the checksum is correct"
    assert at_once(cluster[1].manager.list_offset(TP, row.log_append_time_ms, -1, False))[1:3] == (
        row.log_append_time_ms,
        0,
    )


def test_compacted_topic_rejects_records_without_a_key(cluster: Cluster) -> None:
    cluster.topic_configs["orders"] = {"cleanup.policy": "compact"}
    cluster[1].manager.topic_configs_changed(["orders"])
    assert cluster.produce(1, "without a key").error == ErrorCode.invalid_record
    answer = cluster.produce_later(1, build_batch([Record(b"k", b"v", 1_000)]))
    cluster.until(answer.done)
    assert answer.result()[0].error == 0


@pytest.mark.parametrize(("spare_bytes", "error"), [(0, ErrorCode.none), (-1, ErrorCode.record_list_too_large)])
def test_records_larger_than_a_segment_are_rejected(spare_bytes: int, error: ErrorCode) -> None:
    """A Produce request is rejected if its records exceed segment.bytes.

    UnifiedLog.append raises RecordBatchTooLargeException in this case.
    """
    cluster = Cluster(1)
    data = batch("x" * 100)
    cluster.topic_configs["orders"] = {"segment.bytes": str(len(data) + spare_bytes)}
    cluster.create([1])
    (row,) = cluster.produce_later(1, data, acks=1).result()
    assert row.error == error
    assert cluster[1].partition.log.end_offset == (0 if error else 1)


def test_empty_produce_appends_nothing_and_does_not_wait(cluster: Cluster) -> None:
    """A Produce request without records is acknowledged immediately, and the log does not change.

    UnifiedLog.append returns before it assigns an offset, so the delayed produce waits only for offset 0.
    """
    cluster.cut_link(1, 2)
    cluster.cut_link(1, 3)
    answer = cluster.produce_later(1, b"", acks=-1)
    assert answer.done()
    (row,) = answer.result()
    assert (row.error, row.base_offset, cluster[1].partition.log.end_offset) == (ErrorCode.none, -1, 0)


def test_follower_with_id_0_fetches_uncommitted_records() -> None:
    cluster = Cluster(1)
    cluster.create([1, 0])
    waiting = cluster.fetch_later(1, 0, replica_id=0, epoch=0, max_wait_ms=10_000)
    cluster.produce_later(1, batch("a"), acks=1)
    assert cluster[1].partition.log.high_watermark == 0
    assert waiting.done() and waiting.result()[0].records


def test_follower_with_id_0_does_not_wait_in_an_older_segment() -> None:
    cluster = Cluster(1)
    cluster.create([1, 0])
    cluster[1].partition.log.segment_bytes = 1
    for value in "xy":
        cluster.produce_later(1, batch(value), acks=1)
    assert cluster[1].partition.log.high_watermark == 0
    requested = {"max_wait_ms": 60_000, "min_bytes": 1 << 20}
    assert cluster.fetch_later(1, 0, replica_id=0, epoch=0, **requested).done()
    assert not cluster.fetch_later(1, 0, **requested).done(), "a consumer cannot read anything yet"


def test_waiting_fetch_is_fenced_by_a_new_leader_epoch(cluster: Cluster) -> None:
    waiting = cluster.fetch_later(1, 0, epoch=0, max_wait_ms=10_000)
    assert not waiting.done()
    cluster.elect(1, [1, 2, 3])
    assert waiting.done() and waiting.result()[0].error == ErrorCode.fenced_leader_epoch


def test_only_the_first_partition_can_return_an_oversized_batch(cluster: Cluster) -> None:
    """A batch larger than the limit is returned only for the first partition with records.

    In ReplicaManager.readFromLocalLog, minOneMessage applies only until records have been read.
    """
    names = [TP, TP._replace(partition=1)]
    cluster.create([1, 2, 3], names[1])
    for name in names:
        cluster.produce_later(1, batch("x" * 100), acks=1, topic_partition=name)
    cluster.run(2_000)
    requested = [FetchPartition(name, 0, -1, -1, 1 << 20) for name in names]
    rows = cluster.wait_for(cluster[1].manager.fetch(FetchParams(-1, 0, 1, 10), requested))
    assert [bool(row.records) for row in rows] == [True, False]
    rows = cluster.wait_for(cluster[1].manager.fetch(FetchParams(-1, 0, 1, 1 << 20), requested))
    assert [bool(row.records) for row in rows] == [True, True]
