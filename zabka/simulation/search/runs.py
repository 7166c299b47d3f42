"""Runs a choice sequence, and returns the result, the features of the run, and the recorded choices."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from zabka.journal.events import Entry
from zabka.simulation.choices import Choices, ReplayedSeed, Stream
from zabka.simulation.engine.garbage import collect_after
from zabka.simulation.run import SCENARIOS, WHOLE_RUNS
from zabka.simulation.scenarios.scenario import StepTaken, Verdict
from zabka.simulation.search.corpus import NOWHERE
from zabka.simulation.search.files import play_files
from zabka.simulation.search.protocol import play_protocol
from zabka.simulation.search.reached import reached
from zabka.simulation.seeds.seed_run import SeedRun
from zabka.simulation.seeds.whole_run import WholeRun
from zabka.simulation.settings import WorldSettings

PROTOCOL, FILES = "swarm-protocol", "swarm-files"
_DRAWN_STEPS = {PROTOCOL: play_protocol, FILES: play_files}
PROTOCOL_RUNS_A_COLLECTION = 128
SEARCHED = (*SCENARIOS, *_DRAWN_STEPS, *WHOLE_RUNS)
"""Scenarios that the search supports."""


class Ran(NamedTuple):
    """The result of running a choice sequence.

    `written` is the sequence of all choices that the run made; only streams with too many choices are not recorded
    completely. `places` maps some of the features to the number of steps or actions before the run reached them.
    """

    problems: list[str]
    reached: dict[int, int]
    written: Choices
    cpu_s: float
    places: Mapping[int, int] = NOWHERE


def run_choices(choices: Choices, scenario: str, settings: WorldSettings) -> Ran:
    """Run the choice sequence and return its result."""
    begin = time.process_time()
    seed = ReplayedSeed(choices)
    if scenario in _DRAWN_STEPS:
        played = _DRAWN_STEPS[scenario](seed)
        found = reached(played.cores.journal).counts | dict.fromkeys(played.places, 1)
        return Ran(played.problems, found, _written(seed), time.process_time() - begin, played.places)
    run: WholeRun | SeedRun
    begun: Sequence[int] = ()
    if scenario in WHOLE_RUNS:
        run = WHOLE_RUNS[scenario](seed)
        problems = run.execute().problems
    else:
        run = SeedRun(seed, SCENARIOS[scenario], settings)
        problems = run.execute().problems
        begun = run.stage.begun if run.stage is not None else ()
    counts, firsts = reached(run.world.record.entries)
    places = {feature: bisect_right(begun, number) for feature, number in firsts.items()} if begun else NOWHERE
    return Ran(problems, counts, _written(seed), time.process_time() - begin, places)


def run_one_of_many(number: int, choices: Choices, scenario: str, settings: WorldSettings) -> Ran:
    """Run a choice sequence in a process that runs many of them, and collect garbage after some of the runs."""
    ran = run_choices(choices, scenario, settings)
    # Runs of the ZAB code alone leave almost no garbage, and a collection takes longer than such a run.
    if scenario != PROTOCOL or number % PROTOCOL_RUNS_A_COLLECTION == 0:
        collect_after(number)
    return ran


def play_choices(choices: Choices, scenario: str, settings: WorldSettings) -> Verdict:
    """Run the choice sequence, and return the verdict with the journal and the performed actions."""
    seed = ReplayedSeed(choices)
    if scenario in _DRAWN_STEPS:
        played = _DRAWN_STEPS[scenario](seed)
        cores = played.cores
        return _verdict(scenario, played.problems, cores.journal, played.taken, (cores.steps, cores.now_ms, 0))
    if scenario in WHOLE_RUNS:
        served: WholeRun = WHOLE_RUNS[scenario](seed)
        problems, over = served.execute().problems, served.world
        counts = (over.scheduler.steps, over.now_ms, over.faults)
        return _verdict(scenario, problems, over.record.entries, [], counts)
    run = SeedRun(seed, SCENARIOS[scenario], settings)
    problems, world = run.execute().problems, run.world
    performed = run.stage.performed if run.stage is not None else []
    taken = [StepTaken(each.at_ms, each.text, each.entries) for each in performed]
    return _verdict(
        scenario, problems, world.record.entries, taken, (world.scheduler.steps, world.now_ms, world.faults)
    )


def _verdict(
    name: str, problems: list[str], journal: list[Entry], taken: list[StepTaken], counts: tuple[int, int, int]
) -> Verdict:
    steps, virtual_ms, faults = counts
    return Verdict(
        name=name, problems=problems, steps=steps, virtual_ms=virtual_ms, faults=faults, journal=journal, taken=taken
    )


def _written(seed: ReplayedSeed) -> Choices:
    """Return the run's choice sequence with all choices recorded, except in streams with too many choices."""
    streams = {purpose: Stream(words=words) for purpose, words in seed.recorded().items() if words}
    busy = seed.busy()
    streams |= {purpose: stream for purpose, stream in seed.choices.streams.items() if purpose in busy}
    return Choices(seed.choices.seed, streams)


def invariant_of(problem: str) -> str:
    """Return the name of the violated invariant."""
    return problem.partition(":")[0].strip()
