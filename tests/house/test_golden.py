"""The golden files leave no event out: each type stands in a history that is folded, and has a sentence."""

from __future__ import annotations

import json
from pathlib import Path

from journal.events import BY_NAME

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def test_every_event_type_stands_in_a_golden_history() -> None:
    """What no fold listens to stands in `not-folded.jsonl`, whose state stays empty."""
    types = {
        json.loads(line)["type"]
        for path in (GOLDEN / "histories").glob("*.jsonl")
        for line in path.read_text().splitlines()
    }
    assert sorted(set(BY_NAME) ^ types) == []


def test_every_golden_history_has_its_state() -> None:
    names = {path.name.split(".")[0] for path in (GOLDEN / "histories").iterdir()}
    wanted = {f"{name}.jsonl" for name in names} | {f"{name}.state.json" for name in names}
    assert {path.name for path in (GOLDEN / "histories").iterdir()} == wanted


def test_every_event_type_has_a_golden_sentence() -> None:
    told = {json.loads(line)["entry"]["type"] for line in (GOLDEN / "sentences.jsonl").read_text().splitlines()}
    assert sorted(set(BY_NAME) ^ told) == []
