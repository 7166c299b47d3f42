"""Counts of journal events in the Prometheus metrics."""

from __future__ import annotations

from zabka.api.collector.event_counts import EventCounts
from zabka.journal.events import Entry, Event, IsrChanged, LeaderElected, TopicDeleted, TransactionChanged


def counted(*events: Event) -> EventCounts:
    counts = EventCounts()
    for number, event in enumerate(events, 1):
        counts.count_event(Entry("broker-1", number, number, number, event))
    return counts


def elected(topic: str, isr: list[int]) -> Event:
    return LeaderElected(topic, 0, 1, 0, isr, [1, 2, 3], 0, 1, False, "new_partition")


def changed(topic: str, isr: list[int]) -> Event:
    return IsrChanged(
        topic=topic, partition=0, leader=1, leader_epoch=0, isr=isr, partition_epoch=1, cause="caught_up"
    )  # fmt: skip


def test_deleted_topic_has_no_isr_size_metric() -> None:
    counts = counted(elected("t", [1, 2, 3]), elected("other", [1, 2]), TopicDeleted("t")).as_counts()
    assert counts.isr_sizes == [("other", 0, 2)]


def test_isr_of_a_recreated_topic_is_not_compared_to_the_old_isr() -> None:
    first = (elected("t", [1, 2, 3]), changed("t", [1, 2]), TopicDeleted("t"))
    assert counted(*first, changed("t", [1])).isr == {(1, "shrinks"): 1}
    assert counted(*first, elected("t", [1]), changed("t", [1, 2])).isr == {(1, "shrinks"): 1, (1, "expands"): 1}


def transaction(state: str, after: str, started_ms: int = -1) -> Event:
    return TransactionChanged(1, "payments", state, 7, 0, ["t-0"], after, started_ms=started_ms)


def test_transactions_are_counted_at_begin_and_decision() -> None:
    """A transaction is counted once, even if partitions are added or another broker becomes its coordinator."""
    counts = counted(
        transaction("Empty", "producer started"),
        transaction("Ongoing", "partitions added", 100),
        transaction("Ongoing", "partitions added", 100),
        transaction("Ongoing", "loaded", 100),
        transaction("PrepareCommit", "ended by its producer", 100),
        transaction("PrepareCommit", "loaded", 100),
        transaction("CompleteCommit", "markers written"),
        transaction("Ongoing", "partitions added", 200),
        transaction("PrepareAbort", "timed out", 200),
        transaction("CompleteAbort", "markers written"),
        transaction("Ongoing", "partitions added", 300),
        transaction("PrepareAbort", "fenced", 300),
        transaction("CompleteAbort", "markers written"),
        transaction("Dead", "expired"),
    )
    assert counts.transactions == {"begun": 3, "committed": 1, "timed_out": 1, "aborted": 1, "expired": 1}


def test_open_transaction_is_counted_once_after_a_restore() -> None:
    begun = counted(transaction("Ongoing", "partitions added", 100)).as_counts()
    counts = EventCounts.of(begun)
    more = transaction("Ongoing", "partitions added", 100), transaction("PrepareCommit", "ended by its producer", 100)
    for number, event in enumerate(more, 2):
        counts.count_event(Entry("broker-1", number, number, number, event))
    assert counts.transactions == {"begun": 1, "committed": 1}
