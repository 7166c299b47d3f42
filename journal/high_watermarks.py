"""The high watermarks that a broker's replicas are known to have reached, by the broker's own journal.

A broker that is killed comes back with the high watermarks of its checkpoint, which is up to
`replica.high.watermark.checkpoint.interval.ms` old.  Its journal reports them several times a second, so it knows more
about what was committed.  Only the figures of lost records use this; replication works with the checkpoint, as Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from journal.event import Event, TopicPartition, snake
from journal.events.broker import FollowershipTaken, LeadershipTaken, LogTruncated, ReplicaLoaded, ReplicaProgressed
from journal.reader import decode_line, node_files

READ_BYTES_MAX = 4 * 1024 * 1024
"""Only the end of a journal is read.  What is older than that is in the checkpoint."""

_TAKEN = (ReplicaProgressed, ReplicaLoaded, LogTruncated, LeadershipTaken, FollowershipTaken)
_TAGS = tuple(f'"type":"{snake(kind.__name__)}"'.encode() for kind in _TAKEN)


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


def read_high_watermarks(directory: Path, node: str) -> dict[TopicPartition, int]:
    """Return the same from the end of a node's journal files.  Unreadable lines are left out.  Raises OSError."""
    return high_watermarks_reached(_events(_end_of_journal(directory, node)))


def _events(lines: Iterable[bytes]) -> Iterable[Event]:
    for line in lines:
        if any(tag in line for tag in _TAGS):
            try:
                yield decode_line(line).event
            except ValueError:
                continue


def _end_of_journal(directory: Path, node: str) -> list[bytes]:
    """The last READ_BYTES_MAX bytes of the newest two files, as lines.  The first and the last may be incomplete."""
    data = b""
    for path in reversed(node_files(directory, node)[-2:]):
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - (READ_BYTES_MAX - len(data))))
            data = file.read() + data
        if len(data) >= READ_BYTES_MAX:
            break
    return data.split(b"\n")
