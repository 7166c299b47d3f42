"""Incremental reading of a journal: an unchanged journal costs two stat calls, and no new entry is missed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from zabka.agent.protocol import FirstLine, JournalChunk, Position
from zabka.compose import journal_files
from zabka.compose.journal_files import SETTLED_NS, JournalTail

FIRST, SECOND = "peer-1.000000000001.jsonl", "peer-1.000000000009.jsonl"
Files = Callable[[Path, str], list[Path]]


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a growing list: each time that a node's journal directory is listed, the node's name is added."""
    found: list[str] = []
    real = journal_files.read_on

    def counted(directory: Path, node: str, position: Position, files: Files) -> JournalChunk | None:
        found.append(node)
        return real(directory, node, position, files)

    monkeypatch.setattr(journal_files, "read_on", counted)
    return found


def settle(directory: Path) -> None:
    past = time.time_ns() - 2 * SETTLED_NS
    os.utime(directory, ns=(past, past))


def at_the_end(directory: Path) -> tuple[JournalTail, Position]:
    (directory / FIRST).write_bytes(b"one\n")
    settle(directory)
    return JournalTail(directory, "peer-1"), Position(FIRST, 4)


def test_directory_of_an_unchanged_journal_is_listed_once(tmp_path: Path, listed: list[str]) -> None:
    tail, end = at_the_end(tmp_path)
    assert [tail.read_on(end) for _ in range(5)] == [None] * 5
    assert listed == ["peer-1"]


def test_appended_journal_line_is_read(tmp_path: Path) -> None:
    tail, end = at_the_end(tmp_path)
    assert tail.read_on(end) is None
    with (tmp_path / FIRST).open("ab") as file:
        file.write(b"two\n")
    assert tail.read_on(end) == JournalChunk("peer-1", b"two\n", Position(FIRST, 8))


def test_journal_line_is_read_only_after_it_is_complete(tmp_path: Path) -> None:
    tail, end = at_the_end(tmp_path)
    with (tmp_path / FIRST).open("ab", buffering=0) as file:
        file.write(b"tw")
        assert tail.read_on(end) is None
        file.write(b"o\n")
    assert tail.read_on(end) == JournalChunk("peer-1", b"two\n", Position(FIRST, 8))


def test_added_journal_file_is_read(tmp_path: Path) -> None:
    tail, end = at_the_end(tmp_path)
    assert tail.read_on(end) is None
    (tmp_path / SECOND).write_bytes(b"nine\n")
    assert tail.read_on(end) == JournalChunk("peer-1", b"nine\n", Position(SECOND, 5))


def test_file_added_within_one_clock_tick_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Increase SETTLED_NS, so that the test passes no matter how much time passes between the two writes.
    monkeypatch.setattr(journal_files, "SETTLED_NS", 3600 * 10**9)
    (tmp_path / FIRST).write_bytes(b"one\n")
    stamp = tmp_path.stat().st_mtime_ns
    tail, end = JournalTail(tmp_path, "peer-1"), Position(FIRST, 4)
    assert tail.read_on(end) is None
    (tmp_path / SECOND).write_bytes(b"nine\n")
    os.utime(tmp_path, ns=(stamp, stamp))
    assert tail.read_on(end) is not None


def test_lines_after_an_earlier_read_position_are_read_again(tmp_path: Path) -> None:
    tail, end = at_the_end(tmp_path)
    assert tail.read_on(end) is None
    assert tail.read_on(Position()) == JournalChunk("peer-1", b"one\n", Position(FIRST, 4))


def test_missing_journal_has_no_new_lines(tmp_path: Path) -> None:
    assert JournalTail(tmp_path / "none", "peer-1").read_on(Position()) is None


OLD, NEW = FirstLine(100, 7), FirstLine(900, 3)


def line(first: FirstLine) -> bytes:
    return b'{"node_seq":1,"wall_us":%d,"mono_us":%d}\n' % (first.wall_us, first.mono_us)


def test_shortened_journal_file_is_read_as_a_new_journal(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(b"new\n")
    tail = JournalTail(tmp_path, "peer-1")

    assert tail.read_on(Position(FIRST, 4000)) == JournalChunk("peer-1", b"new\n", Position(FIRST, 4), anew=True)
    assert tail.read_on(Position(FIRST, 4)) is None


@pytest.mark.parametrize(
    "read",
    [
        Position(FIRST, 4, first=OLD),
        Position(FIRST, 4000, first=OLD),
        Position(SECOND, 4, first=OLD),
        Position(after=3, first=OLD),
        Position(after=3000, first=OLD),
    ],
    ids=["longer", "shorter", "no such file", "asked by number", "by a number that is not there yet"],
)
def test_journal_with_another_first_line_is_read_from_the_start(tmp_path: Path, read: Position) -> None:
    (tmp_path / FIRST).write_bytes(line(NEW) + b"two\n")

    found = JournalTail(tmp_path, "peer-1").read_on(read)
    assert found == JournalChunk("peer-1", line(NEW) + b"two\n", Position(FIRST, len(line(NEW)) + 4), anew=True)


def test_read_position_is_kept_if_the_first_line_is_the_same(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(line(OLD) + b"two\n")
    (tmp_path / SECOND).write_bytes(b"nine\n")
    tail, length = JournalTail(tmp_path, "peer-1"), len(line(OLD)) + 4

    assert tail.read_on(Position(FIRST, length - 4, first=OLD)) == JournalChunk(
        "peer-1", b"two\n", Position(FIRST, length)
    )
    assert tail.read_on(Position(FIRST, length, first=OLD)) == JournalChunk("peer-1", b"nine\n", Position(SECOND, 5))
    assert tail.read_on(Position(SECOND, 5, first=OLD)) is None


def test_journal_tail_continues_after_first_file_is_deleted(tmp_path: Path) -> None:
    (tmp_path / SECOND).write_bytes(b"nine\n")

    found = JournalTail(tmp_path, "peer-1").read_on(Position(FIRST, 4000, first=OLD))
    assert found == JournalChunk("peer-1", b"nine\n", Position(SECOND, 5))


def test_truncated_journal_is_not_detected_as_a_new_journal(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(line(OLD))

    found = JournalTail(tmp_path, "peer-1").read_on(Position(FIRST, 4000, first=OLD))
    assert found == JournalChunk("peer-1", line(OLD), Position(FIRST, len(line(OLD))))


def test_damaged_first_line_is_not_detected_as_a_new_journal(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(b"rot\ntwo\n")

    found = JournalTail(tmp_path, "peer-1").read_on(Position(FIRST, 4, first=OLD))
    assert found == JournalChunk("peer-1", b"two\n", Position(FIRST, 8))


@pytest.mark.parametrize("written", [b"", line(NEW)[:-1]], ids=["empty", "half a line"])
def test_new_journal_is_read_after_its_first_line_is_complete(tmp_path: Path, written: bytes) -> None:
    (tmp_path / FIRST).write_bytes(written)
    tail = JournalTail(tmp_path, "peer-1")
    assert tail.read_on(Position(FIRST, 4, first=OLD)) is None

    (tmp_path / FIRST).write_bytes(line(NEW))
    found = tail.read_on(Position(FIRST, 4, first=OLD))
    assert found is not None
    assert found.anew
