"""The cause of the decisions that the controller currently makes, for the journal.

A controller processes one event at a time, so there is one current cause. It is the transaction that fired a watch, a
request, a timer, or an earlier event in this node's own journal that one of these caused. One event can show the
failure or return of several brokers. A decision that follows from one of these has that failure or return as its cause.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zabka.journal.cause import UNKNOWN, Cause, absence_cause
from zabka.journal.events import TopicPartition


class CurrentCauses:
    """The causes of the decisions in one event. `cause` is the default.

    For each broker that the event is about, `lost` contains the cause of the end of its registration, and `returned`
    the cause of its new registration.
    """

    __slots__ = ("_topics", "cause", "lost", "returned")

    def __init__(self) -> None:
        self.cause = UNKNOWN
        self.lost: dict[int, Cause] = {}
        self.returned: dict[int, Cause] = {}
        self._topics: dict[str, Cause] = {}

    def start_event(self, cause: Cause) -> None:
        """Set the default cause for the next event, and clear all other causes."""
        self.cause = cause
        self.lost.clear()
        self.returned.clear()
        self._topics.clear()

    def about_topic(self, topic: str, cause: Cause) -> None:
        """Set the cause of decisions about a topic, until the next event."""
        self._topics[topic] = cause

    def of(self, partition: TopicPartition, missed: Sequence[int], leader: int, alive: Collection[int]) -> Cause:
        """Return the cause of a decision about a partition.

        `missed` are brokers that were leader or ISR members before the decision and no longer are, the most important
        first. `leader` is the new leader.
        """
        for broker_id in missed:
            if broker_id in self.lost:
                return self.lost[broker_id]
            if broker_id not in alive:
                return absence_cause(broker_id)
        return self._topics.get(partition.topic) or self.returned.get(leader) or self.cause
