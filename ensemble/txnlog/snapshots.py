"""Snapshot files: written under a temporary name, synced and renamed. A reader checks every seal.

Source: org.apache.zookeeper.server.persistence.FileSnap, SnapStream. A seal is a checksum followed by "/". A file is a
header (ZKSN, version 2, dbid -1), the serialised tree, a seal, the digest and a seal, the last processed zxid and a
seal. Old files end after the first seal; files from before 3.9 have no zxid part, and files of a ZooKeeper with
`digest.enabled=false` have no digest.
"""

from __future__ import annotations

import gzip
import os
import struct
import time
import zlib
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import IO, NamedTuple, cast
from zlib import adler32

from zabka.ensemble.ids import zxid_text
from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.runtime.workers import THREADS
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txnlog.files import (
    GZIP_SUFFIX,
    SNAPPY_SUFFIX,
    SNAPSHOT_PREFIX,
    by_zxid,
    forget_pages,
    sync_directory,
    zxid_of,
)
from zabka.ensemble.txnlog.records import HEADER
from zabka.ensemble.txnlog.snappy_stream import SnappyDamaged, SnappyReader, SnappyWriter
from zabka.ensemble.txnlog.snapshot_format import DIGEST, ROOT_END, TreeDecoder, encode_digest, encode_tree, seal

SNAPSHOT_MAGIC = 0x5A4B534E
"""Magic number of a snapshot file, "ZKSN"."""
SNAPSHOT_HEADER = HEADER.pack(SNAPSHOT_MAGIC, 2, -1)
STAGING_NAME = ".snapshot.tmp"
"""Temporary name of a snapshot that is being written."""
SNAPSHOT_BYTES_MIN = 10
_LONG = struct.Struct(">q")
SEAL_BYTES = _LONG.size + len(ROOT_END)
PIECE_BYTES = 1 << 20
GZIP_LEVEL = 1
SYNC_BYTES = 2 << 20
_DIGEST_MASK = (1 << 64) - 1


class WrittenSnapshot(NamedTuple):
    """A snapshot that is durable under its final name."""

    zxid: int
    size_bytes: int
    duration_ms: int


class SnapshotDamaged(Exception):
    """A snapshot file cannot be used. Contains the offset of the damage and the reason."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"{reason} at offset {offset}")
        self.offset = offset
        self.reason = reason


def snapshot_path(directory: Path, zxid: int, suffix: str = "") -> Path:
    """Return the path of the snapshot with this zxid; `suffix` denotes the compression (SnapStream)."""
    return directory / f"{SNAPSHOT_PREFIX}.{zxid:x}{suffix}"


def stage_snapshot(
    staged: Path,
    snapshot: TreeSnapshot,
    suffix: str = "",
    pace: Callable[[], None] = THREADS.breathe,
    files: Files = HOST,
) -> None:
    """Write a snapshot under a name that no server reads, and sync it. Raises OSError.

    `pace` is called after every chunk, to let other threads run.
    """
    for _ in staging(staged, snapshot, encode_tree(snapshot), suffix, files):
        pace()


def staging(
    staged: Path, snapshot: TreeSnapshot, encoded: Iterable[bytes], suffix: str, files: Files
) -> Generator[int, None, None]:
    """Write a snapshot under a name that no server reads, in chunks of its serialised tree, and sync it.

    Yields the size of each chunk; after an empty chunk, the caller must wait for the next one. The file is synced every
    few megabytes, because one large fsync at the end would delay the fsyncs of the log on the same disk. Raises
    OSError, and any exception of `encoded`.
    """
    with files.stream(staged, "wb") as raw:
        file: IO[bytes] = raw
        if suffix == GZIP_SUFFIX:
            file = cast(IO[bytes], gzip.GzipFile("", "wb", GZIP_LEVEL, raw))
        elif suffix == SNAPPY_SUFFIX:
            file = cast(IO[bytes], SnappyWriter(raw))
        file.write(SNAPSHOT_HEADER)
        checksum = adler32(SNAPSHOT_HEADER)
        unsynced = 0
        for chunk in encoded:
            checksum = adler32(chunk, checksum)
            file.write(chunk)
            unsynced += len(chunk)
            if unsynced >= SYNC_BYTES:
                unsynced = 0
                raw.flush()
                files.fdatasync(raw.fileno())
                forget_pages(raw.fileno(), 0, raw.tell(), files)
            yield len(chunk)
        for part in (b"", encode_digest(snapshot), _LONG.pack(snapshot.zxid)):
            checksum = adler32(part, checksum)
            mark = seal(checksum)
            checksum = adler32(mark, checksum)
            file.write(part + mark)
        if file is not raw:
            file.close()
        raw.flush()
        files.fsync(raw.fileno())
        forget_pages(raw.fileno(), 0, raw.tell(), files)


def write_snapshot(directory: Path, snapshot: TreeSnapshot, files: Files = HOST) -> WrittenSnapshot:
    """Write a snapshot durably.  Raises OSError."""
    began = time.monotonic()
    staged = directory / STAGING_NAME
    stage_snapshot(staged, snapshot, files=files)
    size = files.stat(staged).st_size
    files.rename(staged, snapshot_path(directory, snapshot.zxid))
    sync_directory(directory, files)
    return WrittenSnapshot(snapshot.zxid, size, int((time.monotonic() - began) * 1000))


def list_snapshots(directory: Path, files: Files = HOST) -> list[tuple[int, Path]]:
    """Return the snapshot files, oldest first."""
    return by_zxid(directory, SNAPSHOT_PREFIX, files)


class _Parts:
    """Reads the parts that follow the tree in a snapshot file. A seal (checksum) follows each part.

    `data` begins at the position `base` of the file. `checksum` is the checksum of the file up to this position.
    """

    def __init__(self, data: bytes, base: int, checksum: int) -> None:
        self._data = data
        self._base = base
        self._pos = 0
        self._checksum = checksum

    def check_seal(self) -> None:
        """Check the seal at the current position, which covers everything before it."""
        mark = self._data[self._pos : self._pos + SEAL_BYTES]
        if len(mark) < SEAL_BYTES or not mark.endswith(ROOT_END):
            raise SnapshotDamaged(self._base + self._pos, "snapshot ends before its seal")
        if _LONG.unpack_from(mark)[0] != self._checksum:
            raise SnapshotDamaged(self._base + self._pos, "bad checksum")
        self._advance(SEAL_BYTES)

    def read_part(self, size: int) -> bytes:
        """Return the next part, which has `size` bytes. Raises SnapshotDamaged if there are fewer."""
        part = self._data[self._pos : self._pos + size]
        if len(part) < size:
            raise SnapshotDamaged(self._base + self._pos, "snapshot cut short")
        self._advance(size)
        return part

    def _advance(self, size: int) -> None:
        self._checksum = adler32(self._data[self._pos : self._pos + size], self._checksum)
        self._pos += size

    @property
    def left_bytes(self) -> int:
        """Return the number of bytes not read yet: parts and their seals."""
        return len(self._data) - self._pos


def read_snapshot(path: Path, files: Files = HOST) -> TreeSnapshot:
    """Read and check a snapshot file. Raises SnapshotDamaged, OSError.

    The snapshot's zxid is that in the file's name: ZooKeeper's snapshots are fuzzy and may contain parts of later
    transactions, so the log is replayed from this zxid (FileSnap.deserialize). A file that contains a lower last zxid
    has a wrong name, and is rejected. The digest is 0 if the file has no digest for the zxid in its name.
    """
    try:
        file = open_snapshot(path, files)
    except SnappyDamaged as bad:
        raise SnapshotDamaged(0, f"damaged compression ({bad})") from None
    with file:
        return read_stream(file, zxid_of(path, SNAPSHOT_PREFIX) or 0)


def is_cut_short(path: Path, files: Files = HOST) -> bool:
    """Return whether a snapshot file was only partially written (SnapStream.isValidSnapshot). Raises OSError.

    Such a file is empty, or its last seal is missing.
    """
    size = files.stat(path).st_size
    if size < SNAPSHOT_BYTES_MIN:
        return True
    if path.suffix in (GZIP_SUFFIX, SNAPPY_SUFFIX):
        return False
    descriptor = files.open(path, os.O_RDONLY)
    try:
        return files.pread(descriptor, len(ROOT_END), size - len(ROOT_END)) != ROOT_END
    finally:
        files.close(descriptor)


def read_stream(file: IO[bytes], zxid: int | None = None) -> TreeSnapshot:
    """Read and check a snapshot; if no zxid is given, use the zxid at the end of the file.

    Raises SnapshotDamaged and OSError.
    """
    try:
        return _read_checked(file, zxid)
    except (zlib.error, EOFError, gzip.BadGzipFile, SnappyDamaged) as bad:
        raise SnapshotDamaged(0, f"damaged compression ({bad})") from None


def _read_checked(file: IO[bytes], zxid: int | None) -> TreeSnapshot:
    header = file.read(HEADER.size)
    if len(header) < HEADER.size or HEADER.unpack(header)[0] != SNAPSHOT_MAGIC:
        raise SnapshotDamaged(0, "not a ZooKeeper snapshot")
    decoder, checksum, offset = _read_tree(file, adler32(header))
    parts = _Parts(decoder.rest + file.read(), offset, checksum)
    parts.check_seal()
    digest_zxid, digest = -1, 0
    if parts.left_bytes not in (0, _LONG.size + SEAL_BYTES):
        digest_zxid, _, digest = DIGEST.unpack(parts.read_part(DIGEST.size))
        parts.check_seal()
    if parts.left_bytes:
        last: int = _LONG.unpack(parts.read_part(_LONG.size))[0]
        parts.check_seal()
        zxid = last if zxid is None else zxid
        if last < zxid:
            raise SnapshotDamaged(0, f"its name is that of a later one: it ends at {zxid_text(last)}")
    if zxid is None:
        raise SnapshotDamaged(offset, "a snapshot of an old ZooKeeper, which does not say its zxid")
    return decoder.snapshot(zxid, digest & _DIGEST_MASK if digest_zxid == zxid else 0)


def _read_tree(file: IO[bytes], checksum: int) -> tuple[TreeDecoder, int, int]:
    """Return the decoded tree, the checksum of the file up to the tree's end, and the file offset of that end."""
    decoder = TreeDecoder()
    offset = HEADER.size
    while not decoder.done:
        piece = file.read(PIECE_BYTES)
        if not piece:
            raise SnapshotDamaged(offset, "snapshot cut short")
        try:
            decoder.feed(piece)
        except MalformedRecord as bad:
            raise SnapshotDamaged(offset, f"unreadable tree ({bad})") from None
        if decoder.done:
            piece = piece[: len(piece) - len(decoder.rest)]
        checksum = adler32(piece, checksum)
        offset += len(piece)
    return decoder, checksum, offset


def open_snapshot(path: Path, files: Files = HOST) -> IO[bytes]:
    """Open a snapshot file, decompressed according to its suffix (SnapStream).

    Raises OSError and SnappyDamaged.
    """
    raw = files.stream(path, "rb")
    if path.suffix == SNAPPY_SUFFIX:
        try:
            return cast(IO[bytes], SnappyReader(raw))
        except SnappyDamaged:
            raw.close()
            raise
    return cast(IO[bytes], _GzipReader(raw)) if path.suffix == GZIP_SUFFIX else raw


class _GzipReader(gzip.GzipFile):
    """Decompresses `raw`, and closes it on close."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__(fileobj=raw)
        self._raw_file = raw

    def close(self) -> None:
        super().close()
        self._raw_file.close()
