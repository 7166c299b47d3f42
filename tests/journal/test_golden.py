"""The fold and the sentences against the golden files, which `tests/browser/js/golden.test.mjs` holds the page to.

`tests/golden/histories` holds small journals and, beside each, the state that the docstrings of its events ask for;
`tests/golden/sentences.jsonl` holds journal entries with what is to be said of each.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from journal.cluster_state import ClusterState
from journal.events import EVENT_TYPES, entry_from_dict
from journal.fold import fold
from journal.sentence_file import SENTENCES, read_sentences
from journal.sentences import holds, render

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
HISTORIES = sorted(path.stem for path in (GOLDEN / "histories").glob("*.jsonl"))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def state_of(history: str) -> dict[str, Any]:
    entries = [entry_from_dict(line) for line in lines(GOLDEN / "histories" / f"{history}.jsonl")]
    state: dict[str, Any] = json.loads(msgspec.json.encode(fold(entries)))
    return state


@pytest.mark.parametrize("history", HISTORIES)
def test_a_golden_history_folds_to_its_golden_state(history: str) -> None:
    assert state_of(history) == json.loads((GOLDEN / "histories" / f"{history}.state.json").read_text())


def test_what_is_not_folded_moves_nothing_but_the_place_in_the_history() -> None:
    state = state_of("not-folded")
    empty = json.loads(msgspec.json.encode(ClusterState()))
    assert {**state, "seq": 0, "at_us": 0} == empty
    assert state["seq"] > 0 and state["at_us"] > 0


def test_every_golden_sentence_is_said_and_is_in_stories_where_it_belongs() -> None:
    sentences = read_sentences()
    for golden in lines(GOLDEN / "sentences.jsonl"):
        entry = entry_from_dict(golden["entry"])
        assert sentences.sentence(entry.node, entry.event) == golden["sentence"]
        assert sentences.belongs_in_story(entry.node, entry.event) == golden["in_story"], golden


def test_every_event_type_has_its_sentence_and_no_sentence_is_without_a_type() -> None:
    table = json.loads(SENTENCES.read_bytes())
    assert sorted(table) == sorted(kind.__struct_config__.tag for kind in EVENT_TYPES)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{a} of {c:plural seed}", "7 of 1 seed"),
        ("{big:plural seed}", "1,234,567 seeds"),
        ("{minus:hex}", "0xffffffffffffffff"),
        ("{map:pairs}, {map:size key}", "x=1, y=2, 2 keys"),
        ("[none?some|nobody]", "nobody"),
        ("[none?{none:list}], [a?{a}]", ", 7"),
        ("[!none&a>6?both][a<7?neither]", "both"),
        ("[a!=7?other|{word:words}]", "two words"),
        ("[word=two_words?the same]", "the same"),
    ],
)
def test_a_template_is_filled_in(template: str, said: str) -> None:
    fields = {"a": 7, "c": 1, "big": 1_234_567, "minus": -1, "map": {"x": 1, "y": 2}, "none": [], "word": "two_words"}
    assert render(template, fields) == said


@pytest.mark.parametrize("condition", ["absent", "a&absent", "a>many", "a ? b"])
def test_a_condition_that_cannot_be_judged_is_an_error(condition: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        holds(condition, {"a": 7})


def test_nothing_asked_is_a_condition_that_always_holds() -> None:
    assert holds("", {})
