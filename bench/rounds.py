"""The plan of a run and its rounds: one side at a time, in turns, so that neither shares the cores with the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from bench.ensembles import SERVERS, TITLES, Ensemble, Side, running
from bench.load import CannotMeasure, Sample, fill, run_load
from bench.works import WORKS, Work
from bench.zkfailover import Outcome, Patience, fail_over

FRESH_WARM_UP_S: dict[Side, float] = {"ours": 2.0, "zookeeper": 8.0}
"""Load on a fresh ensemble before anything counts: the JVM's compiler needs 8 s, a Python peer has none to wait for."""
WORK_WARM_UP_S = 1.0
"""Uncounted load before each measurement: the connections stand and the pipelines are full."""
SECONDS_BETWEEN = 1.0
START_S = 4.0
FAIL_OVER_S = 8.0
FILL_S = 15.0
SETTLE_S = 3.0
"""Rough times of what is not load, for the progress bar."""


class Plan(NamedTuple):
    """What is to be measured."""

    sides: tuple[Side, ...]
    works: tuple[Work, ...]
    rounds: int
    seconds: float
    failovers: int = 0
    znodes: int = 0

    @property
    def expected_s(self) -> float:
        """About how long all of it takes."""
        return sum(self.block_s(side) * self.rounds + self.memory_s + self.failover_s for side in self.sides)

    def block_s(self, side: Side) -> float:
        """About how long one side takes in one round."""
        return START_S + FRESH_WARM_UP_S[side] + len(self.works) * self.work_s

    @property
    def work_s(self) -> float:
        """About how long one measurement takes."""
        return WORK_WARM_UP_S + self.seconds + SECONDS_BETWEEN

    @property
    def memory_s(self) -> float:
        """About how long it takes to fill one side."""
        return START_S + FILL_S + SETTLE_S if self.znodes else 0.0

    @property
    def failover_s(self) -> float:
        """About how long one side's kills take."""
        return START_S + self.failovers * FAIL_OVER_S if self.failovers else 0.0


class Measurement(msgspec.Struct, frozen=True):
    """One work on one side in one round; `rss_mb` is all servers' resident memory right after it."""

    side: Side
    work: str
    round: int
    rss_mb: float
    sample: Sample


class Memory(msgspec.Struct, frozen=True):
    """What a fresh ensemble holds in memory once so many znodes of 100 bytes were created in it."""

    side: Side
    znodes: int
    rss_mb: float


class Failover(msgspec.Struct, frozen=True):
    """One leader killed under a writing client."""

    side: Side
    outcome: Outcome


class Results(msgspec.Struct):
    """All that was measured, as it came."""

    measurements: list[Measurement] = []
    failovers: list[Failover] = []
    memories: list[Memory] = []


class Progress(Protocol):
    """Where a run tells how it goes."""

    def doing(self, text: str) -> None: ...
    def done(self, text: str, seconds: float) -> None: ...


class Run:
    """Carries out a plan with servers below `directory`; results gather in `results`, so a broken run keeps its own."""

    def __init__(self, plan: Plan, program: Path, directory: Path, progress: Progress) -> None:
        self.results = Results()
        self._plan = plan
        self._program = program
        self._directory = directory
        self._progress = progress

    def measure(self) -> None:
        """All rounds, then what a full tree weighs, then the kills.  Raises CannotMeasure."""
        for number in range(1, self._plan.rounds + 1):
            # Who goes first alternates too: a machine that slows down slows both.
            for side in self._plan.sides if number % 2 else reversed(self._plan.sides):
                self._one_side(side, number)
        if self._plan.znodes:
            for side in self._plan.sides:
                self._memory(side)
        if self._plan.failovers:
            for side in self._plan.sides:
                self._kills(side)

    def _one_side(self, side: Side, number: int) -> None:
        where = f"round {number}/{self._plan.rounds}, {TITLES[side]}"
        with self._started(side, where, f"{side}-{number}") as ensemble:
            warm_up_s = FRESH_WARM_UP_S[side]
            self._progress.doing(f"{where}: warming up")
            # Every operation that is measured must be warm, in equal parts; the JVM compiles each by itself.
            operations = {work.op: WORKS[work.op] for work in self._plan.works}
            for work in operations.values():
                self._load(ensemble, work, warm_up_s / len(operations), 0.0)
            self._progress.done("", warm_up_s)
            for work in self._plan.works:
                self._progress.doing(f"{where}: {work.title}")
                sample = self._load(ensemble, work, self._plan.seconds, WORK_WARM_UP_S)
                self.results.measurements.append(Measurement(side, work.name, number, ensemble.rss_mb(), sample))
                told = f"{where}: {work.title}: {sample.ops_per_s:,.0f} ops/s, p50 {sample.p50_ms:.2f} ms"
                self._progress.done(f"{told}; {sample.faults}" if sample.faults else told, self._plan.work_s)

    def _memory(self, side: Side) -> None:
        """On servers of its own: what other works left behind must not count."""
        where = f"memory, {TITLES[side]}"
        with self._started(side, where, f"{side}-memory") as ensemble:
            self._progress.doing(f"{where}: creating {self._plan.znodes:,} znodes")
            sample = fill(self._program, WORKS["create"], ensemble.hosts, self._plan.znodes)
            if sample.ops != self._plan.znodes or sample.faults:
                raise CannotMeasure(f"{where}: {sample.ops:,} of {self._plan.znodes:,} znodes made; {sample.faults}")
            time.sleep(SETTLE_S)
            memory = Memory(side, sample.ops, ensemble.rss_mb())
            self.results.memories.append(memory)
            self._progress.done(f"{where}: {memory.rss_mb:,.0f} MB with {sample.ops:,} znodes", FILL_S + SETTLE_S)

    def _load(self, ensemble: Ensemble, work: Work, seconds: float, warm_up_s: float) -> Sample:
        return run_load(self._program, work, ensemble.hosts, ensemble.pids, seconds, warm_up_s)

    @contextmanager
    def _started(self, side: Side, where: str, name: str) -> Iterator[Ensemble]:
        self._progress.doing(f"{where}: starting {SERVERS} servers")
        with running(side, self._directory / name) as ensemble:
            self._progress.done("", START_S)
            yield ensemble

    def _kills(self, side: Side) -> None:
        where = f"failover, {TITLES[side]}"
        with self._started(side, where, f"{side}-failover") as ensemble:
            for number in range(1, self._plan.failovers + 1):
                which = f"{where}: kill {number}/{self._plan.failovers}"
                self._progress.doing(which)
                try:
                    leader, outcome = fail_over(ensemble.hosts, lambda n: ensemble.kill(n + 1), Patience())
                except (OSError, ValueError) as failure:
                    raise CannotMeasure(f"{which}: {failure}") from failure
                self.results.failovers.append(Failover(side, outcome))
                ensemble.start(leader + 1)
                ensemble.await_ready()
                self._progress.done(f"{which}: no write for {outcome.gap_ms:,.0f} ms", FAIL_OVER_S)
