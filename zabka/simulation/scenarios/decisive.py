"""The decisive event of a scenario run: the event that settles the outcome. The dashboard opens the run at this event.

A scenario can name its decisive event.  Otherwise this module derives it.  If the scenario was also run with its bug,
the decisive event is the first difference between the two runs that leads to the outcome (`zabka.journal.outcomes`).
If not, it is the first violation, or else the last decision of a node before the script heals all faults.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from zabka.journal.checkers.invariants import check
from zabka.journal.event import snake
from zabka.journal.events import Entry
from zabka.journal.outcomes import deciding, is_decision
from zabka.simulation.scenarios.scenario import AnyScenario, Moment, Verdict
from zabka.simulation.scenarios.story import HEALING


class Decisive(NamedTuple):
    """Number of the decisive event in the journals of the run (`played`) and of the run with the bug (`outage`).

    Numbers start at 1; None if the journal has no decisive event.
    """

    played: int | None
    outage: int | None


def decisive(scenario: AnyScenario, verdict: Verdict) -> Decisive:
    """Return the decisive events of two runs of a scenario: without and with its injected bug."""
    if verdict.shown is None:
        return Decisive(_alone(scenario, verdict), None)
    one, other = _on_world_time(verdict.journal), _on_world_time(verdict.shown.journal)
    parted = deciding(one, other)
    if parted is None:
        return Decisive(_alone(scenario, verdict), _alone(scenario, verdict.shown))
    shown = parted.other or parted.one
    at_us = 0 if shown is None else shown.wall_us
    return Decisive(_number(one, parted.one, at_us), _number(other, parted.other, at_us))


def _on_world_time(journal: Sequence[Entry]) -> list[Entry]:
    return [msgspec.structs.replace(entry, wall_us=entry.mono_us) for entry in journal]


def _number(entries: Sequence[Entry], entry: Entry | None, at_us: int) -> int:
    """Return the number of `entry` in the journal or, if `entry` is None, of the last decision up to `at_us`.

    If the node made several decisions in the same microsecond as the last one, return the number of the first of them,
    because nodes write causes before effects.
    """
    if entry is not None:
        return next(number for number, each in enumerate(entries, 1) if each is entry)
    before = [(n, each) for n, each in enumerate(entries, 1) if each.wall_us <= at_us and is_decision(each.event)]
    if not before:
        return 1
    last = before[-1][1]
    return next(n for n, each in before if (each.node, each.wall_us) == (last.node, last.wall_us))


def _alone(scenario: AnyScenario, verdict: Verdict) -> int | None:
    journal = verdict.journal
    named = scenario.decisive
    if named is not None and (found := _first(named, journal)) is not None:
        return found
    for violation in check(journal):
        return next(n for n, e in enumerate(journal, 1) if (e.node, e.node_seq) == (violation.node, violation.node_seq))
    end = next((step.entries for step in reversed(verdict.taken) if step.text == HEALING), len(journal))
    begin = verdict.taken[1].entries if len(verdict.taken) > 1 else 0
    decided = [n for n, e in enumerate(journal[:end], 1) if n > begin and _is_caused(e)]
    # If the script only sends client requests, no decision has a cause. Then the last event shows the outcome.
    return decided[-1] if decided else min(end, len(journal)) or None


def _is_caused(entry: Entry) -> bool:
    return is_decision(entry.event) and hasattr(entry.event, "caused_by")


def _first(moment: Moment, journal: Sequence[Entry]) -> int | None:
    for number, entry in enumerate(journal, 1):
        event = entry.event
        if snake(type(event).__name__) == moment.type and all(
            getattr(event, name) == value for name, value in moment.fields.items()
        ):
            return number
    return None
