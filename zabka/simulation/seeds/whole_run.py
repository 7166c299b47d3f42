"""A run of whole processes with one seed, from the start to the outcome."""

from __future__ import annotations

import gc
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from zabka.journal.checkers.cause_chains import CHECKED as DECISIONS
from zabka.journal.checkers.cause_chains import NAME as CAUSE_CHAINS
from zabka.journal.checkers.cause_chains import broken_chains
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.simulation.cluster.ensemble_world import ServingWorld
from zabka.simulation.engine.scheduler import Deadlock
from zabka.simulation.engine.virtual_time import virtual_time
from zabka.simulation.seeds.seed_run import Outcome
from zabka.simulation.workloads.writer import Writer


class WholeRun(ABC):
    """A seed's world with its clients; `execute` runs it to the end."""

    scenario = ""
    """Name of the scenario."""

    def __init__(self, seed: int, world: ServingWorld) -> None:
        self.seed = seed
        self.world = world
        self.writer: Writer | None = None
        self.recovery_ms = 0
        self.outcome: Outcome | None = None
        self._failures: list[str] = []

    @abstractmethod
    def play(self) -> None:
        """Boot the nodes and clients, inject faults, heal them and wait for recovery.

        Raises Deadlock if the cluster does not recover.
        """

    def execute(self) -> Outcome:
        """Run the scenario and return its outcome."""
        begin, cpu_begin = time.perf_counter(), time.process_time()
        world = self.world
        try:
            with self.in_virtual_time():
                self.play()
        except Deadlock as stuck:
            self._failures.append(f"liveness: {stuck}")
        except Exception as crash:  # Any exception is a finding of this seed; other seeds may still run.
            self._failures.append(f"crash: {crash!r}")
        world.end_world()
        # Taking a snapshot freezes all objects (gc.freeze). Unfreeze them, so that Python can free the ended world.
        gc.unfreeze()
        return Outcome(
            seed=self.seed,
            scenario=self.scenario,
            problems=self.problems(),
            virtual_ms=world.now_ms,
            recovery_ms=self.recovery_ms,
            steps=world.scheduler.steps,
            events=len(world.record.entries),
            acknowledged_writes=self.acknowledged(),
            acknowledged_records=self.acknowledged_records(),
            faults=world.faults,
            wall_s=time.perf_counter() - begin,
            cpu_s=time.process_time() - cpu_begin,
            checked=self.had_to_check().counts,
            reached=self.reached(),
        )

    def in_virtual_time(self) -> AbstractContextManager[None]:
        """Return the context manager within which the world runs."""
        return virtual_time(self.world.ground.turn)

    def acknowledged(self) -> int:
        """Return the number of acknowledged writes to the ensemble."""
        return self.writer.acknowledged if self.writer is not None else 0

    def acknowledged_records(self) -> int:
        """Return the number of records acknowledged by brokers."""
        return 0

    def reached(self) -> dict[str, int]:
        """Return how often the run reached each rare situation that it counts."""
        return dict(self.world.reached.counts)

    def had_to_check(self) -> CheckCounts:
        """Return how often each invariant was checked.

        For client invariants, this is the number of compared observations.
        """
        every = CheckCounts()
        every.add(self.world.record.had_to_check())
        every.note(CAUSE_CHAINS, sum(isinstance(entry.event, DECISIONS) for entry in self.world.record.entries))
        every.note("linearizable writes", self.acknowledged())
        return every

    def problems(self) -> list[str]:
        """Return all violations so far, one line each."""
        record = self.world.record
        found = [f"{v.invariant}: {v.detail} (at {v.mono_us / 1e6:.3f} s)" for v in record.violations]
        found += [f"linearizable writes: {line}" for line in (self.writer.violations if self.writer else [])]
        found += self.clients_problems()
        found += [f"{v.invariant}: {v.detail}" for v in broken_chains(record.entries)]
        found += [f"process: {line}" for line in self.world.ground.failures]
        return found + self._failures

    def clients_problems(self) -> list[str]:
        """Return the violations that clients other than the writer observed."""
        return []
