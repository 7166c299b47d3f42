"""Plays one run of a campaign: executes a seed with a setting, checks and measures it, and returns its row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from zabka.journal.events import Entry
from zabka.pipeline.campaign.figures import figures
from zabka.pipeline.campaign.measures import Asked, Measures, measure
from zabka.pipeline.campaign.partition_times import Window
from zabka.simulation.engine.garbage import collect_seldom, keep_what_is_loaded
from zabka.simulation.run import SCENARIOS
from zabka.simulation.seeds.seed_run import SeedRun
from zabka.simulation.settings import WorldSettings, world_settings


class Run(msgspec.Struct, frozen=True):
    """A run to execute: the index of its setting in the campaign's list of settings, and its seed."""

    point: int
    seed: int
    scenario: str
    settings: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command that replays only this run."""
        named = "" if self.scenario == "chaos" else f" --scenario {self.scenario}"
        return f"zabka replay --seed {self.seed}{named}" + "".join(f" --set {setting}" for setting in self.settings)


class Played(msgspec.Struct):
    """Result of a run: one row of the table `runs`."""

    point: int
    seed: int
    scenario: str
    settings: dict[str, str]
    command: str
    problems: list[str]
    figures: dict[str, float | None]
    measures: Measures
    events: int
    virtual_ms: int
    cpu_s: float
    played_at: str = ""
    """Directory of the zabka package that executed the run."""


def play(run: Run) -> Played:
    """Execute a run until its verdict, and compute its measures.

    The window of the measures is the time from the first to the last fault, or the whole run if there are no faults.
    """
    collect_seldom()
    world = world_settings(run.settings)
    seeded = SeedRun(run.seed, SCENARIOS[run.scenario], world)
    outcome = seeded.execute()
    entries = seeded.world.record.entries
    history = None if seeded.producing is None else seeded.producing.history
    measures = measure(entries, asked(world, seeded.harmed_us, entries), history)
    return Played(
        point=run.point,
        seed=run.seed,
        scenario=run.scenario,
        settings=dict(setting.split("=", 1) for setting in run.settings),
        command=run.command,
        problems=outcome.problems,
        figures=figures(measures),
        measures=measures,
        events=outcome.events,
        virtual_ms=outcome.virtual_ms,
        cpu_s=outcome.cpu_s,
        played_at=str(Path(__file__).parents[2]),
    )


def asked(world: WorldSettings, harmed_us: tuple[int, int], entries: list[Entry]) -> Asked:
    """Return the parameters with which a run is measured.

    The window is the time of the faults (`harmed_us`), or the whole history if there were no faults.
    """
    begin_us, end_us = harmed_us
    if end_us <= begin_us:
        begin_us, end_us = 0, entries[-1].mono_us if entries else 0
    needed = int(world.broker_keys.get("min.insync.replicas", "1"))
    return Asked(Window(begin_us, end_us), needed, world.workload.acks)


def row(encoded: bytes) -> bytes:
    """Execute an encoded `Run` and return the encoded `Played`. A Spark task applies this function to its element.

    The memory of the simulated world is freed when the task ends, because Spark's workers collect garbage after each
    task.
    """
    line = msgspec.json.encode(play(msgspec.json.decode(encoded, type=Run)))
    keep_what_is_loaded()
    return line


def decoded(line: bytes) -> Played:
    """Decode a row of the ledger. Raises msgspec.MsgspecError if it is not valid."""
    return msgspec.json.decode(line, type=Played)


def builtins(played: Played) -> dict[str, Any]:
    """Return a row as plain data (dicts, lists, strings and numbers)."""
    found: dict[str, Any] = msgspec.to_builtins(played)
    return found
