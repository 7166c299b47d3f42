"""Selects the records that a consumer with isolation.level=read_committed receives (KIP-98, CompletedFetch)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from zabka.kafka.record_batch import (
    BatchUnreadable,
    Record,
    decode_batch,
    is_control,
    is_transactional,
    split_batches,
)


class Aborted(Protocol):
    """An aborted transaction: its producer id, and its first offset in the partition."""

    @property
    def producer_id(self) -> int: ...
    @property
    def first_offset(self) -> int: ...


def committed_records(data: bytes, from_offset: int, aborted: Iterable[Aborted]) -> list[Record]:
    """Return the records of a fetch response from `from_offset` on, without records of aborted transactions.

    The batches of a producer are skipped from the first offset of its aborted transaction up to the transaction's
    marker. Raises BatchUnreadable.
    """
    headers = split_batches(data)
    if headers is None:
        raise BatchUnreadable("a batch is damaged")
    waiting: Sequence[Aborted] = sorted(aborted, key=lambda each: each.first_offset)
    begun, position = 0, 0
    aborting: set[int] = set()
    records: list[Record] = []
    for header in headers:
        while begun < len(waiting) and waiting[begun].first_offset <= header.last_offset:
            aborting.add(waiting[begun].producer_id)
            begun += 1
        if is_control(header):
            # This marker ends an aborted transaction, or it is the commit marker of a producer without an aborted
            # transaction.
            aborting.discard(header.producer_id)
        elif not (is_transactional(header) and header.producer_id in aborting) and header.last_offset >= from_offset:
            records += [record for record in decode_batch(data, position, header) if record.offset >= from_offset]
        position += header.size
    return records
