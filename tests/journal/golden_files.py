"""The golden files, and the program that writes their expected parts: `python -m tests.journal.golden_files`.

`tests/golden/histories` contains small journals, each with the state that the docstrings of its events define.
`tests/golden/sentences.jsonl` contains journal entries, each with its sentence. To add an event, append a line
`{"entry": {…}}` to `sentences.jsonl`, and run this program. If the event changes the folded state, also append a line
to a history. The program fills in the sentences and states that the code produces now. Therefore the review of its diff
is the test: every line must match the event's docstring.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from zabka.journal.cluster_state import ClusterState
from zabka.journal.events import Entry, entry_from_dict
from zabka.journal.fold import fold
from zabka.journal.sentence_file import SENTENCES, read_sentences
from zabka.journal.sentences import holds, render

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
GOLDEN_SENTENCES = GOLDEN / "sentences.jsonl"
HISTORIES = sorted((GOLDEN / "histories").glob("*.jsonl"))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def entries_of(history: Path) -> list[Entry]:
    return [entry_from_dict(line) for line in lines_of(history)]


def state_file(history: Path) -> Path:
    return history.with_suffix(".state.json")


def state_after(entries: Iterable[Entry]) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(msgspec.json.encode(fold(entries)))
    return state


EMPTY: dict[str, Any] = json.loads(msgspec.json.encode(ClusterState()))


def with_sentence(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line of `sentences.jsonl` with the sentence that the code produces for its entry.

    `spoken` and `progress` are set only for entries that have them.
    """
    table, sentences = json.loads(SENTENCES.read_bytes()), read_sentences()
    entry = entry_from_dict(line["entry"])
    wording = table[line["entry"]["type"]]
    fields = {**msgspec.to_builtins(entry.event), "own": entry.node == f"broker-{line['entry'].get('broker_id')}"}

    def first(pairs: list[list[str]], otherwise: str) -> str:
        return next((what for what, condition in pairs if holds(condition, fields)), otherwise)

    spoken = render(first(wording.get("spoken", []), ""), fields)
    return {
        "sentence": sentences.sentence(entry.node, entry.event),
        "weight": first(wording.get("weight", []), "plain"),
        "in_story": sentences.belongs_in_story(entry.node, entry.event),
        **({"spoken": spoken} if spoken else {}),
        **({"progress": True} if wording.get("progress") else {}),
        "entry": line["entry"],
    }


def sentences_text() -> str:
    """Return the expected content of `sentences.jsonl`."""
    return "".join(json.dumps(with_sentence(line), ensure_ascii=False) + "\n" for line in lines_of(GOLDEN_SENTENCES))


def state_text(history: Path) -> str:
    """Return the expected content of the state file that belongs to a history."""
    return json.dumps(state_after(entries_of(history)), ensure_ascii=False, indent=1) + "\n"


def main() -> None:
    """Write the expected parts of all golden files."""
    GOLDEN_SENTENCES.write_text(sentences_text())
    for history in HISTORIES:
        state_file(history).write_text(state_text(history))


if __name__ == "__main__":
    main()
