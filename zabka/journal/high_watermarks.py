"""The high watermarks that a broker's replicas have reached, according to the broker's own journal.

A broker that is killed restarts with the high watermarks of its checkpoint, which is up to
`replica.high.watermark.checkpoint.interval.ms` old. Its journal records high watermarks several times a second, so it
shows more precisely which records were committed. The journal's high watermarks are used only to count lost records;
replication uses the checkpoint, as in Kafka.
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
"""Types of the events that set or lower the high watermark of a replica."""


def high_watermarks_reached(events: Iterable[Event]) -> dict[TopicPartition, int]:
    """Return the high watermark of each replica of a broker, from the broker's events in order.

    If a log ends below its high watermark, the high watermark is lowered: the log was truncated, or its topic was
    deleted and created again.
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
