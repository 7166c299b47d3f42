"""What must hold of replicas' logs in any history: the part of kafka-specification's invariants that the journal shows.

They need no order between nodes, so that they hold of live histories as they do of simulated ones.  The simulated world
checks the rest against the brokers' own state (`simulation.replication_audit`).
"""

from __future__ import annotations

from collections.abc import Iterator

from journal import events as e
from journal.events import Entry, TopicPartition


class LogsMatch:
    """What one leader wrote at an offset is what every replica has there of that leader epoch.

    A leader epoch belongs to one leader, which gives each offset once; so epoch and offset name a batch (Kafka's form
    of Raft's log matching, on which truncation by epoch relies).
    """

    name = "epoch and offset name one batch"
    watches = (e.RecordsAppended, e.RecordsReplicated, e.TopicDeleted)

    def __init__(self) -> None:
        self._batches: dict[TopicPartition, dict[tuple[int, int], tuple[int, int, int]]] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Compare with whoever had that epoch and offset first."""
        event = entry.event
        if isinstance(event, e.RecordsAppended | e.RecordsReplicated):
            name = TopicPartition(event.topic, event.partition)
            batch = event.last_offset, event.checksum
            first = self._batches.setdefault(name, {}).setdefault(
                (event.leader_epoch, event.first_offset), (*batch, event.broker_id)
            )
            if first[:2] != batch:
                yield (
                    f"{name}: offset {event.first_offset} of leader epoch {event.leader_epoch} is one batch on broker "
                    f"{first[2]} and another on broker {event.broker_id}"
                )
        elif isinstance(event, e.TopicDeleted):
            for name in [name for name in self._batches if name.topic == event.topic]:
                del self._batches[name]


class HighWatermarkWithinLog:
    """A replica's high watermark lies within its log, and a leader's does not fall within its leader epoch."""

    name = "high watermark within the log"
    watches = (
        e.RecordsAppended,
        e.RecordsReplicated,
        e.LogTruncated,
        e.ReplicaLoaded,
        e.LeadershipTaken,
        e.FollowershipTaken,
        e.HighWatermarkMoved,
        e.TopicDeleted,
    )

    def __init__(self) -> None:
        self._ends: dict[tuple[int, TopicPartition], int] = {}
        self._led: dict[tuple[int, TopicPartition], tuple[int, int]] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Follow each replica's log end; compare each move of its mark."""
        event = entry.event
        if isinstance(event, e.TopicDeleted):
            for known in (self._ends, self._led):
                for key in [key for key in known if key[1].topic == event.topic]:
                    del known[key]
            return
        assert isinstance(event, self.watches) and not isinstance(event, e.TopicDeleted)
        key = event.broker_id, TopicPartition(event.topic, event.partition)
        if isinstance(event, e.RecordsAppended | e.RecordsReplicated):
            self._ends[key] = event.last_offset + 1
        elif isinstance(event, e.LogTruncated):
            self._ends[key] = event.to_offset
        elif isinstance(event, e.ReplicaLoaded | e.LeadershipTaken | e.FollowershipTaken):
            self._ends[key] = event.log_end_offset
            self._led.pop(key, None)
        elif isinstance(event, e.HighWatermarkMoved):
            yield from self._judge(key, event)

    def _judge(self, key: tuple[int, TopicPartition], event: e.HighWatermarkMoved) -> Iterator[str]:
        broker, name = key
        end = self._ends.get(key)
        if end is not None and not 0 <= event.high_watermark <= end:
            yield f"{name}: broker {broker} has {event.high_watermark} as its high watermark; its log ends at {end}"
        if event.is_leader:
            epoch, mark = self._led.get(key, (event.leader_epoch, 0))
            if epoch == event.leader_epoch and event.high_watermark < mark:
                fell = f"its mark fell from {mark} to {event.high_watermark}"
                yield f"{name}: broker {broker} leads epoch {epoch}, and {fell}"
            self._led[key] = event.leader_epoch, event.high_watermark
