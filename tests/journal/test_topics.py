"""Topics in the fold: one that is made anew has nothing of the one before it."""

from __future__ import annotations

from zabka.journal import events as e
from zabka.journal.events import Entry, Event
from zabka.journal.fold import fold


def told(*events: Event) -> list[Entry]:
    return [Entry("broker-1", at, at * 1_000_000, 0, event) for at, event in enumerate(events, start=1)]


def elected(leader: int, leader_epoch: int, partition_epoch: int) -> e.LeaderElected:
    return e.LeaderElected("t", 0, leader, leader_epoch, [leader], [leader], partition_epoch, 1, False, "new")


def test_a_topic_that_is_made_anew_is_another_one_though_nobody_told_that_it_was_deleted() -> None:
    """A controller removes the last znode of a topic, and may die before it tells of that.  The leaders of the new one
    passed for late words about the old one."""
    state = fold(
        told(
            e.TopicCreated("t", "first", {0: [1], 1: [1]}),
            e.ConfigChanged("topics/t", {"min.insync.replicas": "2"}),
            elected(1, 7, 9),
            e.ReplicaProgressed(1, [("t", 0, 90, 100)]),
            e.TopicCreated("t", "second", {0: [2]}),
            elected(2, 0, 0),
        )
    )
    [partition] = state.partitions.values()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 0, [2])
    assert partition.high_watermarks == partition.log_end_offsets == {}
    assert (state.topics, state.configs) == ({"t": "second"}, {})


def test_a_topic_that_is_told_again_is_the_same_one() -> None:
    made = e.TopicCreated("t", "first", {0: [1]})
    state = fold(told(made, elected(1, 7, 9), made))
    assert [partition.leader_epoch for partition in state.partitions.values()] == [7]
