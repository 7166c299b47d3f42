"""Reading on where nothing is new costs two looks, and never misses what is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from api.agent_protocol import JournalChunk, Position
from compose import journal_files
from compose.journal_files import SETTLED_NS, JournalTail

FIRST, SECOND = "peer-1.000000000001.jsonl", "peer-1.000000000009.jsonl"
Files = Callable[[Path, str], list[Path]]


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often a directory was listed."""
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


def test_an_unchanged_journal_is_listed_once(tmp_path: Path, listed: list[str]) -> None:
    tail, end = at_the_end(tmp_path)
    assert [tail.read_on(end) for _ in range(5)] == [None] * 5
    assert listed == ["peer-1"]


def test_a_line_that_is_added_is_read(tmp_path: Path) -> None:
    tail, end = at_the_end(tmp_path)
    assert tail.read_on(end) is None
    with (tmp_path / FIRST).open("ab") as file:
        file.write(b"two\n")
    assert tail.read_on(end) == JournalChunk("peer-1", b"two\n", Position(FIRST, 8))


def test_a_line_is_read_once_it_is_whole(tmp_path: Path) -> None:
    tail, end = at_the_end(tmp_path)
    with (tmp_path / FIRST).open("ab", buffering=0) as file:
        file.write(b"tw")
        assert tail.read_on(end) is None
        file.write(b"o\n")
    assert tail.read_on(end) == JournalChunk("peer-1", b"two\n", Position(FIRST, 8))


def test_a_file_that_is_added_is_read(tmp_path: Path) -> None:
    tail, end = at_the_end(tmp_path)
    assert tail.read_on(end) is None
    (tmp_path / SECOND).write_bytes(b"nine\n")
    assert tail.read_on(end) == JournalChunk("peer-1", b"nine\n", Position(SECOND, 5))


def test_a_file_added_within_the_same_step_of_the_clock_is_read(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(b"one\n")
    stamp = tmp_path.stat().st_mtime_ns
    tail, end = JournalTail(tmp_path, "peer-1"), Position(FIRST, 4)
    assert tail.read_on(end) is None
    (tmp_path / SECOND).write_bytes(b"nine\n")
    os.utime(tmp_path, ns=(stamp, stamp))
    assert tail.read_on(end) is not None


def test_another_position_is_looked_at_anew(tmp_path: Path) -> None:
    tail, end = at_the_end(tmp_path)
    assert tail.read_on(end) is None
    assert tail.read_on(Position()) == JournalChunk("peer-1", b"one\n", Position(FIRST, 4))


def test_a_journal_that_is_not_there_yet_is_nothing_new(tmp_path: Path) -> None:
    assert JournalTail(tmp_path / "none", "peer-1").read_on(Position()) is None
