"""A replica that is made anew out of a compacted log: who compacted tells so, and no checker accuses who leads then."""

from __future__ import annotations

from broker_sim.logs.memory_log_directory import MemoryLogDirectory
from journal import events as e
from journal.events import Entry
from journal.judges.invariants import check
from kafka_protocol.record_batch import Record, build_batch
from tests.broker_sim.replication.replication_cluster import Cluster


def compacting() -> Cluster:
    """Two brokers with a compacted topic, of which both hold nine records of three keys."""
    cluster = Cluster(2, log_segment_bytes=300, log_cleaner_backoff_ms=100)
    cluster.topic_configs["orders"] = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    cluster.create([1, 2])
    for keys in ("ab", "ac", "ba", "bc", "a"):
        cluster.until(
            cluster.produce_later(1, build_batch([Record(key.encode(), b"v", 1_000) for key in keys]), acks=-1).done
        )
    cluster.settle()
    return cluster


def lead_with_a_replica_made_anew(cluster: Cluster) -> None:
    cluster.run(1_000)
    cluster.kill(2, power=True)
    cluster[2].directory = MemoryLogDirectory()
    cluster.elect(1, [1])
    cluster.restart(2)
    cluster.until(lambda: 2 in cluster[1].partition.isr_state.isr)
    cluster.kill(1)
    cluster.elect(2, [2])


def entries_of(cluster: Cluster) -> list[Entry]:
    return [Entry(node, number, number, number, event) for number, (node, event) in enumerate(cluster.journal, 1)]


def test_a_broker_tells_of_every_segment_that_it_compacts() -> None:
    cluster = compacting()
    cluster.run(1_000)
    told = cluster.events(e.LogCompacted, 1)
    assert [(each.first_offset, each.last_offset) for each in told] == [(0, 5)], "6 to 8 are still written to"
    assert all(each.bytes_after < each.bytes_before for each in told)


def test_a_replica_made_anew_of_a_compacted_log_leads_and_nobody_accuses_it() -> None:
    cluster = compacting()
    lead_with_a_replica_made_anew(cluster)
    fetched = cluster.events(e.RecordsReplicated, 2)
    assert any(batch.compacted for batch in fetched), "nothing that compaction had been through was fetched"
    assert check(entries_of(cluster)) == []


def test_had_nobody_told_of_the_compaction_it_would_be_accused() -> None:
    cluster = compacting()
    lead_with_a_replica_made_anew(cluster)
    untold = [entry for entry in entries_of(cluster) if not isinstance(entry.event, e.LogCompacted)]
    assert {violation.invariant for violation in check(untold)} == {"committed and acks=all records survive"}
