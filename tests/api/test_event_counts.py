"""What the metrics count of the journal."""

from __future__ import annotations

from zabka.api.collector.event_counts import EventCounts
from zabka.journal.events import Entry, Event, IsrChanged, LeaderElected, TopicDeleted


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


def test_a_topic_that_is_deleted_leaves_no_size_of_its_isr_behind() -> None:
    told = counted(elected("t", [1, 2, 3]), elected("other", [1, 2]), TopicDeleted("t")).as_counts()
    assert told.isr_sizes == [("other", 0, 2)]


def test_the_isr_of_a_topic_made_anew_is_not_counted_against_that_of_the_deleted_one() -> None:
    first = (elected("t", [1, 2, 3]), changed("t", [1, 2]), TopicDeleted("t"))
    assert counted(*first, changed("t", [1])).isr == {(1, "shrinks"): 1}
    assert counted(*first, elected("t", [1]), changed("t", [1, 2])).isr == {(1, "shrinks"): 1, (1, "expands"): 1}
