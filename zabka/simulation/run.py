"""Run one seed of any scenario and return its outcome.

A scenario either injects randomly chosen faults, or is a script of the outage library.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from zabka.journal.events import Entry, FaultInjected
from zabka.journal.writer import encode_line
from zabka.simulation.engine.tap import MessageTap
from zabka.simulation.fork import Change, Forking, built_with
from zabka.simulation.forked_seed import Drawn, ForkedSeed
from zabka.simulation.scenarios.library import LIBRARY, play, seeded
from zabka.simulation.scenarios.scenario import AnyScenario, WorldScenario, read_scenario
from zabka.simulation.seeds.chaos import CALM, CHAOS, ENSEMBLE, REQUESTS
from zabka.simulation.seeds.disks import DISKS
from zabka.simulation.seeds.read_only import READ_ONLY
from zabka.simulation.seeds.reconfiguring import RECONFIGURING
from zabka.simulation.seeds.seed_run import Outcome, SeedRun
from zabka.simulation.seeds.swarm import SWARM, SWARM_DISKS, SWARM_ENSEMBLE
from zabka.simulation.seeds.whole_cluster import WHOLE_CLUSTER, ClusterRun
from zabka.simulation.seeds.whole_ensemble import WHOLE, ServingRun
from zabka.simulation.seeds.whole_run import WholeRun
from zabka.simulation.settings import WorldSettings

SCENARIOS = {
    each.name: each
    for each in (CHAOS, CALM, REQUESTS, ENSEMBLE, RECONFIGURING, READ_ONLY, DISKS, SWARM, SWARM_ENSEMBLE, SWARM_DISKS)
}
"""Scenarios with randomly chosen faults, in a world that the settings describe."""
WHOLE_RUNS: dict[str, type[ServingRun | ClusterRun]] = {WHOLE: ServingRun, WHOLE_CLUSTER: ClusterRun}
"""Scenarios in which the cluster's configuration is chosen at random as well."""
SCRIPT_FILE = ".json"
SEARCHED = (*SCENARIOS, *WHOLE_RUNS)
"""All scenarios with randomly chosen faults."""


def has_messages(scenario: str) -> bool:
    """Return whether a message tap can record the scenario's messages.

    It cannot record runs of the ZAB code alone, because these have no network.
    """
    return scenario in SEARCHED or isinstance(script_of(scenario), WorldScenario)


@cache
def script_of(scenario: str) -> AnyScenario | None:
    """Return the script of that name in the library, or in the JSON file with that path; None if there is none.

    Raises OSError and msgspec.ValidationError if the file cannot be read.
    """
    if scenario.endswith(SCRIPT_FILE):
        return read_scenario(Path(scenario))
    return LIBRARY.get(scenario)


class ForkedRun(NamedTuple):
    """A run of a seed that can be forked, or one of its forks, which can be forked again."""

    outcome: Outcome
    entries: list[Entry]
    seed: ForkedSeed
    nodes: dict[str, str]
    """State of each node just before the last change; empty if there is none, or the run did not reach it."""
    omitted: list[FaultInjected]
    """The faults that were left out."""
    refused: str
    """The reason for which the brokers rejected the changed settings, or an empty string."""

    def lines(self) -> list[bytes]:
        """Return the lines of the journal."""
        return [encode_line(each.node, each.node_seq, each.wall_us, each.mono_us, each.event) for each in self.entries]


def run_forked(
    seed: int, scenario: str, changes: Sequence[Change], settings: WorldSettings | None = None, *,
    drawn: Sequence[Drawn] = (), tap: MessageTap | None = None,
) -> ForkedRun:  # fmt: skip
    """Run a seed of a scenario in `SEARCHED` with those changes, in the order of their times.

    `settings` are those of the run, and `drawn` are the draws of the run without the last change (`ForkedRun.seed`): a
    fork continues with them. Without changes, the history is that of the plain seed, byte for byte. Raises ValueError
    if a change lies before the previous one.
    """
    forked = ForkedSeed(seed, drawn, next((each.future for each in changes if each.future is not None), None))
    run: SeedRun | ServingRun | ClusterRun
    if scenario in WHOLE_RUNS:
        run = WHOLE_RUNS[scenario](forked, tap=tap)
    else:
        run = SeedRun(forked, SCENARIOS[scenario], built_with(settings, changes), tap)
    forking = Forking(run.world, changes, forked.begin_future)
    outcome = run.execute()
    return ForkedRun(outcome, run.world.record.entries, forked, forking.nodes, run.world.omitted, forking.refused)


def run_seed(seed: int, scenario: str = "chaos", settings: WorldSettings | None = None) -> Outcome:
    """Run one seed and return its outcome."""
    return run_with_journal(seed, scenario, settings)[0]


def run_with_journal(
    seed: int, scenario: str, settings: WorldSettings | None = None, tap: MessageTap | None = None
) -> tuple[Outcome, Iterator[bytes]]:
    """Run one seed, and return its outcome and the lines of its journal.

    `scenario` can be a script of the outage library, or a script's file (`script_of`); the seed then determines the
    script's random delays. `tap`
    receives every message if `has_messages(scenario)`.
    """
    if scenario in WHOLE_RUNS:
        served: WholeRun = WHOLE_RUNS[scenario](seed, tap=tap)
        return served.execute(), served.world.record.lines()
    if scenario in SCENARIOS:
        run = SeedRun(seed, SCENARIOS[scenario], settings, tap)
        return run.execute(), run.world.record.lines()
    begin, cpu_begin = time.perf_counter(), time.process_time()
    script = script_of(scenario)
    assert script is not None, f"there is no scenario {scenario}"
    verdict = play(seeded(script, seed), tap)
    outcome = Outcome(
        seed=seed,
        scenario=scenario,
        problems=verdict.problems,
        virtual_ms=verdict.virtual_ms,
        recovery_ms=0,
        steps=verdict.steps,
        events=len(verdict.journal),
        acknowledged_writes=0,
        acknowledged_records=0,
        faults=verdict.faults,
        wall_s=time.perf_counter() - begin,
        cpu_s=time.process_time() - cpu_begin,
    )
    return outcome, verdict.lines()
