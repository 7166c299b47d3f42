"""Counts the acknowledged records that are missing from their partition's log at the end of the history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from zabka.journal import events as e
from zabka.journal.checkers.logged_batch import LoggedBatch, logged
from zabka.journal.events import Entry

TAKES = frozenset(
    [
        e.RecordsAppended, e.RecordsReplicated, e.LogTruncated, e.ReplicaLoaded, e.LeadershipTaken,
        e.RecordsAcknowledged, e.TopicDeleted, e.LogCompacted,
    ]
)  # fmt: skip
"""Event types that this module evaluates."""


class _Leader(NamedTuple):
    """Last leader of a partition, and the start offset of its log when it was elected."""

    leader_epoch: int
    broker_id: int
    log_start_offset: int


class RecordLosses:
    """Tracks every replica's log and every acknowledgement. Pass every entry of a full journal to `see`.

    A batch is identified by its offsets and its checksum, so another record at the same offset does not replace it.
    Records acknowledged with acks=1 count like records acknowledged with acks=all, because campaigns should show the
    losses that acks=1 allows. Records that retention removed, or that compaction may have removed, are not lost.
    """

    def __init__(self) -> None:
        self._logs: dict[str, dict[int, list[LoggedBatch]]] = {}
        self._acknowledged: dict[str, dict[LoggedBatch, None]] = {}
        self._leaders: dict[str, _Leader] = {}
        self._compacted_to: dict[str, int] = {}

    def see(self, entry: Entry) -> None:
        """Process the next entry."""
        event = entry.event
        if type(event) not in TAKES:
            return
        if isinstance(event, e.RecordsAppended | e.RecordsReplicated):
            log = self._log(event.topic, event.partition, event.broker_id)
            self._cut(log, event.first_offset)
            log.append(logged(event))
        elif isinstance(event, e.LogTruncated):
            self._cut(self._log(event.topic, event.partition, event.broker_id), event.to_offset)
        elif isinstance(event, e.ReplicaLoaded):
            self._cut(self._log(event.topic, event.partition, event.broker_id), event.log_end_offset)
        elif isinstance(event, e.LeadershipTaken):
            # A leader that starts with an empty or shorter log does not log another event about the lost records.
            self._cut(self._log(event.topic, event.partition, event.broker_id), event.log_end_offset)
            name = f"{event.topic}-{event.partition}"
            leader = _Leader(event.leader_epoch, event.broker_id, event.log_start_offset)
            self._leaders[name] = max(self._leaders.get(name, leader), leader)
        elif isinstance(event, e.RecordsAcknowledged):
            batches = self._acknowledged.setdefault(f"{event.topic}-{event.partition}", {})
            batches[LoggedBatch(event.first_offset, event.last_offset, event.checksum)] = None
        elif isinstance(event, e.LogCompacted):
            name = f"{event.topic}-{event.partition}"
            self._compacted_to[name] = max(self._compacted_to.get(name, -1), event.last_offset)
        elif isinstance(event, e.TopicDeleted):
            for name in [name for name in self._logs if name.rpartition("-")[0] == event.topic]:
                self._logs.pop(name, None)
                self._acknowledged.pop(name, None)
                self._leaders.pop(name, None)
                self._compacted_to.pop(name, None)

    def _log(self, topic: str, partition: int, broker: int) -> list[LoggedBatch]:
        return self._logs.setdefault(f"{topic}-{partition}", {}).setdefault(broker, [])

    @staticmethod
    def _cut(log: list[LoggedBatch], end_offset: int) -> None:
        while log and log[-1].last >= end_offset:
            log.pop()

    def acknowledged(self) -> dict[str, int]:
        """Return the number of acknowledged records of each partition."""
        return {name: sum(map(_size, batches)) for name, batches in self._acknowledged.items() if _is_clients(name)}

    def lost(self) -> dict[str, int]:
        """Return the number of acknowledged records that are missing from the log of the partition's last leader."""
        found: dict[str, int] = {}
        for name, batches in self._acknowledged.items():
            if _is_clients(name) and name in self._leaders:
                found[name] = sum(map(_size, self._lost_of(name, batches)))
        return found

    def _lost_of(self, name: str, batches: Iterable[LoggedBatch]) -> Iterator[LoggedBatch]:
        leader, compacted_to = self._leaders[name], self._compacted_to.get(name, -1)
        log = self._logs[name].get(leader.broker_id, [])
        held = {batch.first: batch for batch in log if batch.last >= leader.log_start_offset}
        end_offset = log[-1].last + 1 if log else 0
        for batch in batches:
            is_kept = batch.first < end_offset and batch.is_kept_as(held.get(batch.first), compacted_to)
            if not is_kept and batch.last >= leader.log_start_offset:
                yield batch


def _is_clients(partition: str) -> bool:
    return not partition.startswith("__")


def _size(batch: LoggedBatch) -> int:
    return batch.last - batch.first + 1
