"""What gaps that compaction leaves mean for truncation and for retention."""

from __future__ import annotations

import pytest

from broker_sim.logs import retention
from broker_sim.logs.partition_log import PartitionLog
from kafka_protocol.record_batch import Record, build_batch
from tests.broker_sim.logs.small_log import a_log, append, read_all, run_compaction
from tests.broker_sim.replication.replication_cluster import Cluster


def with_gap() -> PartitionLog:
    """Records at 8 and 9; what was at 0 to 7 is compacted away."""
    log = a_log(1 << 20)
    for key in "aaaaaaaaa":
        append(log, (key, "v"))
    log.roll()
    append(log, ("a", "v"))
    run_compaction(log)
    assert [offset for offset, *_ in read_all(log)] == [8, 9]
    return log


@pytest.mark.parametrize("offset", [0, 1, 5, 8])
def test_a_log_that_is_cut_in_a_gap_ends_where_it_was_cut(offset: int) -> None:
    log = with_gap()
    assert (log.truncate_to(offset), log.end_offset, read_all(log)) == (offset, offset, [])


def test_a_compacted_replica_follows_an_unclean_leader_that_ends_in_its_gap() -> None:
    cluster = Cluster(2, log_segment_bytes=700, log_cleaner_backoff_ms=100)
    cluster.topic_configs["orders"] = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    cluster.create([1, 2])

    def produce(broker_id: int, keys: str) -> None:
        for key in keys:
            cluster.until(cluster.produce_later(broker_id, build_batch([Record(key.encode(), b"v", 1_000)])).done)

    produce(1, "aaaaa")
    cluster.settle()
    cluster.kill(2)
    cluster.elect(1, [1])
    produce(1, "aaabaa")
    cluster.run(1_000)
    assert [segment.size > 0 for segment in cluster[1].partition.log.segments] == [True, True]
    assert len(cluster[1].values) < 6, "what broker 2 has of the key is gone here"
    cluster.kill(1)
    cluster.restart(2)
    cluster.elect(2, [2], unclean=True)
    produce(2, "c")
    cluster.restart(1)
    cluster.until(lambda: 1 in cluster[2].partition.isr_state.isr)
    assert cluster[1].partition.log.end_offset == cluster[2].partition.log.end_offset == 6


def test_a_first_segment_that_compaction_emptied_keeps_no_older_records_than_retention_does() -> None:
    """As with cleanup.policy=compact,delete: Kafka goes by when an empty segment was written to last."""
    log = a_log(100)
    for at_ms in (10, 20, 30, 40):
        append(log, ("k", "v"), at_ms=at_ms)
    run_compaction(log)
    assert [segment.size > 0 for segment in log.segments] == [False, True, True]
    assert retention.drop_older(log, 10, 40) == 0, "nothing is too old, and reading from the log's start goes on"
    assert retention.drop_older(log, 10, 41) == 2
    assert (log.start_offset, [offset for offset, *_ in read_all(log)]) == (3, [3])
    assert retention.drop_older(log, 10, 1_000) == 1
    assert (log.start_offset, log.end_offset, log.size_bytes) == (4, 4, 0)
