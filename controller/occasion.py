"""What a controller acts upon just now: whatever it decides names it as its cause.

A controller processes one event after the other, so there is one occasion at a time: the transaction that a watch told
of, a request, a timer, or an event of this node's own journal that says what it made of one of these.  Where a decision
answers the loss or the return of a broker it names that, for several may have gone or come at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zabka.journal.cause import UNKNOWN, Cause, absence_cause
from zabka.journal.events import TopicPartition


class Occasion:
    """`cause` holds for every decision, but for those that have one of their own.

    `lost` and `returned` hold what ended or began each broker's registration that this event is about.
    """

    __slots__ = ("_topics", "cause", "lost", "returned")

    def __init__(self) -> None:
        self.cause = UNKNOWN
        self.lost: dict[int, Cause] = {}
        self.returned: dict[int, Cause] = {}
        self._topics: dict[str, Cause] = {}

    def start_event(self, cause: Cause) -> None:
        """The next event is processed."""
        self.cause = cause
        self.lost.clear()
        self.returned.clear()
        self._topics.clear()

    def about_topic(self, topic: str, cause: Cause) -> None:
        """Decisions about that topic have this cause, until the next event."""
        self._topics[topic] = cause

    def of(self, partition: TopicPartition, missed: Sequence[int], leader: int, alive: Collection[int]) -> Cause:
        """The cause of a decision about that partition: `missed` led it or were in sync, the most important first, and
        do so no longer; `leader` leads it from now on."""
        for broker_id in missed:
            if broker_id in self.lost:
                return self.lost[broker_id]
            if broker_id not in alive:
                return absence_cause(broker_id)
        return self._topics.get(partition.topic) or self.returned.get(leader) or self.cause
