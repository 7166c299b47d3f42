"""The list of event types: every defined type is listed, and an unlisted type cannot be written."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from zabka.journal.events import EVENT_TYPES, Event
from zabka.journal.reader import decode_line
from zabka.journal.writer import JournalWriter, encode_line

JOURNAL = Path(__file__).resolve().parents[2] / "zabka" / "journal"


class UnlistedEvent(Event):
    node: str


def test_every_event_of_the_journal_package_is_listed_once() -> None:
    defined = [
        node.name
        for path in JOURNAL.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and "Event" in map(ast.unparse, node.bases)
    ]
    assert sorted(defined) == sorted(kind.__name__ for kind in EVENT_TYPES)


def test_unlisted_event_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="UnlistedEvent is missing"):
        encode_line("peer-1", 1, 2, 3, UnlistedEvent("x"))
    for full in (False, True):
        writer = JournalWriter(tmp_path, "peer-1", full=full)
        with pytest.raises(TypeError, match="UnlistedEvent is missing"):
            writer.write(UnlistedEvent("x"))
        writer.close()
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [0]


def test_journal_line_of_an_unlisted_type_is_reported_as_unknown() -> None:
    with pytest.raises(ValueError, match="unknown or missing 'unlisted_event'"):
        decode_line(b'{"schema":1,"node":"peer-1","node_seq":1,"wall_us":2,"mono_us":3,"type":"unlisted_event"}\n')
