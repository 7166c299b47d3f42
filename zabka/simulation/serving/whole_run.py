"""A seed's run of whole processes, from its first turn to its outcome."""

from __future__ import annotations

import gc
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from zabka.journal.judges.cause_chains import JUDGED as DECISIONS
from zabka.journal.judges.cause_chains import NAME as CAUSE_CHAINS
from zabka.journal.judges.cause_chains import broken_chains
from zabka.journal.judges.judged import Judged
from zabka.simulation.kernel.scheduler import Deadlock
from zabka.simulation.processes.virtual_time import virtual_time
from zabka.simulation.seeds.seed_run import Outcome
from zabka.simulation.serving.serving_world import ServingWorld
from zabka.simulation.workloads.writer import Writer


class WholeRun(ABC):
    """A seed's world with its clients; `execute` plays it to the end."""

    scenario = ""
    """Its name."""

    def __init__(self, seed: int, world: ServingWorld) -> None:
        self.seed = seed
        self.world = world
        self.writer: Writer | None = None
        self.recovery_ms = 0
        self.outcome: Outcome | None = None
        self._failures: list[str] = []

    @abstractmethod
    def play(self) -> None:
        """Boot, do harm, heal, recover.  Raises Deadlock."""

    def execute(self) -> Outcome:
        """Play it."""
        begin, cpu_begin = time.perf_counter(), time.process_time()
        world = self.world
        try:
            with self.in_virtual_time():
                self.play()
        except Deadlock as stuck:
            self._failures.append(f"liveness: {stuck}")
        except Exception as crash:  # Whatever it is, this seed has found it; others may still run.
            self._failures.append(f"crash: {crash!r}")
        world.end_world()
        # Snapshots freeze what there is; of a world that is over nothing is to stay.
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
            judged=self.had_to_judge().counts,
            reached=self.reached(),
        )

    def in_virtual_time(self) -> AbstractContextManager[None]:
        """Within it the world may go on."""
        return virtual_time(self.world.ground.turn)

    def acknowledged(self) -> int:
        """Writes to the ensemble."""
        return self.writer.acknowledged if self.writer is not None else 0

    def acknowledged_records(self) -> int:
        """Records that brokers have taken."""
        return 0

    def reached(self) -> dict[str, int]:
        """How often it came to the places that are counted."""
        return dict(self.world.reached.counts)

    def had_to_judge(self) -> Judged:
        """How often each invariant had something to judge; what clients saw counts by what was compared."""
        every = Judged()
        every.add(self.world.record.had_to_judge())
        every.note(CAUSE_CHAINS, sum(isinstance(entry.event, DECISIONS) for entry in self.world.record.entries))
        every.note("linearizable writes", self.acknowledged())
        return every

    def problems(self) -> list[str]:
        """Every violation so far, one line each."""
        record = self.world.record
        found = [f"{v.invariant}: {v.detail} (at {v.mono_us / 1e6:.3f} s)" for v in record.violations]
        found += [f"linearizable writes: {line}" for line in (self.writer.violations if self.writer else [])]
        found += self.clients_problems()
        found += [f"{v.invariant}: {v.detail}" for v in broken_chains(record.entries)]
        found += [f"process: {line}" for line in self.world.ground.failures]
        return found + self._failures

    def clients_problems(self) -> list[str]:
        """What is wrong with what clients saw, but for the writer."""
        return []
