"""One run of a test function in the world of one seed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from zabka.journal.events import Entry
from zabka.simulation.engine.garbage import existing_exempt, seldom_collected
from zabka.simulation.engine.program_loop import Step
from zabka.simulation.faults.chosen import NumberedNemesis
from zabka.simulation.faults.program_faults import program_nemesis
from zabka.simulation.jitter import JitteredSeed, Span
from zabka.testing.cluster import ClusterFailed
from zabka.testing.worlds.cluster import SimulatedCluster, start_simulated
from zabka.testing.worlds.program_log import logged_to_journal
from zabka.testing.worlds.world import TEST, SimulatedWorld

Body = Callable[[SimulatedWorld], Awaitable[object]]
_STEP_US = 1_000


class Parameters(NamedTuple):
    """The parameters of a test that is decorated with `simulated`."""

    seeds: int
    peers: int
    brokers: int
    faults: tuple[str, ...] | None
    """Kinds of faults to inject; None means no faults."""
    faults_s: float
    limit_s: float
    settings: Mapping[str, str]


class SeedRun(NamedTuple):
    """The result of running one seed."""

    failure: BaseException | None
    entries: list[Entry]
    began_us: int
    """Virtual time in µs at which the test function began."""
    ended_us: int
    """Virtual time in µs at which the test function ended."""
    injected: list[int]
    """Numbers of the injected faults."""
    digest: str
    """Hash of the run's history."""
    steps: list[Step]
    """Event loop iterations of the programs, if they were traced."""
    choices: int = 0
    """Number of choices of the schedule, if the run had jitter only in some spans."""
    simplified: int = 0
    """Number of these choices that were made without jitter."""


def run_seed(
    parameters: Parameters,
    body: Body,
    seed: int,
    only: Collection[int] | None = None,
    *,
    jitter: Sequence[Span] | None = None,
    traced: bool = False,
) -> SeedRun:
    """Run a test function in the world of a seed.

    With `only`, inject only the faults with these numbers. With `jitter`, the schedule has jitter only in these spans.

    Raises KeyboardInterrupt and other exceptions that must end pytest's whole run.
    """
    seed = seed if jitter is None else JitteredSeed(seed, jitter)
    with seldom_collected(), existing_exempt():
        cluster = start_simulated(
            seed=seed, peers=parameters.peers, brokers=parameters.brokers, settings=parameters.settings
        )
        cluster.world.requester = "seed"
        play = _Play(parameters, cluster, seed, only)
        with logged_to_journal(cluster.world):
            if traced:
                cluster.world.isolate().steps = play.steps
            try:
                play.run(body)
            finally:
                cluster.close()
        return play.outcome()


class _Play:
    """The run of one test function in one world."""

    def __init__(
        self, parameters: Parameters, cluster: SimulatedCluster, seed: int, only: Collection[int] | None
    ) -> None:
        self.steps: list[Step] = []
        self._parameters = parameters
        self._cluster = cluster
        self._world = SimulatedWorld(cluster)
        self._failures: list[BaseException] = []
        self._is_over = False
        self._ended = (0, 0)
        self._began_us = cluster.now_us
        self._nemesis: NumberedNemesis | None = None
        if parameters.faults is not None:
            self._nemesis = program_nemesis(cluster.world, seed, parameters.faults, only)
            self._world.on_first_start = self._begin_faults

    def _begin_faults(self) -> None:
        assert self._nemesis is not None
        self._nemesis.start()
        self._cluster.world.scheduler.after(round(self._parameters.faults_s * 1e6), self._heal)

    def _heal(self) -> None:
        if self._nemesis is not None:
            self._nemesis.heal_all()
            self._cluster.world.start()

    def run(self, body: Body) -> None:
        """Run the test function until it ends, and check the world for violations."""
        cluster, world = self._cluster, self._world

        async def play(_: str) -> None:
            try:
                await body(world)
            except asyncio.CancelledError:
                raise
            except _failures() as failure:
                self._failures.append(failure)
            finally:
                self._is_over = True

        cluster.start(TEST, play)
        cluster.world.services[-1].takes_faults = False
        limit_us = cluster.now_us + round(self._parameters.limit_s * 1e6)
        with cluster.world.in_virtual_time():
            while not self._is_over:
                self._go_on(limit_us)
        if not self._failures:
            self._check()
        scheduler = cluster.world.scheduler
        self._ended = scheduler.now_us, scheduler.steps

    def _go_on(self, limit_us: int) -> None:
        """Advance the virtual time to the next event, and evaluate the conditions that the test function awaits."""
        cluster, scheduler = self._cluster, self._cluster.world.scheduler
        due_us = scheduler.next_time_us()
        wait_us = self._world.next_deadline_us()
        if due_us is None or due_us > limit_us:
            over = f"{cluster}: the test did not end within {self._parameters.limit_s} s"
            self._end(ClusterFailed(over, cause_key=("limit",)))
            return
        if wait_us is not None:
            due_us = min(due_us, max(wait_us, scheduler.now_us))
        scheduler.run_until(due_us // _STEP_US * _STEP_US + _STEP_US - 1)
        self._world.check_awaited()
        try:
            cluster.check_services()
        except ClusterFailed as failure:
            if not self._world.fail_awaited(failure):
                self._end(failure)

    def _end(self, failure: ClusterFailed) -> None:
        self._failures.append(failure)
        self._is_over = True

    def _check(self) -> None:
        try:
            self._cluster.check_services()
            if self._cluster.violations:
                names = sorted({each.invariant for each in self._cluster.world.record.violations})
                raise ClusterFailed(
                    f"zabka's own invariants are violated: {'; '.join(self._cluster.violations)}",
                    cause_key=("invariant", *names),
                )
        except ClusterFailed as failure:
            self._failures.append(failure)

    def outcome(self) -> SeedRun:
        """Return the result of the run."""
        record, seed = self._cluster.world.record, self._cluster.world.seed
        counts = (seed.choices, seed.simplified) if isinstance(seed, JitteredSeed) else (0, 0)
        digest = sha256(b"".join(record.lines()) + repr(self._ended).encode()).hexdigest()
        return SeedRun(
            failure=self._failures[0] if self._failures else None,
            entries=record.entries,
            began_us=self._began_us,
            ended_us=self._ended[0],
            injected=[] if self._nemesis is None else self._nemesis.injected,
            digest=digest,
            steps=self.steps,
            choices=counts[0],
            simplified=counts[1],
        )


def _failures() -> tuple[type[BaseException], ...]:
    """Return the exceptions that end one test, including those of pytest.fail and pytest.skip if pytest is imported."""
    outcomes = sys.modules.get("_pytest.outcomes")
    return (Exception,) if outcomes is None else (Exception, outcomes.OutcomeException)
