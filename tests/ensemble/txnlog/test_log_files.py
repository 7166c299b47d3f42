"""Log files while they are written, truncated and read as bytes: sizes, offsets, and pages freed from the cache."""

from __future__ import annotations

import os
from pathlib import Path
from zlib import adler32

import pytest

from tests.ensemble.txnlog.test_formats import a_txn
from tests.ensemble.txnlog.test_recovery import EPOCH_1, directories_with
from zabka.ensemble.ids import LinkId, Zxid
from zabka.ensemble.runtime.files import HOST
from zabka.ensemble.txnlog import log_reading
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.log import (
    FORGET_BYTES,
    ZEROS_AHEAD_BYTES,
    ZEROS_AT_ONCE_BYTES,
    LogWriter,
    close_record,
    cut_file,
    list_logs,
    read_log,
    truncate_logs,
)
from zabka.ensemble.txnlog.log_reading import LogReader
from zabka.ensemble.txnlog.records import (
    HEADER,
    LOG_HEADER,
    LOG_MAGIC,
    RECORD_HEAD,
    TXN_BYTES_MAX,
    Damage,
    frame_record,
    is_torn_tail,
    scan,
    whole_record_after,
)
from zabka.ensemble.txnlog.recovery import follows
from zabka.ensemble.zab.effects import ReadLog

RECORD = frame_record(a_txn(EPOCH_1 + 1))


def numbers(path: Path) -> list[int]:
    return [txn.zxid - EPOCH_1 for txn in read_log(path)[1].txns]


# -- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preallocate", [0, 1000, 100_000])
def test_log_file_is_preallocated_and_extended_when_full(tmp_path: Path, preallocate: int) -> None:
    """A log file is preallocated, and extended by the same size when a record does not fit (FilePadding)."""
    writer = LogWriter(tmp_path, preallocate)
    path, used, size = tmp_path / "log.100000001", HEADER.size, HEADER.size + preallocate
    for number in range(1, 40):
        writer.append([a_txn(EPOCH_1 + number)])
        used += len(RECORD)
        size = used + preallocate if used > size else size
        assert path.stat().st_size == max(size, used)
    writer.roll()
    assert numbers(path) == list(range(1, 40))
    assert path.read_bytes()[:16] == b"ZKLG" + (2).to_bytes(4, "big") + bytes(8)


def test_full_log_file_is_made_durable_before_the_next_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log file is durable before the next file is started.

    The barrier after its last record completes when the next file is synced. The first file is not synced again.
    """
    done: list[str] = []
    pwrite, fdatasync, close = os.pwrite, os.fdatasync, os.close
    monkeypatch.setattr(HOST, "pwrite", lambda fd, data, at: (done.append("written"), pwrite(fd, data, at))[1])
    monkeypatch.setattr(HOST, "fdatasync", lambda fd: (done.append("durable"), fdatasync(fd))[1])
    monkeypatch.setattr(HOST, "close", lambda fd: (done.append("closed"), close(fd))[1])
    writer = LogWriter(tmp_path, 1000)
    writer.append([a_txn(EPOCH_1 + 1)])
    writer.roll()
    assert done[-3:] == ["written", "durable", "closed"]


def test_new_log_file_has_zookeepers_preallocated_size(tmp_path: Path) -> None:
    """A new log file has ZooKeeper's default size: zookeeper.preAllocSize is 65536 KB."""
    writer = LogWriter(tmp_path)
    writer.append([a_txn(EPOCH_1 + 1)])
    assert (tmp_path / "log.100000001").stat().st_size == HEADER.size + 65536 * 1024
    writer.roll()


def test_preallocation_writes_zeros_in_aligned_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[int, bytes]] = []
    pwrite = os.pwrite

    def note(descriptor: int, data: bytes, at: int) -> int:
        written.append((at, bytes(data)))
        return pwrite(descriptor, data, at)

    monkeypatch.setattr(HOST, "pwrite", note)
    writer = LogWriter(tmp_path)
    writer.append([a_txn(EPOCH_1 + 1)])
    zeros = [(at, at + len(data)) for at, data in written if not data.strip(b"\0")]
    behind = HEADER.size + len(RECORD)
    borders = [behind, *range(ZEROS_AT_ONCE_BYTES, behind + ZEROS_AHEAD_BYTES, ZEROS_AT_ONCE_BYTES)]
    assert zeros == list(zip(borders, [*borders[1:], behind + ZEROS_AHEAD_BYTES], strict=True))
    assert written[-1] == (HEADER.size, RECORD), "the record comes last: its room is there"
    written.clear()
    writer.append([a_txn(EPOCH_1 + 2)])
    assert written == [(behind, frame_record(a_txn(EPOCH_1 + 2)))]
    writer.roll()


def test_partial_disk_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(HOST, "pwrite", lambda descriptor, data, at: pwrite(descriptor, data[:50], at))
    writer = LogWriter(tmp_path, 1000)
    writer.append([a_txn(EPOCH_1 + number) for number in range(1, 9)])
    writer.roll()
    monkeypatch.undo()
    assert numbers(tmp_path / "log.100000001") == list(range(1, 9))


def test_log_is_dropped_from_the_page_cache_in_large_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[tuple[int, int]] = []
    monkeypatch.setattr(HOST, "posix_fadvise", lambda descriptor, start, size, advice: dropped.append((start, size)))
    writer = LogWriter(tmp_path)
    data = bytes(FORGET_BYTES // 4)
    record = len(frame_record(a_txn(EPOCH_1 + 1, data)))
    for number in range(1, 10):
        writer.append([a_txn(EPOCH_1 + number, data)])
        writer.sync()
    first = HEADER.size + 4 * record
    assert dropped == [(0, first), (first, 4 * record)]
    writer.roll()
    dropped.clear()
    # After the writer has started a new file, the freed ranges start at offset zero again.
    for number in range(10, 14):
        writer.append([a_txn(EPOCH_1 + number, data)])
        writer.sync()
    assert [start for start, _ in dropped] == [0]
    writer.roll()


def test_log_file_with_transactions_is_never_overwritten(tmp_path: Path) -> None:
    directories_with(tmp_path, range(5, 7))
    with pytest.raises(DataDirectoryError, match="transaction 0x100000005 comes again"):
        LogWriter(tmp_path).append([a_txn(EPOCH_1 + 5)])
    assert numbers(tmp_path / "log.100000005") == [5, 6]
    # A log file with only zeros after its header, as after a crash, is overwritten.
    (tmp_path / "log.100000007").write_bytes(LOG_HEADER + bytes(100))
    writer = LogWriter(tmp_path)
    writer.append([a_txn(EPOCH_1 + 7)])
    writer.roll()
    assert numbers(tmp_path / "log.100000007") == [7]


def test_creation_of_a_log_file_is_reported_once(tmp_path: Path) -> None:
    begun: list[int] = []
    writer = LogWriter(tmp_path, 1000, begun.append)
    writer.roll()
    writer.sync()
    for number in (1, 2):
        writer.append([a_txn(EPOCH_1 + number)])
    writer.roll()
    writer.append([a_txn(EPOCH_1 + 3)])
    writer.roll()
    assert begun == [EPOCH_1 + 1, EPOCH_1 + 3]


# -- truncation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", range(9))
def test_truncation_keeps_transactions_up_to_the_zxid(tmp_path: Path, to: int) -> None:
    directories_with(tmp_path, range(1, 4), range(4, 6), range(6, 8))
    truncate_logs(tmp_path, EPOCH_1 + to)
    left = [numbers(path) for _, path in list_logs(tmp_path)]
    expected = [[n for n in file if n <= to] for file in ([1, 2, 3], [4, 5], [6, 7])]
    assert left == [file for file in expected if file]
    for _, path in list_logs(tmp_path)[-1:]:
        assert path.stat().st_size == read_log(path)[1].end or to >= 7


@pytest.mark.parametrize(("to", "left"), [(2, [1, 2]), (3, [1, 2, 3]), (4, [1, 2, 3]), (6, [1, 2, 3])])
def test_damaged_log_can_be_truncated_only_before_the_damage(tmp_path: Path, to: int, left: list[int]) -> None:
    """A damaged log can be truncated only before its damage.

    Otherwise a log that ends at its damage would count as truncated at the requested position.
    """
    directories_with(tmp_path, range(1, 7))
    path = tmp_path / "log.100000001"
    raw = bytearray(path.read_bytes())
    ends = read_log(path)[1].ends
    raw[ends[2] + 30] ^= 1
    path.write_bytes(raw)
    truncate_logs(tmp_path, EPOCH_1 + to)
    assert numbers(path) == left
    assert (read_log(path)[1].damage is Damage.NONE) == (to <= 3)
    assert (path.stat().st_size == ends[to - 1]) == (to <= 3)


def test_log_truncation_and_completed_record_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.1"
    path.write_bytes(b"abcdef")
    synced: list[bytes] = []
    monkeypatch.setattr(HOST, "fsync", lambda descriptor: synced.append(path.read_bytes()))
    cut_file(path, 4)
    close_record(path, 2)
    assert synced == [b"abcd", b"abBd"]


# -- records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "damage", "end"),
    [
        pytest.param(b"", Damage.NONE, 0, id="empty"),
        pytest.param(bytes(100), Damage.NONE, 0, id="nothing but zeros"),
        pytest.param(LOG_HEADER[:7], Damage.NONE, 0, id="a header that is cut short"),
        pytest.param(LOG_HEADER[:3] + bytes(50), Damage.NONE, 0, id="a magic number that is torn"),
        pytest.param(LOG_HEADER[:7] + bytes(50), Damage.NONE, 16, id="a header that is torn"),
        pytest.param(LOG_HEADER, Damage.NONE, 16, id="a header alone"),
        pytest.param(b"ZKLX" + bytes(12), Damage.HEADER, 0, id="another magic number"),
        pytest.param(b"ZK", Damage.NONE, 0, id="two bytes of a header"),
        pytest.param(b"AB", Damage.HEADER, 0, id="two bytes of something else"),
        pytest.param(b"#!/bin/sh\necho hello to you", Damage.HEADER, 0, id="a script"),
        pytest.param(b"#!/bin/sh\n", Damage.HEADER, 0, id="a short script"),
        pytest.param(LOG_HEADER + RECORD, Damage.NONE, 16 + len(RECORD), id="whole"),
        pytest.param(LOG_HEADER + RECORD + bytes(5), Damage.NONE, 16 + len(RECORD), id="a few zeros behind"),
        pytest.param(LOG_HEADER + RECORD + bytes(12), Damage.NONE, 16 + len(RECORD), id="a head of zeros behind"),
        pytest.param(LOG_HEADER + RECORD + b"\0\0\0\0\1", Damage.TORN, 16 + len(RECORD), id="less than a head"),
        pytest.param(LOG_HEADER + RECORD[:12], Damage.TORN, 16, id="a head alone"),
        pytest.param(LOG_HEADER + RECORD[:-2], Damage.TORN, 16, id="the last byte is not there"),
        pytest.param(LOG_HEADER + RECORD[:-2] + bytes(50), Damage.TORN, 16, id="the last byte is zero"),
        pytest.param(LOG_HEADER + bytes(12) + RECORD, Damage.LOST, 16, id="zeros before a record"),
        pytest.param(LOG_HEADER + RECORD[:8] + b"\xff" * 4 + RECORD[12:], Damage.LENGTH, 16, id="a length below 0"),
        pytest.param(
            LOG_HEADER + RECORD[:8] + (TXN_BYTES_MAX + 1).to_bytes(4, "big"), Damage.LENGTH, 16, id="too long"
        ),
        pytest.param(
            LOG_HEADER + RECORD[:8] + TXN_BYTES_MAX.to_bytes(4, "big"), Damage.TORN, 16, id="as long as can be"
        ),
        pytest.param(LOG_HEADER + b"\0" * 7 + b"\1" + RECORD[8:], Damage.CHECKSUM, 16, id="another checksum"),
        pytest.param(
            LOG_HEADER + RECORD_HEAD.pack(adler32(b"abc"), 3) + b"abcB", Damage.CONTENT, 16, id="no transaction"
        ),
    ],
)
def test_log_scan_classifies_how_the_file_ends(tmp_path: Path, data: bytes, damage: Damage, end: int) -> None:
    (tmp_path / "log.1").write_bytes(data)
    scanned = read_log(tmp_path / "log.1")[1]
    assert (scanned.damage, scanned.end) == (damage, end)
    assert len(scanned.txns) == len(scanned.ends) == (1 if end > 16 else 0)
    assert scanned.ends == ([end] if end > 16 else []) and scanned.unclosed == []


@pytest.mark.parametrize("behind", [b"", b"\0", bytes(20)])
def test_record_without_its_closing_byte_is_complete(behind: bytes) -> None:
    """A record without its closing byte counts as complete if its checksum is correct.

    ZooKeeper writes the closing byte together with the record, but a power loss can remove the closing byte alone.
    """
    scanned = scan(LOG_HEADER + RECORD + RECORD[:-1] + behind)
    assert len(scanned.txns) == 2 and scanned.damage is Damage.NONE
    assert scanned.unclosed == [16 + 2 * len(RECORD) - 1] and scanned.ends[-1] == 16 + 2 * len(RECORD)


LONG = frame_record(a_txn(EPOCH_1 + 2, bytes(range(1, 200))))


@pytest.mark.parametrize(
    ("tail", "torn"),
    [
        pytest.param(b"", True, id="nothing"),
        pytest.param(LONG[:6], True, id="part of the checksum"),
        pytest.param(LONG[:8], True, id="the checksum"),
        pytest.param(LONG[:12], True, id="the head"),
        pytest.param(LONG[:8] + b"\xff", False, id="the begin of a length below 0"),
        pytest.param(LONG[:8] + b"\xff\xff\xff\xff", False, id="a length below 0"),
        pytest.param(LONG[:8] + b"\xff\xff\xff\xff" + LONG[12:80], False, id="a length below 0, and more"),
        pytest.param(LONG[:80], True, id="part of the transaction"),
        pytest.param(LONG[:-2], True, id="all but two bytes"),
        pytest.param(LONG[:-5] + b"?" + LONG[-4:], False, id="all of it, and a byte is another"),
        pytest.param(LONG[:60] + RECORD, False, id="a whole record behind it"),
        pytest.param(LONG[:8] + b"\0\0\2\0" + LONG[12:], False, id="all of it with a length that reaches too far"),
        pytest.param(LONG[:8] + b"\0\0\2\0" + LONG[12:-1] + b"?", True, id="a length that reaches far, torn"),
    ],
)
def test_incomplete_last_record_counts_as_unsynced(tail: bytes, torn: bool) -> None:
    data = LOG_HEADER + RECORD + tail + bytes(700)
    assert is_torn_tail(data, 16 + len(RECORD)) is torn


def test_record_after_damage_is_found_near_the_end_of_the_file() -> None:
    for behind in range(4):
        assert whole_record_after(b"xx" + RECORD + bytes(behind), 0) == 2
        assert whole_record_after(b"xx" + RECORD[:-1] + bytes(behind), 0) is None
    assert whole_record_after(RECORD + bytes(20), 0) is None, "beyond the offset, not at it"
    assert whole_record_after(b"x" + RECORD[:-1] + b"?" + RECORD + bytes(20), 0) == 1 + len(RECORD)


@pytest.mark.parametrize(
    ("last", "zxid", "right"),
    [
        ((1, 5), (1, 6), True),
        ((1, 5), (1, 5), False),
        ((1, 5), (1, 7), False),
        ((1, 5), (1, 4), False),
        ((1, 5), (2, 1), True),
        ((1, 5), (4, 1), True),
        ((1, 5), (2, 2), False),
        ((1, 5), (2, 0), False),
        ((2, 5), (1, 1), False),
        ((1, 0xFFFFFFFF), (2, 0), True),
        ((0, 0), (0, 1), True),
    ],
)
def test_zxid_of_the_next_transaction_is_checked_for_gaps(
    last: tuple[int, int], zxid: tuple[int, int], right: bool
) -> None:
    """The zxid shows whether a transaction is the next one.

    Within an epoch, the counter increases by 1. An epoch's first transaction has counter 1 (Leader.propose).
    """
    assert follows(last[0] << 32 | last[1], zxid[0] << 32 | zxid[1]) is right


# -- reading for a learner -------------------------------------------------------------------------------------------


def expected(after: int, base: int = 0, factor: float = 0.0) -> ReadLog:
    return ReadLog(LinkId(1), Zxid(EPOCH_1 + after), Zxid(EPOCH_1 + base), factor)


def read(reader: LogReader, after: int, base: int = 0, factor: float = 0.0) -> list[int] | None:
    txns = reader.read(expected(after, base, factor))
    return None if txns is None else [txn.zxid - EPOCH_1 for txn in txns]


def test_log_chunk_for_a_learner_ends_at_txn_or_byte_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = LogReader(directories_with(tmp_path, range(1, 11)))
    monkeypatch.setattr(log_reading, "PIECE_TXNS", 3)
    assert read(reader, 0) == [1, 2, 3] and read(reader, 3) == [4, 5, 6]
    monkeypatch.setattr(log_reading, "PIECE_TXNS", 500)
    body = len(RECORD) - 13
    for pieces_bytes, count in ((body, 1), (body + 1, 2), (4 * body, 4), (4 * body + 1, 5)):
        monkeypatch.setattr(log_reading, "PIECE_BYTES", pieces_bytes)
        assert read(reader, 0) == list(range(1, count + 1))


@pytest.mark.parametrize("read_bytes", [1, 13, 50, 1000])
def test_log_records_are_read_completely_for_any_read_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_bytes: int
) -> None:
    monkeypatch.setattr(log_reading, "_READ_BYTES", read_bytes)
    assert read(LogReader(directories_with(tmp_path, range(1, 5), range(5, 9))), 0) == list(range(1, 9))


def test_number_of_remembered_learner_positions_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log reader remembers the file positions of a limited number of learners.

    Without a remembered position, it searches the file from its start, which is slower but has the same result.
    """
    monkeypatch.setattr(log_reading, "_POSITIONS_MAX", 2)
    monkeypatch.setattr(log_reading, "PIECE_TXNS", 1)
    reader = LogReader(directories_with(tmp_path, range(1, 9)))
    looked_for: list[int] = []
    find = reader._find
    reader._find = lambda after, base: (looked_for.append(after - EPOCH_1), find(after, base))[1]  # type: ignore[method-assign]
    for after in (1, 3, 5):
        assert read(reader, after) == [after + 1]
    assert looked_for == [1, 3, 5] and len(reader._positions) == 2
    for after in (6, 4, 2):
        assert read(reader, after) == [after + 1]
    assert looked_for == [1, 3, 5, 2], "the oldest was forgotten"


@pytest.mark.parametrize("learner", range(9))
def test_purge_of_a_log_file_during_a_read_ends_learner_chunks(tmp_path: Path, learner: int) -> None:
    directories = directories_with(tmp_path, range(1, 4), range(4, 9))
    reader = LogReader(directories)
    (tmp_path / "log.100000001").unlink()
    assert read(reader, learner, base=0) == (list(range(learner + 1, 9)) if 4 <= learner < 8 else None)


def test_log_reader_without_log_files_returns_nothing(tmp_path: Path) -> None:
    assert read(LogReader(Directories(tmp_path, tmp_path)), 0) is None


def test_log_too_large_relative_to_the_snapshot_is_not_sent(tmp_path: Path) -> None:
    """A learner is not synchronized from the log if the log is larger than a fraction of the newest snapshot.

    The fraction is zookeeper.snapshotSizeFactor (ZKDatabase.calculateTxnLogSizeLimit).
    """
    directories = directories_with(tmp_path, range(1, 5), range(5, 9))
    reader = LogReader(directories)
    snapshot = directories.snapshots()[-1][1].stat().st_size
    blocks = [path.stat().st_blocks * 512 for _, path in directories.logs()]
    whole = sum(blocks) - HEADER.size
    assert read(reader, 0, factor=(whole + 1) / snapshot) == list(range(1, 9))
    assert read(LogReader(directories), 0, factor=(whole - 1) / snapshot) is None
    ends = read_log(directories.logs()[1][1])[1].ends
    behind_6 = blocks[1] - ends[1]
    assert read(LogReader(directories), 6, factor=(behind_6 + 1) / snapshot) == [7, 8]
    assert read(LogReader(directories), 6, factor=(behind_6 - 1) / snapshot) is None


def test_log_exceeds_any_size_factor_if_there_is_no_snapshot(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 5), snapshots=())
    assert read(LogReader(directories), 0, factor=1e9) is None
    assert read(LogReader(directories), 0) == [1, 2, 3, 4], "without a factor the size does not matter"


def test_incomplete_log_record_is_not_sent_to_a_learner(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 5))
    path = directories.logs()[0][1]
    raw = path.read_bytes()
    begin, end = read_log(path)[1].ends[2:4]
    for cut in range(begin, end):
        path.write_bytes(raw[:cut] + bytes(20))
        assert read(LogReader(directories), 0) == [1, 2, 3]
        path.write_bytes(raw[:cut])
        assert read(LogReader(directories), 0) == [1, 2, 3]


def test_log_magic_number_equals_that_of_zookeeper() -> None:
    assert LOG_MAGIC.to_bytes(4, "big") == b"ZKLG"
