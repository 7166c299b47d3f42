"""Each event type has a table with typed columns. Its rows have the same values as the journal lines."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from zabka.journal.events import BY_NAME
from zabka.pipeline.entries import check_line
from zabka.pipeline.lake.silver import SCHEMAS, typed

EXAMPLES = Path(__file__).resolve().parents[1] / "golden/sentences.jsonl"


def examples() -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = {name: [] for name in BY_NAME}
    for line in EXAMPLES.read_text().splitlines():
        entry = json.loads(line)["entry"]
        found[entry["type"]].append(entry)
    return found


def comparable(value: object) -> object:
    """Remove the differences between JSON and Arrow from a value: the names of structure fields, and map keys."""
    if isinstance(value, dict):
        values = list(value.values())
        return [comparable(v) for v in values] if all(k.startswith("_") for k in value) and value else {
            str(k): comparable(v) for k, v in value.items()
        }  # fmt: skip
    if isinstance(value, list):
        if value and all(isinstance(each, tuple) for each in value):
            return {str(key): comparable(each) for key, each in value}
        return [comparable(each) for each in value]
    return int(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize("kind", sorted(BY_NAME))
def test_table_row_has_the_values_of_its_journal_line(kind: str) -> None:
    lines = examples()[kind]
    assert lines
    entries = [check_line(json.dumps(line).encode()) for line in lines]
    rows = typed(kind, ["."] * len(lines), entries).to_pylist()
    assert typed(kind, [], []).schema == SCHEMAS[kind]
    for line, row in zip(lines, rows, strict=True):
        for name in line.keys() - {"seq", "schema", "type"}:
            expected = line[name]
            empty = expected == {} or expected == []
            assert comparable(row[name]) or empty or expected in (0, "", False, None), name
            if not empty:
                assert comparable(row[name]) == comparable(expected), name
