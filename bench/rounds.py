"""The plan of a run and its rounds: one side at a time, in turns, so that neither shares the cores with the other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import msgspec

from bench.ensembles import SERVERS, TITLES, Ensemble, Shape, Side, running
from bench.load import CannotMeasure, Sample, fill, run_load
from bench.works import WORKS, Work
from bench.zkfailover import Outcome, Patience, fail_over, node_count

JAVA_WARM_UP_S = 8.0
PYTHON_WARM_UP_S = 2.0
"""Load on a fresh ensemble before anything counts: the JVM's compiler needs 8 s, a Python peer has none to wait for.
Where both sides are measured both get the same."""
WARM_UP_SHARE = 8
"""One operation in so many comes uncounted before each measurement: connections stand and pipelines are full."""
FILL_PER_S = 12_000
FAIL_OVER_S = 8.0
START_S = 4.0
SETTLE_S = 3.0
"""Rough times of what is not load, for the progress bar; a tree settles for so long before it is weighed."""

Tree = Literal["small", "grown"]


class Plan(NamedTuple):
    """What is to be measured: each work for as many operations as take ZooKeeper `seconds`, on a small tree and, where
    `grown` is not 0, once more when it has grown to so many znodes."""

    sides: tuple[Side, ...]
    works: tuple[Work, ...]
    rounds: int
    seconds: float
    failovers: int = 0
    grown: int = 0

    @property
    def trees(self) -> tuple[Tree, ...]:
        """On which trees the works are measured."""
        return ("small", "grown") if self.grown else ("small",)

    @property
    def warm_up_s(self) -> float:
        """How long a fresh ensemble is warmed up, at ZooKeeper's pace."""
        return JAVA_WARM_UP_S if "zookeeper" in self.sides else PYTHON_WARM_UP_S

    @property
    def expected_s(self) -> float:
        """About how long all of it takes."""
        return len(self.sides) * (self.rounds * self.block_s + self.failover_s)

    @property
    def block_s(self) -> float:
        """About how long one side takes in one round."""
        return START_S + self.warm_up_s + len(self.trees) * len(self.works) * self.work_s + self.fill_s

    @property
    def work_s(self) -> float:
        """About how long one measurement takes."""
        return self.seconds * (1 + 1 / WARM_UP_SHARE) + 1.0

    @property
    def fill_s(self) -> float:
        """About how long a tree takes to grow."""
        return self.grown / FILL_PER_S + SETTLE_S if self.grown else 0.0

    @property
    def failover_s(self) -> float:
        """About how long one side's kills take."""
        return START_S + self.failovers * FAIL_OVER_S if self.failovers else 0.0


class Measurement(msgspec.Struct, frozen=True):
    """One work on one side in one round, on a tree that had so many znodes when it began; `rss_mb` is all servers'
    resident memory right after it."""

    side: Side
    work: str
    round: int
    rss_mb: float
    sample: Sample
    tree: Tree = "small"
    znodes: int = 0


class Memory(msgspec.Struct, frozen=True):
    """What an ensemble holds in memory once its tree has grown to so many znodes, nearly all of 100 bytes."""

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


def warm_up(program: Path, ensemble: Ensemble, works: Sequence[Work], seconds: float) -> None:
    """Every operation that will be measured must be warm, in equal parts; the JVM compiles each by itself."""
    operations = {work.op: WORKS[work.op] for work in works}
    for work in operations.values():
        run_load(program, work, ensemble.hosts, ensemble.pids, work.ops(seconds / len(operations)), 0)


def measure_once(program: Path, ensemble: Ensemble, work: Work, seconds: float) -> Sample:
    """One measurement, of as many operations as take ZooKeeper so long.  Raises CannotMeasure."""
    ops = work.ops(seconds)
    return run_load(program, work, ensemble.hosts, ensemble.pids, ops, ops // WARM_UP_SHARE)


def grow(program: Path, ensemble: Ensemble, znodes: int) -> None:
    """Create znodes of 100 bytes until there are so many, and let the tree settle.  Raises CannotMeasure."""
    missing = znodes - node_count(ensemble.hosts[0])
    if missing > 0:
        sample = fill(program, WORKS["create"], ensemble.hosts, missing)
        if sample.ops != missing or sample.faults:
            raise CannotMeasure(f"{sample.ops:,} of {missing:,} znodes made; {sample.faults}")
    time.sleep(SETTLE_S)


class Run:
    """Carries out a plan with servers below `directory`; results gather in `results`, so a broken run keeps its own."""

    def __init__(self, plan: Plan, program: Path, directory: Path, progress: Progress) -> None:
        self.results = Results()
        self._plan = plan
        self._program = program
        self._directory = directory
        self._progress = progress

    def measure(self) -> None:
        """All rounds, then the kills.  Raises CannotMeasure."""
        for number in range(1, self._plan.rounds + 1):
            # Who goes first alternates too: a machine that slows down slows both.
            for side in self._plan.sides if number % 2 else reversed(self._plan.sides):
                self._one_side(side, number)
        if self._plan.failovers:
            for side in self._plan.sides:
                self._kills(side)

    def _one_side(self, side: Side, number: int) -> None:
        where = f"round {number}/{self._plan.rounds}, {TITLES[side]}"
        with self._started(side, where, f"{side}-{number}") as ensemble:
            self._progress.doing(f"{where}: warming up")
            warm_up(self._program, ensemble, self._plan.works, self._plan.warm_up_s)
            self._progress.done("", self._plan.warm_up_s)
            self._works(ensemble, where, number, "small")
            if self._plan.grown:
                self._grow(ensemble, where)
                self._works(ensemble, where, number, "grown")

    def _works(self, ensemble: Ensemble, where: str, number: int, tree: Tree) -> None:
        for work in self._plan.works:
            what = f"{where}, {tree} tree: {work.title}"
            self._progress.doing(what)
            znodes = node_count(ensemble.hosts[0])
            sample = measure_once(self._program, ensemble, work, self._plan.seconds)
            rss_mb = ensemble.rss_mb()
            self.results.measurements.append(
                Measurement(ensemble.side, work.name, number, rss_mb, sample, tree=tree, znodes=znodes)
            )
            told = f"{what}: {sample.ops_per_s:,.0f} ops/s, p50 {sample.p50_ms:.2f} ms"
            self._progress.done(f"{told}; {sample.faults}" if sample.faults else told, self._plan.work_s)

    def _grow(self, ensemble: Ensemble, where: str) -> None:
        """Both sides did the same until here, and so begin to grow at the same size."""
        self._progress.doing(f"{where}: growing to {self._plan.grown:,} znodes")
        grow(self._program, ensemble, self._plan.grown)
        memory = Memory(ensemble.side, node_count(ensemble.hosts[0]), ensemble.rss_mb())
        self.results.memories.append(memory)
        self._progress.done(f"{where}: {memory.rss_mb:,.0f} MB with {memory.znodes:,} znodes", self._plan.fill_s)

    @contextmanager
    def _started(self, side: Side, where: str, name: str) -> Iterator[Ensemble]:
        self._progress.doing(f"{where}: starting {SERVERS} servers")
        with running(side, self._directory / name, Shape(znodes=self._plan.grown)) as ensemble:
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
