"""The list of event types: whatever is defined stands in it, and whatever does not stand in it is not written."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from zabka.journal.events import EVENT_TYPES, Event
from zabka.journal.reader import decode_line
from zabka.journal.writer import JournalWriter, encode_line

JOURNAL = Path(__file__).resolve().parents[2] / "zabka" / "journal"


class NobodyListedMe(Event):
    node: str


def test_every_event_that_is_defined_in_the_journals_room_is_listed_once() -> None:
    defined = [
        node.name
        for path in JOURNAL.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and "Event" in map(ast.unparse, node.bases)
    ]
    assert sorted(defined) == sorted(kind.__name__ for kind in EVENT_TYPES)


def test_an_event_that_is_not_listed_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="NobodyListedMe is missing"):
        encode_line("peer-1", 1, 2, 3, NobodyListedMe("x"))
    for full in (False, True):
        writer = JournalWriter(tmp_path, "peer-1", full=full)
        with pytest.raises(TypeError, match="NobodyListedMe is missing"):
            writer.write(NobodyListedMe("x"))
        writer.close()
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [0]


def test_a_line_of_a_type_that_is_not_listed_is_said_to_be_unknown() -> None:
    with pytest.raises(ValueError, match="unknown or missing 'nobody_listed_me'"):
        decode_line(b'{"schema":1,"node":"peer-1","node_seq":1,"wall_us":2,"mono_us":3,"type":"nobody_listed_me"}\n')
