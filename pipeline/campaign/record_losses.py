"""Records that were acknowledged and are in the end not in their partition's log, counted one by one."""

from __future__ import annotations

from typing import NamedTuple

from journal import events as e
from journal.events import Entry

TAKES = frozenset(
    [
        e.RecordsAppended, e.RecordsReplicated, e.LogTruncated, e.ReplicaLoaded, e.LeadershipTaken,
        e.RecordsAcknowledged, e.TopicDeleted,
    ]
)  # fmt: skip
"""The types of events that count here."""


class _Batch(NamedTuple):
    first: int
    last: int
    checksum: int


class RecordLosses:
    """Follows every replica's log and every acknowledgement; feed it every entry of a full journal.

    A batch is known by its offsets and its checksum, so that another record at the same offset is no substitute.  What
    is acknowledged by acks=1 counts as much as by acks=all: that is what a campaign is to tell apart.
    """

    def __init__(self) -> None:
        self._logs: dict[str, dict[int, list[_Batch]]] = {}
        self._acknowledged: dict[str, dict[_Batch, None]] = {}
        self._leaders: dict[str, tuple[int, int]] = {}

    def see(self, entry: Entry) -> None:
        """Take the next entry."""
        event = entry.event
        if type(event) not in TAKES:
            return
        if isinstance(event, e.RecordsAppended | e.RecordsReplicated):
            log = self._log(event.topic, event.partition, event.broker_id)
            self._cut(log, event.first_offset)
            log.append(_Batch(event.first_offset, event.last_offset, event.checksum))
        elif isinstance(event, e.LogTruncated):
            self._cut(self._log(event.topic, event.partition, event.broker_id), event.to_offset)
        elif isinstance(event, e.ReplicaLoaded):
            self._cut(self._log(event.topic, event.partition, event.broker_id), event.log_end_offset)
        elif isinstance(event, e.LeadershipTaken):
            # What a leader that starts with an empty log, or with less, never told of having lost.
            self._cut(self._log(event.topic, event.partition, event.broker_id), event.log_end_offset)
            name = f"{event.topic}-{event.partition}"
            self._leaders[name] = max(self._leaders.get(name, (-1, -1)), (event.leader_epoch, event.broker_id))
        elif isinstance(event, e.RecordsAcknowledged):
            batches = self._acknowledged.setdefault(f"{event.topic}-{event.partition}", {})
            batches[_Batch(event.first_offset, event.last_offset, event.checksum)] = None
        elif isinstance(event, e.TopicDeleted):
            for name in [name for name in self._logs if name.rpartition("-")[0] == event.topic]:
                self._logs.pop(name, None)
                self._acknowledged.pop(name, None)
                self._leaders.pop(name, None)

    def _log(self, topic: str, partition: int, broker: int) -> list[_Batch]:
        return self._logs.setdefault(f"{topic}-{partition}", {}).setdefault(broker, [])

    @staticmethod
    def _cut(log: list[_Batch], end_offset: int) -> None:
        while log and log[-1].last >= end_offset:
            log.pop()

    def acknowledged(self) -> dict[str, int]:
        """How many records of each partition were acknowledged."""
        return {name: sum(map(_size, batches)) for name, batches in self._acknowledged.items() if _is_clients(name)}

    def lost(self) -> dict[str, int]:
        """How many of them are not in the log of the partition's last leader."""
        found: dict[str, int] = {}
        for name, batches in self._acknowledged.items():
            if _is_clients(name) and name in self._leaders:
                kept = dict.fromkeys(self._logs[name].get(self._leaders[name][1], []))
                found[name] = sum(_size(batch) for batch in batches if batch not in kept)
        return found


def _is_clients(partition: str) -> bool:
    return not partition.startswith("__")


def _size(batch: _Batch) -> int:
    return batch.last - batch.first + 1
