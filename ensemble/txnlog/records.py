"""Log records: the file header and the framing of transactions (org.apache.zookeeper.server.persistence.FileTxnLog).

A log file is a 16-byte header and then records: Adler32 of the transaction (8 bytes), its length (4), its bytes, and
the byte 0x42 that says the record is whole.  The file is extended with zeros ahead of the writer, so a record of
checksum or length zero is the end.
"""

from __future__ import annotations

import re
import struct
from enum import Enum
from typing import NamedTuple
from zlib import adler32

from ensemble.jute import MalformedRecord
from ensemble.txn import Txn

LOG_MAGIC = 0x5A4B4C47
"""ZKLG"""
LOG_VERSION = 2
HEADER = struct.Struct(">iiq")
LOG_HEADER = HEADER.pack(LOG_MAGIC, LOG_VERSION, 0)
RECORD_HEAD = struct.Struct(">qi")
END_OF_RECORD = b"B"
RECORD_OVERHEAD = RECORD_HEAD.size + len(END_OF_RECORD)
_NOT_ZERO = re.compile(rb"[^\0]")
TXN_BYTES_MAX = 64 * 1024 * 1024
"""A longer length field is damage.  (A transaction is one client frame or one multi, so about a megabyte.)"""


class Damage(Enum):
    """What is wrong with the bytes at an offset."""

    NONE = "none"
    TORN = "torn record"
    LOST = "zeros before further bytes"
    CHECKSUM = "bad checksum"
    LENGTH = "bad length"
    CONTENT = "unreadable transaction"


class ScannedLog(NamedTuple):
    """A log file's transactions with the offset behind each, and where and how reading stopped."""

    txns: list[Txn]
    ends: list[int]
    end: int
    damage: Damage


def frame_record(txn: Txn) -> bytes:
    """One transaction as a log record."""
    data = txn.encoded()
    return b"%b%b\x42" % (RECORD_HEAD.pack(adler32(data), len(data)), data)


def _whole_record_at(data: bytes, pos: int) -> bool:
    """Whether a complete record with a good checksum begins at `pos`."""
    if pos + RECORD_HEAD.size > len(data):
        return False
    checksum, length = RECORD_HEAD.unpack_from(data, pos)
    end = pos + RECORD_HEAD.size + length
    if not 0 < length <= TXN_BYTES_MAX or end >= len(data) or data[end] != END_OF_RECORD[0]:
        return False
    return bool(adler32(data[pos + RECORD_HEAD.size : end]) == checksum)


def whole_record_after(data: bytes, pos: int) -> int | None:
    """The offset of the first complete, correct record beyond `pos`, or None: tells a torn tail from lost history."""
    start = pos + 1
    while start < len(data) - RECORD_OVERHEAD:
        # Adler32 has 32 bits, so a record begins with four zero bytes; the test is cheap and rules out most offsets.
        if data.startswith(b"\0\0\0\0", start):
            # Its length is not zero: the allocated room, millions of zeros, is passed over in one go.
            filled = _NOT_ZERO.search(data, start)
            if filled is None:
                return None
            start = max(start, filled.start() - RECORD_HEAD.size + 1)
            if _whole_record_at(data, start):
                return start
        start += 1
    return None


def scan(data: bytes) -> ScannedLog:
    """Read every record of a log file's bytes (header included, trailing zeros optional)."""
    txns: list[Txn] = []
    ends: list[int] = []
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
        if end >= size or data[end] != END_OF_RECORD[0]:
            damage = Damage.TORN
            break
        body = data[start:end]
        if adler32(body) != checksum:
            damage = Damage.CHECKSUM
            break
        try:
            txns.append(Txn.decode(body))
        except MalformedRecord:
            damage = Damage.CONTENT
            break
        pos = end + 1
        ends.append(pos)
    return ScannedLog(txns, ends, pos, damage)
