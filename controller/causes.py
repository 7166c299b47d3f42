"""The cause of the controller's current decisions.

A controller processes one event after the other, so one cause holds at a time: the transaction that fired a watch, a
request, a timer, or an earlier event of this node's own journal that resulted from one of these. A decision that
answers the loss or the return of a broker names that as its cause, because several brokers may have gone or returned at
once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zabka.journal.cause import UNKNOWN, Cause, absence_cause
from zabka.journal.events import TopicPartition


class CurrentCauses:
    """Holds `cause`, the default cause of the decisions of one event.

    `lost` and `returned` hold the cause of the end or begin of each broker's registration that this event is about.
    """

    __slots__ = ("_topics", "cause", "lost", "returned")

    def __init__(self) -> None:
        self.cause = UNKNOWN
        self.lost: dict[int, Cause] = {}
        self.returned: dict[int, Cause] = {}
        self._topics: dict[str, Cause] = {}

    def start_event(self, cause: Cause) -> None:
        """Set the cause of the next event."""
        self.cause = cause
        self.lost.clear()
        self.returned.clear()
        self._topics.clear()

    def about_topic(self, topic: str, cause: Cause) -> None:
        """Set the cause of decisions about that topic, until the next event."""
        self._topics[topic] = cause

    def of(self, partition: TopicPartition, missed: Sequence[int], leader: int, alive: Collection[int]) -> Cause:
        """Return the cause of a decision about a partition.

        `missed` are brokers that led it or were in sync and no longer do, the most important first; `leader` leads from
        now on.
        """
        for broker_id in missed:
            if broker_id in self.lost:
                return self.lost[broker_id]
            if broker_id not in alive:
                return absence_cause(broker_id)
        return self._topics.get(partition.topic) or self.returned.get(leader) or self.cause
