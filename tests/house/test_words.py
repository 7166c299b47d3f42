"""Sentences, names and commit subjects that the word check (`plainwords`) reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import words


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Return whether this election may lose committed records.", None),
        ("None if the broker is down.", None),
        ("Call `tell()` for each broker.", None),
        ("What was refused is nowhere.", "a clause as the subject"),
        ("May what was committed be lost?", "a question"),
        ("Nobody waits for it.", "no broker, no client: name it"),
        ("The broker that starts anew.", "an old or private word"),
        ("The leader is told of the change.", "told, heard, named: say who does it"),
        ("A broker tells the controller.", "a program sends, reports or receives"),
        ("The record behind the last commit.", "'behind' for after"),
        ("A topic of which the replicas moved.", "of which, for whom"),
        ("Return those that are alive.", "one that, those who: name it"),
        (" ".join(["word"] * 41), "over 40 words"),
    ],
)
def test_sentence_is_flagged_with_its_reason(text: str, reason: str | None) -> None:
    assert words.reason_against(text) == reason


@pytest.mark.parametrize(
    ("name", "flagged"), [("end_reign", True), ("NobodyReads", True), ("essay", False), ("saying", False)]
)
def test_name_is_flagged_only_for_whole_words(name: str, flagged: bool) -> None:
    assert (words.reason_against_name(name) is not None) == flagged


@pytest.mark.parametrize(
    ("subject", "accepted"),
    [
        ("controller: keep a restarted replica in the ISR", True),
        ("Merge branch of the page", True),
        ("fix things", False),
        ("controller: fix it.", False),
        ("docs: " + "x" * 60, False),
        ("broker: tell nobody", False),
    ],
)
def test_commit_subject_has_an_area_and_plain_words(subject: str, accepted: bool) -> None:
    assert (words.reason_against_subject(subject) is None) == accepted


def test_tables_and_fragments_are_not_checked_as_sentences() -> None:
    table = "| key | its meaning here |\n|---|---|\nstate   event of the state   next state"
    assert words.sentences(f"Two words. One whole sentence here.\n\n{table}") == ["One whole sentence here."]


def test_extracted_python_strings_have_type_and_location(tmp_path: Path) -> None:
    file = tmp_path / "test_x.py"
    file.write_text('"""A module of tests."""\n\n\ndef test_a() -> None:\n    # The reason for it.\n    pass\n')
    found = [(each.kind, each.text) for each in words._in_python(file)]
    assert found == [
        ("docstring", "A module of tests."),
        ("test name", "test_a"),
        ("comment", "The reason for it."),
    ]


def test_code_blocks_and_tables_of_a_document_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    code = "```sh\necho one two three\n```"
    file.write_text(f"# Title of page\n\nOne sentence is here.\n\n| a | b c d |\n\n{code}\n\n- An item of a list.\n")
    assert [each.text for each in words._in_markdown(file)] == ["One sentence is here.", "An item of a list."]
