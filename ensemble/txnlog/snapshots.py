"""Snapshot files: written beside their final name, synced, renamed; read with every seal checked.

Source: org.apache.zookeeper.server.persistence.FileSnap, SnapStream.  A file is a header (ZKSN, version 2, dbid -1),
the serialised tree, a seal, the digest and a seal, the last processed zxid and a seal.  Old files end after the
first seal; older ones have no zxid part.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import NamedTuple
from zlib import adler32

from ensemble.jute import MalformedRecord
from ensemble.tree.snapshot import TreeSnapshot
from ensemble.txnlog.files import SNAPSHOT_PREFIX, by_zxid, sync_directory, zxid_of
from ensemble.txnlog.records import HEADER
from ensemble.txnlog.snapshot_format import DIGEST, ROOT_END, TreeDecoder, encode_digest, encode_tree, seal

SNAPSHOT_MAGIC = 0x5A4B534E
"""ZKSN"""
SNAPSHOT_HEADER = HEADER.pack(SNAPSHOT_MAGIC, 2, -1)
STAGING_NAME = ".snapshot.tmp"
_LONG = struct.Struct(">q")
SEAL_BYTES = _LONG.size + len(ROOT_END)
_BREATHE_S = 0.0005
_DIGEST_MASK = (1 << 64) - 1


class WrittenSnapshot(NamedTuple):
    """A snapshot that is durable under its final name."""

    zxid: int
    size_bytes: int
    duration_ms: int


class SnapshotDamaged(Exception):
    """A snapshot file that cannot be used: at which offset, and why."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"{reason} at offset {offset}")
        self.offset = offset
        self.reason = reason


def snapshot_path(directory: Path, zxid: int) -> Path:
    """Where the snapshot of that zxid lies."""
    return directory / f"{SNAPSHOT_PREFIX}.{zxid:x}"


def stage_snapshot(directory: Path, snapshot: TreeSnapshot, staging_name: str) -> Path:
    """Write a snapshot under a name that no server reads, and sync it.  Runs in a worker thread; between chunks it
    lets the event loop's thread run."""
    path = directory / staging_name
    with path.open("wb") as file:
        file.write(SNAPSHOT_HEADER)
        checksum = adler32(SNAPSHOT_HEADER)
        for chunk in encode_tree(snapshot):
            checksum = adler32(chunk, checksum)
            file.write(chunk)
            time.sleep(_BREATHE_S)
        for part in (b"", encode_digest(snapshot), _LONG.pack(snapshot.zxid)):
            checksum = adler32(part, checksum)
            mark = seal(checksum)
            checksum = adler32(mark, checksum)
            file.write(part + mark)
        file.flush()
        os.fsync(file.fileno())
    return path


def write_snapshot(directory: Path, snapshot: TreeSnapshot, staging_name: str = STAGING_NAME) -> WrittenSnapshot:
    """Write a snapshot durably.  Raises OSError."""
    began = time.monotonic()
    staged = stage_snapshot(directory, snapshot, staging_name)
    size = staged.stat().st_size
    staged.rename(snapshot_path(directory, snapshot.zxid))
    sync_directory(directory)
    return WrittenSnapshot(snapshot.zxid, size, int((time.monotonic() - began) * 1000))


def list_snapshots(directory: Path) -> list[tuple[int, Path]]:
    """Snapshot files, oldest first."""
    return by_zxid(directory, SNAPSHOT_PREFIX)


class _Parts:
    """Walks the sealed parts of a file behind the tree."""

    def __init__(self, data: bytes, pos: int) -> None:
        self.data = data
        self.pos = pos
        self._checksum = adler32(data[:pos])

    def check_seal(self) -> None:
        """The seal at the current position closes everything before it."""
        mark = self.data[self.pos : self.pos + SEAL_BYTES]
        if len(mark) < SEAL_BYTES or not mark.endswith(ROOT_END):
            raise SnapshotDamaged(self.pos, "snapshot ends before its seal")
        if _LONG.unpack_from(mark)[0] != self._checksum:
            raise SnapshotDamaged(self.pos, "bad checksum")
        self._advance(SEAL_BYTES)

    def take(self, size: int) -> bytes:
        """The next part's bytes."""
        part = self.data[self.pos : self.pos + size]
        if len(part) < size:
            raise SnapshotDamaged(self.pos, "snapshot cut short")
        self._advance(size)
        return part

    def _advance(self, size: int) -> None:
        self._checksum = adler32(self.data[self.pos : self.pos + size], self._checksum)
        self.pos += size

    @property
    def left(self) -> bool:
        """Whether another part follows."""
        return self.pos < len(self.data)


def read_snapshot(path: Path) -> TreeSnapshot:
    """Read and check a snapshot file.  Raises SnapshotDamaged, OSError.

    The digest is 0 where the file carries none.
    """
    data = path.read_bytes()
    if len(data) < HEADER.size or HEADER.unpack_from(data)[0] != SNAPSHOT_MAGIC:
        raise SnapshotDamaged(0, "not a ZooKeeper snapshot")
    decoder = TreeDecoder()
    try:
        decoder.feed(data[HEADER.size :])
    except MalformedRecord as bad:
        raise SnapshotDamaged(HEADER.size, f"unreadable tree ({bad})") from None
    if not decoder.done:
        raise SnapshotDamaged(len(data), "snapshot cut short")
    parts = _Parts(data, len(data) - len(decoder.rest))
    parts.check_seal()
    digest = 0
    zxid = zxid_of(path, SNAPSHOT_PREFIX) or 0
    if parts.left:
        _, _, digest = DIGEST.unpack(parts.take(DIGEST.size))
        parts.check_seal()
    if parts.left:
        # ZooKeeper's snapshots may be fuzzy: this, not the name, says what is inside.
        (zxid,) = _LONG.unpack(parts.take(_LONG.size))
        parts.check_seal()
    return decoder.snapshot(zxid, digest & _DIGEST_MASK)
