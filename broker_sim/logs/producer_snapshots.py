"""Snapshots of the producer state of a log, as files next to its segments (Kafka's ProducerStateManager).

OFFSET.snapshot contains the state before OFFSET: the last batch and the open transaction of each producer. A snapshot
is written with every new segment. So a log that is opened again still knows the producers whose batches were only in
deleted segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from zabka.broker_sim.ports import LogDirectory

SUFFIX = ".snapshot"
NO_OFFSET = -1
NO_COORDINATOR = -1
_VERSION = 1
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


class BadSnapshot(Exception):
    """The file is not a snapshot, or is damaged."""


class ProducerEntry(NamedTuple):
    """A producer and its last batch, as stored in a snapshot.

    `last_offset` is -1 if only the producer's last transaction marker is known.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int = NO_COORDINATOR
    """The coordinator epoch of the producer's last transaction marker."""
    txn_first_offset: int = NO_OFFSET
    """The first offset of the producer's open transaction."""


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    """Encode a producer snapshot."""
    rows = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(rows)) + b"".join(rows)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[ProducerEntry]:
    """Decode the producers in a snapshot. Raises BadSnapshot."""
    body = data[_HEAD.size :]
    if len(body) < _COUNT.size:
        raise BadSnapshot("it is too short")
    version, checksum = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise BadSnapshot(f"its version is {version}")
    if crc32c(body) != checksum:
        raise BadSnapshot("its checksum is wrong")
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) < _COUNT.size + count * _ENTRY.size:
        raise BadSnapshot(f"it holds no {count} producers")
    rows = (_ENTRY.unpack_from(body, _COUNT.size + at * _ENTRY.size) for at in range(count))
    return [ProducerEntry(*row) for row in rows]


def file_name(offset: int) -> str:
    """Return the name of the snapshot file for the state before an offset."""
    return f"{offset:020d}{SUFFIX}"


def offsets(files: Iterable[str]) -> list[int]:
    """Return, in order, the offsets of the producer snapshots among a replica's file names."""
    stems = (file.removesuffix(SUFFIX) for file in files if file.endswith(SUFFIX))
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def write(directory: LogDirectory, name: str, offset: int, entries: Iterable[ProducerEntry]) -> None:
    """Write a snapshot durably. Raises OSError.

    A snapshot that a crash leaves incomplete fails its checksum.
    """
    directory.remove(name, file_name(offset))
    file = directory.open(name, file_name(offset))
    try:
        file.append(encode(entries))
        file.flush()
    finally:
        file.close()


def read(directory: LogDirectory, name: str, offset: int) -> list[ProducerEntry]:
    """Read an existing snapshot. Raises BadSnapshot, OSError."""
    file = directory.open(name, file_name(offset))
    try:
        return decode(file.read(0, file.size()))
    finally:
        file.close()


def latest(directory: LogDirectory, name: str, end: int) -> tuple[int, list[ProducerEntry]]:
    """Return the offset and content of the last readable snapshot at or before `end`; (0, []) if there is none."""
    for at in reversed(offsets(directory.list_files(name))):
        if at <= end:
            try:
                return at, read(directory, name, at)
            except BadSnapshot:
                directory.remove(name, file_name(at))
    return 0, []


def keep(directory: LogDirectory, name: str, bases: Sequence[int]) -> None:
    """Remove snapshots that are not at the base offset of a segment (removeStraySnapshots).

    They are not needed: the producers in them were deleted or truncated, or their batches are in a segment.
    """
    kept = frozenset(bases)
    for offset in offsets(directory.list_files(name)):
        if offset not in kept:
            directory.remove(name, file_name(offset))
