"""Format of log files: the file header, and the framing of transactions (FileTxnLog).

A log file is a 16-byte header followed by records: Adler32 of the transaction (8 bytes), its length (4), its bytes, and
the byte 0x42, which marks a complete record. The writer extends the file with zeros, so a record with a checksum or
length of zero is the end of the log.
"""

from __future__ import annotations

import re
import struct
from enum import Enum
from typing import NamedTuple
from zlib import adler32

from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.txn import Txn

LOG_MAGIC = 0x5A4B4C47
"""Magic number of a log file, "ZKLG"."""
LOG_VERSION = 2
HEADER = struct.Struct(">iiq")
LOG_HEADER = HEADER.pack(LOG_MAGIC, LOG_VERSION, 0)
RECORD_HEAD = struct.Struct(">qi")
_CHECKSUM_BYTES = 8
END_OF_RECORD = b"B"
RECORD_OVERHEAD = RECORD_HEAD.size + len(END_OF_RECORD)
_NOT_ZERO = re.compile(rb"[^\0]")
TXN_BYTES_MAX = 64 * 1024 * 1024
"""Maximum length of a transaction. A length field with a higher value counts as damaged.

A transaction is one client frame or one multi, so usually it is at most about a megabyte.
"""


class Damage(Enum):
    """Kind of damage found at an offset of a log file."""

    NONE = "none"
    TORN = "torn record"
    LOST = "zeros before further bytes"
    CHECKSUM = "bad checksum"
    LENGTH = "bad length"
    CONTENT = "unreadable transaction"
    HEADER = "bad file header"
    GAP = "missing transactions"


class ScannedLog(NamedTuple):
    """Result of scanning a log file: its transactions with their end offsets, and where and why the scan stopped.

    `unclosed` contains the offsets of records whose checksum is correct but whose end byte is missing.
    """

    txns: list[Txn]
    ends: list[int]
    end: int
    damage: Damage
    unclosed: list[int] = []


def frame_record(txn: Txn) -> bytes:
    """Return one transaction as a log record."""
    data = txn.raw or txn.encoded()
    return RECORD_HEAD.pack(adler32(data), len(data)) + data + END_OF_RECORD


def _whole_record_at(data: bytes, pos: int) -> bool:
    """Return whether a complete record with a correct checksum begins at offset `pos`."""
    if pos + RECORD_HEAD.size > len(data):
        return False
    checksum, length = RECORD_HEAD.unpack_from(data, pos)
    end = pos + RECORD_HEAD.size + length
    if not 0 < length <= TXN_BYTES_MAX or end >= len(data) or data[end] != END_OF_RECORD[0]:
        return False
    return bool(adler32(data[pos + RECORD_HEAD.size : end]) == checksum)


def whole_record_after(data: bytes, pos: int) -> int | None:
    """Return the offset of the first complete, correct record after `pos`, or None.

    If there is one, `pos` is damage inside the history, not a torn tail.
    """
    start = pos + 1
    while start < len(data) - RECORD_OVERHEAD:
        # A record begins with its checksum in 8 bytes. Adler32 has 32 bits, so the first four bytes are zero. This
        # cheap test excludes most offsets.
        if data.startswith(b"\0\0\0\0", start):
            # A record's length is never zero, so this search skips the preallocated part, millions of zeros, in one
            # step.
            filled = _NOT_ZERO.search(data, start)
            if filled is None:
                return None
            start = max(start, filled.start() - RECORD_HEAD.size + 1)
            if _whole_record_at(data, start):
                return start
        start += 1
    return None


def is_torn_tail(data: bytes, pos: int) -> bool:
    """Return whether the bytes after `pos` are only the beginning of a record that was never written completely.

    Such a record was never synced, so it was never acknowledged. Other bytes may be a synced record in which a byte was
    changed later: a record whose length was changed to a larger one also looks torn.
    """
    rest = data[pos:].rstrip(b"\0")
    if len(rest) <= RECORD_HEAD.size:
        return len(rest) <= _CHECKSUM_BYTES or RECORD_HEAD.unpack(rest.ljust(RECORD_HEAD.size, b"\0"))[1] > 0
    checksum, length = RECORD_HEAD.unpack_from(rest)
    if length <= 0 or len(rest) >= length + RECORD_OVERHEAD or whole_record_after(data, pos) is not None:
        return False
    body = rest[RECORD_HEAD.size : -1]
    return not (rest.endswith(END_OF_RECORD) and adler32(body) == checksum)


def scan(data: bytes) -> ScannedLog:
    """Read all records in a log file's bytes, which include the header and possibly trailing zeros."""
    txns: list[Txn] = []
    ends: list[int] = []
    unclosed: list[int] = []
    pos = HEADER.size
    size = len(data)
    damage = Damage.NONE
    while pos < size:
        if pos + RECORD_HEAD.size > size:
            damage = Damage.TORN if data[pos:].strip(b"\0") else Damage.NONE
            break
        checksum, length = RECORD_HEAD.unpack_from(data, pos)
        start = pos + RECORD_HEAD.size
        end = start + length
        if length == 0:
            damage = Damage.LOST if data[pos:].strip(b"\0") else Damage.NONE
            break
        if not 0 < length <= TXN_BYTES_MAX:
            damage = Damage.LENGTH
            break
        if end > size:
            damage = Damage.TORN
            break
        closed = end < size and data[end] == END_OF_RECORD[0]
        body = data[start:end]
        if adler32(body) != checksum:
            damage = Damage.CHECKSUM if closed else Damage.TORN
            break
        try:
            txns.append(Txn.decode(body))
        except MalformedRecord:
            damage = Damage.CONTENT
            break
        if not closed:
            unclosed.append(end)
        pos = end + 1
        ends.append(pos)
    return ScannedLog(txns, ends, pos, damage, unclosed)
