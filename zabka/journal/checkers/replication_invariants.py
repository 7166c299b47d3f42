"""Invariants of replicas' logs from kafka-specification, as far as they can be checked with a journal alone.

They do not depend on the order of events on different nodes, so they apply to live histories as well as to simulated
ones. The simulated world checks the other invariants of kafka-specification against the brokers' own state
(`zabka.simulation.checkers.replication_audit`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from zabka.journal import events as e
from zabka.journal.events import Entry, LeaderElected, TopicPartition, topic_partition

_APPENDS = (e.RecordsAppended, e.RecordsReplicated)
_BEGINNINGS = (e.ReplicaLoaded, e.LeadershipTaken, e.FollowershipTaken)


class LogsMatch:
    """All replicas have the same batch at the same offset and leader epoch.

    A leader epoch has one leader, which assigns each offset once, so epoch and offset identify a batch. (This is
    Kafka's form of Raft's log matching, on which truncation by epoch relies.) The invariant does not apply to compacted
    batches, because each replica compacts at a different time.
    """

    name = "epoch and offset name one batch"
    watches = (e.RecordsAppended, e.RecordsReplicated, e.TopicDeleted)

    def __init__(self) -> None:
        self.checked = 0
        self._batches: dict[TopicPartition, dict[tuple[int, int], tuple[int, int, int]]] = {}

    def see(self, entry: Entry) -> Iterable[str]:
        """Compare a batch with the first batch that a replica appended at the same leader epoch and offset."""
        event = entry.event
        if isinstance(event, e.RecordsReplicated) and event.compacted:
            return ()
        if isinstance(event, _APPENDS):
            name = topic_partition(event.topic, event.partition)
            batch = event.last_offset, event.checksum
            first = self._batches.setdefault(name, {}).setdefault(
                (event.leader_epoch, event.first_offset), (*batch, event.broker_id)
            )
            self.checked += first[2] != event.broker_id
            if first[:2] != batch:
                return (
                    f"{name}: offset {event.first_offset} of leader epoch {event.leader_epoch} is one batch on broker "
                    f"{first[2]} and another on broker {event.broker_id}",
                )
        elif isinstance(event, e.TopicDeleted):
            for name in [name for name in self._batches if name.topic == event.topic]:
                del self._batches[name]
        return ()


class HighWatermarkWithinLog:
    """A replica's high watermark is at most its log end offset.

    The high watermark of a leader never decreases within the leader's epoch.
    """

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
        self.checked = 0
        self._ends: dict[tuple[int, TopicPartition], int] = {}
        self._led: dict[tuple[int, TopicPartition], tuple[int, int]] = {}

    def see(self, entry: Entry) -> Iterable[str]:
        """Track the log end offset of each replica, and check each change of its high watermark."""
        event = entry.event
        if isinstance(event, _APPENDS):
            self._ends[_key(event)] = event.last_offset + 1
        elif isinstance(event, e.HighWatermarkMoved):
            return self._check(_key(event), event)
        elif isinstance(event, e.LogTruncated):
            self._ends[_key(event)] = event.log_end_offset
        elif isinstance(event, _BEGINNINGS):
            self._ends[_key(event)] = event.log_end_offset
            self._led.pop(_key(event), None)
        elif isinstance(event, e.TopicDeleted):
            for known in (self._ends, self._led):
                for key in [key for key in known if key[1].topic == event.topic]:
                    del known[key]
        return ()

    def _check(self, key: tuple[int, TopicPartition], event: e.HighWatermarkMoved) -> Iterator[str]:
        broker, name = key
        end = self._ends.get(key)
        self.checked += end is not None
        if end is not None and not 0 <= event.high_watermark <= end:
            yield f"{name}: broker {broker} has {event.high_watermark} as its high watermark; its log ends at {end}"
        if event.is_leader:
            epoch, mark = self._led.get(key, (event.leader_epoch, 0))
            if epoch == event.leader_epoch and event.high_watermark < mark:
                fell = f"its mark fell from {mark} to {event.high_watermark}"
                yield f"{name}: broker {broker} leads epoch {epoch}, and {fell}"
            self._led[key] = event.leader_epoch, event.high_watermark


class OnlyUncleanElectionsLeaveTheIsr:
    """Every elected leader was in the ISR or eligible in the previous state, or the election is marked as unclean.

    While there are eligible replicas, an election of any replica, even of an ISR member, can be marked as unclean. Two
    examples: an ISR member that restarted without its records is elected instead of an eligible replica; or an eligible
    replica is elected that a later change of min.insync.replicas has excluded.

    The previous state is the one with the previous partition epoch. It can appear in the journal after the election. If
    its controller died before logging it, the election is not checked.
    """

    name = "only unclean elections leave the ISR"
    watches = (e.TopicDeleted, e.LeaderElected, e.IsrChanged)

    def __init__(self) -> None:
        self.checked = 0
        self._isrs: dict[TopicPartition, dict[int, tuple[list[int], list[int]]]] = {}
        self._elections: dict[TopicPartition, dict[int, LeaderElected]] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Record the ISR that this entry writes, and check the elections that depend on it.

        They are the elections with the partition epoch of this ISR, and with the next one.
        """
        event = entry.event
        if isinstance(event, e.TopicDeleted):
            for known in (self._isrs, self._elections):
                for name in [name for name in known if name.topic == event.topic]:
                    del known[name]
            return
        assert isinstance(event, e.LeaderElected | e.IsrChanged)
        name = TopicPartition(event.topic, event.partition)
        isrs, elections = self._isrs.setdefault(name, {}), self._elections.setdefault(name, {})
        isrs[event.partition_epoch] = event.isr, event.eligible
        if isinstance(event, e.LeaderElected) and event.leader >= 0:
            elections[event.partition_epoch] = event
        for partition_epoch in (event.partition_epoch, event.partition_epoch + 1):
            before, election = isrs.get(partition_epoch - 1), elections.get(partition_epoch)
            if before is not None and election is not None:
                del elections[partition_epoch]
                self.checked += 1
                isr, eligible = before
                if election.unclean and election.leader in isr and not eligible:
                    yield f"{name}: the election of {election.leader} is called unclean; in sync were {isr}"
                elif not election.unclean and election.leader not in (*isr, *eligible):
                    yield f"{name}: the election of {election.leader} is called clean; in sync were {isr}"


class _OfReplica(Protocol):
    broker_id: int
    topic: str
    partition: int


def _key(event: _OfReplica) -> tuple[int, TopicPartition]:
    return event.broker_id, topic_partition(event.topic, event.partition)
