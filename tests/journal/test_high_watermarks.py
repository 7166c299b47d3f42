"""High watermarks that a broker's replicas have provably reached, according to its journal."""

from __future__ import annotations

from pathlib import Path

from zabka.journal import events as e
from zabka.journal.events import TopicPartition
from zabka.journal.high_watermark_files import READ_BYTES_MAX, read_high_watermarks
from zabka.journal.high_watermarks import high_watermarks_reached
from zabka.journal.writer import JournalWriter

T0 = TopicPartition("t", 0)


def progressed(high_watermark: int, end: int) -> e.ReplicaProgressed:
    return e.ReplicaProgressed(1, [("t", 0, high_watermark, end)])


def test_reported_high_watermark_overrides_a_later_checkpoint() -> None:
    loaded = e.ReplicaLoaded(1, "t", 0, log_end_offset=9, high_watermark=2)
    assert high_watermarks_reached([progressed(3, 5), progressed(8, 9), loaded]) == {T0: 8}


def test_truncation_limits_the_reported_high_watermark() -> None:
    truncated = e.LogTruncated(1, "t", 0, from_offset=9, to_offset=4, leader_epoch=2)
    assert high_watermarks_reached([progressed(8, 9), truncated]) == {T0: 4}
    assert high_watermarks_reached([progressed(8, 9), truncated, progressed(6, 7)]) == {T0: 6}


def test_recreated_topic_does_not_inherit_the_high_watermark() -> None:
    follows = e.FollowershipTaken(1, "t", 0, leader=2, leader_epoch=0, log_end_offset=0)
    leads = e.LeadershipTaken(1, "t", 0, leader_epoch=0, log_end_offset=1, high_watermark=0)
    assert high_watermarks_reached([progressed(8, 9), follows]) == {T0: 0}
    assert high_watermarks_reached([progressed(8, 9), leads]) == {T0: 1}


def test_journal_is_read_across_rotations_and_invalid_lines(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, "broker-1", file_bytes_max=200)
    for mark in (3, 5):
        writer.write(progressed(mark, 9))
        writer.write(e.NodeStopped("x" * 200))
        writer.flush()
    assert writer.high_watermarks_reached() == {T0: 5}
    newest = sorted(tmp_path.iterdir())[-1]
    newest.write_bytes(b'{"type":"replica_progressed"\n' + newest.read_bytes() + b'{"type":"replica_progressed","no')
    assert read_high_watermarks(tmp_path, "broker-1") == {T0: 5}
    writer.close()


def test_only_the_end_of_a_long_journal_is_read(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, "broker-1")
    writer.write(e.ReplicaProgressed(1, [("old", 0, 7, 7)]))
    for _ in range(READ_BYTES_MAX // 50_000 + 1):
        writer.write(e.NodeStopped("x" * 50_000))
    writer.write(progressed(5, 9))
    assert writer.high_watermarks_reached() == {T0: 5}
    writer.close()


def test_missing_journal_gives_no_high_watermarks(tmp_path: Path) -> None:
    assert read_high_watermarks(tmp_path, "broker-1") == {}
