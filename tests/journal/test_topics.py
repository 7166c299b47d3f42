"""Topics in the folded state: a recreated topic has none of the state of the earlier topic."""

from __future__ import annotations

from zabka.journal import events as e
from zabka.journal.events import Entry, Event
from zabka.journal.fold import fold


def as_entries(*events: Event) -> list[Entry]:
    return [Entry("broker-1", at, at * 1_000_000, 0, event) for at, event in enumerate(events, start=1)]


def elected(leader: int, leader_epoch: int, partition_epoch: int) -> e.LeaderElected:
    return e.LeaderElected("t", 0, leader, leader_epoch, [leader], [leader], partition_epoch, 1, False, "new")


def test_recreated_topic_is_new_even_without_a_deletion_event() -> None:
    """A recreated topic is new even if the deletion of the earlier one was not journaled.

    A controller can delete a topic's last znode and die before it journals the deletion. Before the fix, elections of
    the new topic's leaders were ignored as late events of the old topic.
    """
    state = fold(
        as_entries(
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


def test_repeated_topic_creation_event_does_not_reset_the_topic() -> None:
    made = e.TopicCreated("t", "first", {0: [1]})
    state = fold(as_entries(made, elected(1, 7, 9), made))
    assert [partition.leader_epoch for partition in state.partitions.values()] == [7]
