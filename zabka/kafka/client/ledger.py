"""A producer's acknowledged records, compared with the records that a consumer reads: the check for lost records.

One `PartitionLedger` stores the acknowledged records of one partition by offset. A consumer reads the partition from
`position` on. When the partition's leader changes, the consumer reads again from the offset at which the two leaders'
logs may diverge.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

ENTRIES_MAX = 200_000
"""Maximum number of acknowledged records stored. The oldest records that were verified are dropped first."""

SPANS_MAX = 20
"""Maximum number of ranges of lost offsets that are reported for a partition."""

_UNKNOWN = 1 << 63


class Missing(NamedTuple):
    """A range of lost records: `records` lost records with offsets from `first_offset` to `last_offset`."""

    first_offset: int
    last_offset: int
    records: int


class PartitionLedger:
    """Acknowledged records of one partition: the number of each record, by offset."""

    __slots__ = ("_acknowledged", "_beyond", "_end", "_highest", "_missing", "leader_epoch", "position")

    def __init__(self) -> None:
        self._acknowledged: dict[int, int] = {}
        self._missing: dict[tuple[int, int], None] = {}
        self._beyond: dict[int, None] = {}
        self._highest = -1
        self._end = _UNKNOWN
        self.leader_epoch = -1
        self.position = 0

    @property
    def lost(self) -> int:
        """Number of acknowledged records that are not in the current leader's log."""
        return len(self._missing) + len(self._beyond)

    @property
    def missing(self) -> list[Missing]:
        """Ranges of lost offsets, at most SPANS_MAX. If there are more, the last range extends to the last lost
        offset.
        """
        spans: list[Missing] = []
        for offset in sorted([*(offset for offset, _ in self._missing), *self._beyond]):
            last = spans[-1] if spans else None
            if last is not None and (offset <= last.last_offset + 1 or len(spans) == SPANS_MAX):
                spans[-1] = Missing(last.first_offset, offset, last.records + 1)
            else:
                spans.append(Missing(offset, offset, 1))
        return spans

    @property
    def highest(self) -> int:
        """Highest offset that was ever acknowledged, or -1."""
        return self._highest

    @property
    def unverified(self) -> bool:
        """Whether a consumer may not have read all acknowledged records yet."""
        return self._highest >= self.position and self.position < self._end

    def acknowledge(self, base_offset: int, numbers: Iterable[int]) -> None:
        """Store these records as acknowledged. The first one is at `base_offset`."""
        for offset, number in enumerate(numbers, base_offset):
            former = self._acknowledged.get(offset)
            if former is not None and former != number:
                # Another record now has this offset, so the record acknowledged there before is lost.
                self._missing[offset, former] = None
            self._beyond.pop(offset, None)
            self._acknowledged[offset] = number
            if offset < self.position:
                # The position is already beyond this offset, because the consumer read the record before its
                # acknowledgement arrived. Read the record again.
                self.position = offset
            self._highest = max(self._highest, offset)
        self._end = _UNKNOWN
        self._forget_oldest()

    def read_back(self, records: Iterable[tuple[int, int]], next_offset: int, from_offset: int | None = None) -> None:
        """Process a consumer's read up to `next_offset`, which returned these pairs of (offset, record number).

        The number -1 stands for a record of another producer. The read began at `from_offset`, by default at
        `position`. If `position` was lowered during the read, the offsets between the lowered position and
        `from_offset` were not read: they are not checked, and `position` is not changed.
        """
        found = dict(records)
        begun = self.position if from_offset is None else from_offset
        for offset in range(begun, next_offset):
            acknowledged = self._acknowledged.get(offset)
            if acknowledged is None:
                continue
            self._beyond.pop(offset, None)
            if found.get(offset) == acknowledged:
                self._missing.pop((offset, acknowledged), None)
            else:
                self._missing[offset, acknowledged] = None
        if self.position >= begun:
            self.position = max(self.position, next_offset)

    def leader_changed(self, leader_epoch: int, parting_offset: int) -> None:
        """Process a change of the leader.

        From `parting_offset` on, the log of the new leader may differ from the log of the former leader.
        """
        self.leader_epoch = leader_epoch
        self._end = _UNKNOWN
        self.position = min(self.position, max(0, parting_offset))

    def log_ends(self, end_offset: int, highest: int | None = None) -> None:
        """Process the log end offset of the leader: records acknowledged at or after it count as lost.

        If such a record reappears later, it is no longer lost. `highest` is the highest acknowledged offset at the time
        when the request was sent to the leader, by default the current one. A record that was acknowledged after that
        time is not lost, even if it is after `end_offset`, because the log has grown.
        """
        asked_of = self._highest if highest is None else highest
        if asked_of == self._highest:
            self._end = end_offset
        beyond = self._acknowledged if asked_of >= end_offset else ()
        self._beyond = {offset: None for offset in beyond if end_offset <= offset <= asked_of}

    def log_starts(self, start_offset: int) -> None:
        """Process the start of the log: records before it were removed by retention, so they are not lost."""
        if start_offset > self.position:
            self.position = start_offset
        for offset in [offset for offset in self._acknowledged if offset < start_offset]:
            del self._acknowledged[offset]

    def _forget_oldest(self) -> None:
        if len(self._acknowledged) <= ENTRIES_MAX:
            return
        for offset in list(self._acknowledged)[: ENTRIES_MAX // 10]:
            if offset < self.position:
                del self._acknowledged[offset]
