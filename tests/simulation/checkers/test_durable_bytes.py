"""An independent reader of ZooKeeper's files that shares no code with the server, tested with hand-made bytes."""

from __future__ import annotations

import gzip
import struct
from zlib import adler32

from zabka.simulation.checkers.durable_bytes import DurableBytes, LogFile, is_whole_snapshot

HEADER = b"ZKLG" + struct.pack(">iq", 2, 0)
"""FileHeader with magic, version and dbid."""


def zxids_in_log(data: bytes) -> list[int]:
    log = LogFile()
    log.read(data)
    return log.zxids


def _record(zxid: int, end: bytes = b"\x42") -> bytes:
    txn = struct.pack(">qiqqi", 7, 1, zxid, 0, -11)
    return struct.pack(">qi", adler32(txn), len(txn)) + txn + end


def test_log_reader_stops_at_the_preallocated_space() -> None:
    assert zxids_in_log(HEADER + _record(5) + _record(6) + bytes(100)) == [5, 6]
    assert zxids_in_log(HEADER) == []


def test_log_reader_stops_at_the_first_incomplete_record() -> None:
    spoiled = bytearray(_record(6))
    spoiled[20] ^= 1

    assert zxids_in_log(HEADER + _record(5) + bytes(spoiled) + _record(7)) == [5]
    assert zxids_in_log(HEADER + _record(5) + _record(6, end=b"\0") + _record(7)) == [5]
    assert zxids_in_log(HEADER + _record(5) + _record(6)[:-9]) == [5]
    assert zxids_in_log(b"ZKSN" + bytes(12) + _record(5)) == []


def test_snapshot_is_valid_only_with_its_trailer() -> None:
    whole = b"ZKSN" + bytes(60) + struct.pack(">q", 99) + b"\0\0\0\x01/"

    assert is_whole_snapshot(whole)
    assert is_whole_snapshot(gzip.compress(whole))
    assert not is_whole_snapshot(whole[:-1])
    assert not is_whole_snapshot(gzip.compress(whole)[:-12])


def test_peer_has_the_transactions_of_its_logs_and_snapshots() -> None:
    snapshot = b"ZKSN" + bytes(60) + struct.pack(">q", 99) + b"\0\0\0\x01/"
    disk = DurableBytes()
    disk.read({"log.6": HEADER + _record(6) + _record(9), "snapshot.5": snapshot, "snapshot.8": snapshot[:-1]})

    assert [zxid for zxid in range(1, 11) if disk.holds(zxid)] == [1, 2, 3, 4, 5, 6, 9]


def test_repeated_log_read_counts_only_appended_records() -> None:
    log = LogFile()
    log.read(HEADER + _record(5) + bytes(100))
    log.read(HEADER + _record(5) + _record(6) + bytes(60))
    assert log.zxids == [5, 6]


def test_rewritten_or_truncated_log_is_read_from_its_start() -> None:
    log = LogFile()
    log.read(HEADER + _record(5) + _record(6) + bytes(100))
    log.read(HEADER + _record(5) + bytes(100))
    assert log.zxids == [5]
    log.read(HEADER + _record(7) + _record(6) + bytes(100))
    assert log.zxids == [7, 6]


def test_peer_with_a_replaced_disk_has_no_transactions() -> None:
    disk = DurableBytes()
    disk.read({"log.6": HEADER + _record(6)})
    disk.read({})
    assert not disk.holds(6)


def test_last_transaction_comes_from_a_log_or_a_snapshot() -> None:
    disk = DurableBytes()
    assert disk.last() == 0
    snapshot = b"ZKSN" + bytes(60) + struct.pack(">q", 99) + b"\0\0\0\x01/"
    disk.read({"snapshot.5": snapshot})
    assert disk.last() == 5
    disk.read({"log.6": HEADER + _record(6) + _record(9), "snapshot.5": snapshot})
    assert disk.last() == 9
