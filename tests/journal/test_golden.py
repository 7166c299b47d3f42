"""The folded states and the sentences are equal to those in the golden files.

`tests/browser/js/golden.test.mjs` runs the same tests with the page's code. `tests.journal.golden_files` describes the
files, and how to add an event.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.journal.golden_files import (
    EMPTY,
    GOLDEN_SENTENCES,
    HISTORIES,
    entries_of,
    lines_of,
    sentences_text,
    state_after,
    state_file,
    state_text,
)
from zabka.journal.events import EVENT_TYPES, entry_from_dict
from zabka.journal.sentence_file import SENTENCES, read_sentences
from zabka.journal.sentences import holds, render


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.stem)
def test_golden_history_results_in_the_stored_state(history: Path) -> None:
    assert state_after(entries_of(history)) == json.loads(state_file(history).read_text())


@pytest.mark.parametrize("history", [None, *HISTORIES], ids=lambda history: history.stem if history else "nothing")
def test_event_type_in_no_golden_history_changes_only_position(history: Path | None) -> None:
    """An event type that is in no golden history changes only the journal position in the folded state.

    If an event type changes more of the state, at least one golden history must contain it.
    """
    folded = {line["type"] for path in HISTORIES for line in lines_of(path)}
    before = entries_of(history) if history else []
    state = state_after(before) if before else EMPTY
    for line in lines_of(GOLDEN_SENTENCES):
        if line["entry"]["type"] not in folded:
            after = state_after([*before, entry_from_dict({**line["entry"], "seq": 10**6, "wall_us": 2**50})])
            assert after == {**state, "seq": 10**6, "at_us": 2**50}, line["entry"]


def test_golden_events_have_expected_sentence_and_story_flag() -> None:
    sentences = read_sentences()
    for golden in lines_of(GOLDEN_SENTENCES):
        entry = entry_from_dict(golden["entry"])
        assert sentences.sentence(entry.node, entry.event) == golden["sentence"]
        assert sentences.belongs_in_story(entry.node, entry.event) == golden["in_story"], golden


def test_golden_files_are_up_to_date() -> None:
    assert sentences_text() == GOLDEN_SENTENCES.read_text()
    for history in HISTORIES:
        assert state_text(history) == state_file(history).read_text()


def test_every_event_type_has_exactly_one_sentence() -> None:
    table = json.loads(SENTENCES.read_bytes())
    assert sorted(table) == sorted(kind.__struct_config__.tag for kind in EVENT_TYPES)


@pytest.mark.parametrize(
    ("template", "text"),
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
def test_fields_of_a_sentence_template_are_filled_in(template: str, text: str) -> None:
    fields = {"a": 7, "c": 1, "big": 1_234_567, "minus": -1, "map": {"x": 1, "y": 2}, "none": [], "word": "two_words"}
    assert render(template, fields) == text


@pytest.mark.parametrize("condition", ["absent", "a&absent", "a>many", "a ? b"])
def test_event_template_with_an_invalid_condition_is_an_error(condition: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        holds(condition, {"a": 7})


def test_empty_template_condition_is_always_true() -> None:
    assert holds("", {})
