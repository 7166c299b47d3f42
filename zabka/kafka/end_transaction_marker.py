"""Control batches that end a transaction (Kafka's EndTransactionMarker and ControlRecordType, KIP-98).

A control batch contains one record. The record's key is a version and a type; its value is a version and the epoch of
the coordinator that wrote it. The batch header has the id and epoch of the producer whose transaction ends.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from zabka.kafka.compression import Data
from zabka.kafka.record_batch import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    BatchUnreadable,
    Record,
    build_batch,
    iter_batch,
)

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_VERSION = 0
_ABORT, _COMMIT = 0, 1


class EndTransactionMarker(NamedTuple):
    """End of a transaction: committed or aborted, and the epoch of the coordinator that decided this."""

    is_commit: bool
    coordinator_epoch: int


def marker_batch(producer_id: int, producer_epoch: int, marker: EndTransactionMarker, wall_ms: int) -> bytes:
    """Return the control batch that ends this producer's transaction (MemoryRecords.withEndTransactionMarker)."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.is_commit else _ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return build_batch(
        [Record(key, value, wall_ms)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        attributes=TRANSACTIONAL | CONTROL,
    )


def read_marker(data: Data, position: int, header: BatchHeader) -> EndTransactionMarker | None:
    """Return the marker in a control batch; None if the batch is empty or damaged, or contains another type of
    record.
    """
    try:
        record = next(iter_batch(memoryview(data), position, header), None)
    except BatchUnreadable:
        return None
    if record is None or len(record.key or b"") < _KEY.size or len(record.value or b"") < _VALUE.size:
        return None
    _, kind = _KEY.unpack_from(record.key or b"")
    _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    return EndTransactionMarker(kind == _COMMIT, coordinator_epoch) if kind in (_ABORT, _COMMIT) else None
