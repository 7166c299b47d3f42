"""What a peer's disk holds, read from its bytes: a reader of ZooKeeper's files that shares nothing with the one served.

A log (FileTxnLog) is a header of 16 bytes, then records: an Adler-32 checksum (8 bytes), a length (4), that many bytes
that begin with a TxnHeader (session 8, cxid 4, zxid 8, ...), and the byte 0x42.  A length of nothing is room ahead.  A
snapshot (FileSnap) counts if it ends as SnapStream wants it: a checksum and the string "/".
"""

from __future__ import annotations

from collections.abc import Mapping
from zlib import adler32, decompressobj
from zlib import error as zlib_error

LOG_MAGIC, SNAPSHOT_MAGIC = b"ZKLG", b"ZKSN"
HEADER_BYTES = 16
RECORD_HEAD_BYTES = 12
ZXID_AT = 12
END_OF_RECORD = 0x42
GZIP_MAGIC, GZIP_WINDOW = b"\x1f\x8b", 31
SEAL = b"\0\0\0\x01/"
SEAL_AT_MOST_BEFORE_THE_END = 64
"""Behind the first seal may stand the last zxid and the digest, and a seal of theirs."""


def zxids_in_log(data: bytes) -> list[int]:
    """The transactions of a log file up to the first record that is not whole."""
    found: list[int] = []
    if data[:4] != LOG_MAGIC:
        return found
    position = HEADER_BYTES
    while position + RECORD_HEAD_BYTES <= len(data):
        checksum = int.from_bytes(data[position : position + 8])
        begin = position + RECORD_HEAD_BYTES
        end = begin + int.from_bytes(data[position + 8 : begin])
        if end == begin or end >= len(data) or data[end] != END_OF_RECORD or adler32(data[begin:end]) != checksum:
            break
        found.append(int.from_bytes(data[begin + ZXID_AT : begin + ZXID_AT + 8]))
        position = end + 1
    return found


def is_whole_snapshot(data: bytes) -> bool:
    """Would SnapStream.isValidSnapshot take it?  Plain or gzip; one in snappy is not looked into and does not count."""
    if data[:2] == GZIP_MAGIC:
        try:
            data = decompressobj(GZIP_WINDOW).decompress(data)
        except zlib_error:
            return False
    return data[:4] == SNAPSHOT_MAGIC and SEAL in data[-SEAL_AT_MOST_BEFORE_THE_END:]


class DurableBytes:
    """What one peer's files hold: `files` are the durable bytes by name, of `dataDir` and `dataLogDir` together."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.zxids: set[int] = set()
        self.snapshot_zxid = -1
        for name in sorted(files):
            kind, _, number = name.partition(".")
            if kind == "log":
                self.zxids.update(zxids_in_log(files[name]))
            elif kind == "snapshot" and is_whole_snapshot(files[name]):
                self.snapshot_zxid = max(self.snapshot_zxid, int(number.partition(".")[0], 16))

    def last(self) -> int:
        """The last transaction of the log, or of the snapshot; 0 where there is none."""
        return max(self.snapshot_zxid, 0, *self.zxids)

    def holds(self, zxid: int) -> bool:
        """Is that transaction in the log, or below a snapshot?"""
        return zxid in self.zxids or zxid <= self.snapshot_zxid
