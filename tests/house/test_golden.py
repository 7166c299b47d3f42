"""The golden files are complete: each event type has a sentence, and each history has its expected state."""

from __future__ import annotations

import json
from pathlib import Path

from zabka.journal.events import BY_NAME

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def test_every_golden_history_has_a_state_file() -> None:
    names = {path.name.split(".")[0] for path in (GOLDEN / "histories").iterdir()}
    expected = {f"{name}.jsonl" for name in names} | {f"{name}.state.json" for name in names}
    assert {path.name for path in (GOLDEN / "histories").iterdir()} == expected


def test_golden_sentences_cover_exactly_the_event_types() -> None:
    described = {json.loads(line)["entry"]["type"] for line in (GOLDEN / "sentences.jsonl").read_text().splitlines()}
    assert sorted(set(BY_NAME) ^ described) == []
