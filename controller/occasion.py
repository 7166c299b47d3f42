"""What a controller acts upon just now: whatever it decides names it as its cause.

A controller processes one event after the other, so there is one occasion at a time: the transaction that a watch told
of, a request, a timer, or an event of this node's own journal that says what it made of one of these.
"""

from __future__ import annotations

from journal.cause import UNKNOWN, Cause
from journal.events import TopicPartition


class Occasion:
    """`cause` holds for every decision, but for those about a topic that has one of its own."""

    __slots__ = ("_topics", "cause")

    def __init__(self) -> None:
        self.cause = UNKNOWN
        self._topics: dict[str, Cause] = {}

    def begin(self, cause: Cause) -> None:
        """The next event is processed."""
        self.cause = cause
        self._topics.clear()

    def about_topic(self, topic: str, cause: Cause) -> None:
        """Decisions about that topic have this cause, until the next event."""
        self._topics[topic] = cause

    def of(self, partition: TopicPartition) -> Cause:
        """The cause of a decision about that partition."""
        return self._topics.get(partition.topic) or self.cause
