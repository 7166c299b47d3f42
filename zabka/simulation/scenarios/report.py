"""Scenarios and their results as JSON, for `zabka scenarios list --json` and `run --json`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import msgspec

from zabka.controller.historical import HISTORICAL_KEY
from zabka.simulation.scenarios.decisive import decisive
from zabka.simulation.scenarios.scenario import AnyScenario, Verdict, WorldScenario
from zabka.simulation.scenarios.story import Line, story


class Play(msgspec.Struct, frozen=True):
    """One run of a script.

    `journal_sha256` is the hash of the run's journal as written by `--out`; `decisive` is the number of the event that
    settles the outcome.
    """

    problems: list[str]
    virtual_ms: int
    steps: int
    faults: int
    events: int
    decisive: int | None
    journal_sha256: str
    story: list[Line]


class Report(msgspec.Struct, frozen=True):
    """The verdict on a scenario. `outage` is the run with the bug, if the scenario has a bug."""

    name: str
    held: bool
    hypothesis: str
    seed: int | None
    played: Play
    outage: Play | None
    replay: str


def description(scenario: AnyScenario, obstacle: str | None, running: str | None) -> dict[str, Any]:
    """Return all fields of the scenario, and fields derived from them.

    `obstacle` is the reason why the script cannot be run on real processes, and `running` the reason why it cannot be
    run on a cluster that is already running.
    """
    bug = scenario.bug if isinstance(scenario, WorldScenario) else {}
    switches = [name for name in bug.get(HISTORICAL_KEY, "").split(",") if name]
    found: dict[str, Any] = msgspec.to_builtins(scenario)
    live = {"live": obstacle is None, "live_obstacle": obstacle, "running_obstacle": running}
    return {**found, "switches": switches, **live}


def report(scenario: AnyScenario, verdict: Verdict, replay: str) -> Report:
    """Return the report about a run of the scenario. `replay` is the command that repeats it."""
    moments = decisive(scenario, verdict)
    return Report(
        name=scenario.name,
        held=verdict.held,
        hypothesis=scenario.hypothesis,
        seed=scenario.seed if isinstance(scenario, WorldScenario) else None,
        played=_play(verdict, moments.played),
        outage=None if verdict.shown is None else _play(verdict.shown, moments.outage),
        replay=replay,
    )


def _play(verdict: Verdict, moment: int | None) -> Play:
    digest = sha256()
    for line in verdict.lines():
        digest.update(line)
    return Play(
        problems=verdict.problems,
        virtual_ms=verdict.virtual_ms,
        steps=verdict.steps,
        faults=verdict.faults,
        events=len(verdict.journal),
        decisive=moment,
        journal_sha256=digest.hexdigest(),
        story=story(verdict),
    )


def replay_command(name: str, seed: int | None, settings: Iterable[str]) -> str:
    """Return the command that runs a scenario again."""
    asked = "" if seed is None else f" --seed {seed}"
    return f"zabka scenarios run {name}{asked}" + "".join(f" --set {shlex.quote(setting)}" for setting in settings)
