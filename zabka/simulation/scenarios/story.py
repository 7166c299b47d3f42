"""The story of a scenario's run: the steps of its script, and the events after each step.

`zabka/journal/sentences.json` has the sentences that describe events; it also selects the events that a story contains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from zabka.journal.events import FaultInjected
from zabka.journal.sentence_file import read_sentences
from zabka.simulation.scenarios.scenario import Verdict

SCRIPT = "script"
HEALING = "everything heals; what must hold then is looked at"
LINES_MAX = 400
_WORDS = {
    "Committed": "check the committed offset of group",
    "Cast": "wait until every broker is registered and one is controller: that is first",
    "HeldBack": "wait until an open transaction holds back read_committed consumers of",
    "MarkersInOrder": "check the coordinator epochs of the markers in",
    "ReadCommitted": "read_committed consumers read",
    "ControllerTerms": "wait for a controller other than",
    "Run": "let everything under way happen",
    "Serving": "wait until the ensemble serves",
    "Settled": "wait until everything is in sync",
    "State": "wait for",
    "TransactionIs": "wait for the state of transactional id",
    "Undisturbed": "nobody else has begun to controller term",
}
"""Texts for the steps whose class names do not describe them well."""
_CLAUSES = ("Cast", "Run", "Serving", "Settled", "Undisturbed")
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class Line(msgspec.Struct, frozen=True):
    """One line of a story: its virtual time, `who` (`script` for a step, otherwise a node), and its text."""

    at_ms: int
    who: str
    text: str

    def __str__(self) -> str:
        told = self.text if self.who == SCRIPT else f"  {self.who}: {self.text}"
        return f"{self.at_ms / 1000:9.3f} s  {told}"


def story(verdict: Verdict) -> list[Line]:
    """Return the lines of the story in order: at most `LINES_MAX`, and then a line with the number of omitted lines."""
    lines = list(_lines(verdict))
    if len(lines) <= LINES_MAX:
        return lines
    return [*lines[:LINES_MAX], Line(lines[-1].at_ms, SCRIPT, f"… and {len(lines) - LINES_MAX} lines more")]


def performed_actions(verdict: Verdict) -> list[str]:
    """Return texts for the actions of the run: the script's steps or, without a script, the injected faults."""
    sentences = read_sentences()
    faults = [entry for entry in verdict.journal if isinstance(entry.event, FaultInjected)]
    return [step.text for step in verdict.taken] or [sentences.sentence(each.node, each.event) for each in faults]


def _lines(verdict: Verdict) -> Iterator[Line]:
    sentences = read_sentences()
    begin_us = verdict.journal[0].mono_us if verdict.journal else 0
    steps = iter(verdict.taken)
    step = next(steps, None)
    for number, entry in enumerate(verdict.journal):
        while step is not None and step.entries <= number:
            yield Line(step.at_ms, SCRIPT, step.text)
            step = next(steps, None)
        if sentences.belongs_in_story(entry.node, entry.event):
            text = sentences.sentence(entry.node, entry.event)
            yield Line((entry.mono_us - begin_us) // 1000, entry.node, text)
    while step is not None:
        yield Line(step.at_ms, SCRIPT, step.text)
        step = next(steps, None)


# ---- texts of steps ---------------------------------------------------------------------------------------------


def step_text(step: msgspec.Struct, names: Mapping[str, str] | None = None) -> str:
    """Describe a step by its name and its non-default fields. `names` maps roles, such as `controller`, to nodes."""
    name = type(step).__name__
    is_clause = name in _CLAUSES
    words = _WORDS.get(name) or _CAPITAL.sub(" ", name).lower()
    told = [
        part
        for number, (field, default) in enumerate(_fields(type(step)))
        if (value := getattr(step, field)) != default
        for part in _field(field, value, named=number > 0 or is_clause, names=names or {})
    ]
    if not told:
        return words
    return f"{words}, {', '.join(told)}" if is_clause else f"{words} {', '.join(told)}"


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.default) for field in msgspec.structs.fields(kind))


def _field(name: str, value: Any, *, named: bool, names: Mapping[str, str]) -> Iterator[str]:
    label = name.replace("_", " ")
    if isinstance(value, bool):
        yield label if value else f"not {label}"
        return
    said = _value(value, names)
    if isinstance(value, int):
        yield f"{said} ms" if name == "ms" else f"{label} {said}"
    elif said:
        yield f"{label} {said}" if named else said


def _value(value: Any, names: Mapping[str, str]) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={inner}" for key, inner in value.items())
    if isinstance(value, tuple):
        return " ".join(
            f"({_value(inner, names)})" if isinstance(inner, tuple) else _value(inner, names) for inner in value
        )
    text = str(value)
    return f"{text} ({names[text]})" if text in names else text
