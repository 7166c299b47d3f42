"""The high watermarks that a broker's replicas are known to have reached, by the broker's own journal.

A broker that is killed comes back with the high watermarks of its checkpoint, which is up to
`replica.high.watermark.checkpoint.interval.ms` old.  Its journal reports them several times a second, so it knows more
about what was committed.  Only the figures of lost records use this; replication works with the checkpoint, as Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable

from zabka.journal.event import Event, TopicPartition
from zabka.journal.events.broker import (
    FollowershipTaken,
    LeadershipTaken,
    LogTruncated,
    ReplicaLoaded,
    ReplicaProgressed,
)

TAKEN = (ReplicaProgressed, ReplicaLoaded, LogTruncated, LeadershipTaken, FollowershipTaken)
"""The types of events that count here."""


def high_watermarks_reached(events: Iterable[Event]) -> dict[TopicPartition, int]:
    """Return the high watermark that each replica of a broker has reached, from that broker's events in their order.

    A log that ends below the mark ends it: it was truncated, or its topic was deleted and created again.
    """
    reached: dict[TopicPartition, int] = {}
    for event in events:
        if isinstance(event, ReplicaProgressed):
            for topic, partition, high_watermark, _ in event.replicas:
                reached[TopicPartition(topic, partition)] = high_watermark
        elif isinstance(event, ReplicaLoaded | LogTruncated | LeadershipTaken | FollowershipTaken):
            name = TopicPartition(event.topic, event.partition)
            if name in reached:
                reached[name] = min(reached[name], event.log_end_offset)
    return reached
