"""Reads the transactions on a peer's disk from its bytes, with a reader that shares no code with the servers.

A log (FileTxnLog) is a header of 16 bytes, then records: an Adler-32 checksum (8 bytes), a length (4), the payload,
which begins with a TxnHeader (session 8, cxid 4, zxid 8, ...), and the byte 0x42.  A length of 0 marks preallocated
space.  A snapshot (FileSnap) is valid if it ends as SnapStream requires: with a checksum and the string "/".
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
"""Number of bytes at the end of a snapshot that are searched for its first checksum and "/".

The last zxid and the digest, with another checksum and "/", may follow them.
"""


class LogFile:
    """State of one log file after the last read.  The next read parses only the records after the unchanged bytes."""

    def __init__(self) -> None:
        self.zxids: list[int] = []
        self._checked = b""
        self._data: bytes | None = None

    def read(self, data: bytes) -> None:
        """Find the transactions up to the first incomplete record."""
        if data is self._data:
            return
        self._data = data
        if not self._checked or not data.startswith(self._checked):
            self.zxids, self._checked = [], b""
            if data[:4] != LOG_MAGIC:
                return
        position = len(self._checked) or HEADER_BYTES
        while position + RECORD_HEAD_BYTES <= len(data):
            checksum = int.from_bytes(data[position : position + 8])
            begin = position + RECORD_HEAD_BYTES
            end = begin + int.from_bytes(data[position + 8 : begin])
            if end == begin or end >= len(data) or data[end] != END_OF_RECORD or adler32(data[begin:end]) != checksum:
                break
            self.zxids.append(int.from_bytes(data[begin + ZXID_AT : begin + ZXID_AT + 8]))
            position = end + 1
        self._checked = data[:position]


def is_whole_snapshot(data: bytes) -> bool:
    """Return whether SnapStream.isValidSnapshot accepts the snapshot.

    Supports plain and gzip files.  A snappy file is not read and counts as invalid.
    """
    if data[:2] == GZIP_MAGIC:
        try:
            data = decompressobj(GZIP_WINDOW).decompress(data)
        except zlib_error:
            return False
    return data[:4] == SNAPSHOT_MAGIC and SEAL in data[-SEAL_AT_MOST_BEFORE_THE_END:]


class DurableBytes:
    """Transactions in one peer's files.  `read` gets the durable bytes of both data directories, by file name."""

    def __init__(self) -> None:
        self._logs: dict[str, LogFile] = {}
        self._snapshots: dict[str, tuple[bytes, bool]] = {}
        """Bytes of each snapshot at the last read, and whether the snapshot is complete."""
        self._snapshot_zxid = -1

    def read(self, files: Mapping[str, bytes]) -> None:
        """Read the current content of the disk. Discard the state of deleted logs."""
        self._logs = {name: self._logs.get(name) or LogFile() for name in files if name.startswith("log.")}
        for name, log in self._logs.items():
            log.read(files[name])
        before, self._snapshots = self._snapshots, {}
        for name, data in files.items():
            if name.startswith("snapshot."):
                known = before.get(name)
                self._snapshots[name] = known if known and known[0] is data else (data, is_whole_snapshot(data))
        whole = (int(name.split(".")[1], 16) for name, (_, is_whole) in self._snapshots.items() if is_whole)
        self._snapshot_zxid = max(whole, default=-1)

    def last(self) -> int:
        """Return the zxid of the last transaction in the logs and snapshots, or 0 if there is none."""
        return max([0, self._snapshot_zxid, *(zxid for log in self._logs.values() for zxid in log.zxids)])

    def history(self) -> list[int]:
        """Return the zxids in the logs, in order."""
        return sorted(zxid for log in self._logs.values() for zxid in log.zxids)

    def holds(self, zxid: int) -> bool:
        """Return whether that transaction is in a log or part of a snapshot."""
        return zxid <= self._snapshot_zxid or any(zxid in log.zxids for log in self._logs.values())
