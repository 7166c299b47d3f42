"""The test's own host in a simulated world; the test's requests are sent from it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Literal, TypeVar

from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.simulation.cluster.client_machine import ScriptedMachine
from zabka.simulation.cluster.world import World
from zabka.simulation.engine.scheduler import Deadlock
from zabka.testing.cluster import ClusterFailed
from zabka.testing.conditions import Wait
from zabka.testing.worlds.failure_places import TIMED_OUT, own_line

T = TypeVar("T")

HOST = "test"
ASK_MS_MAX = 600_000


class SimHost:
    """A host with a Kafka client. Faults affect it only if they name the host ("test")."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._admin = world.kafka_client(HOST)[0] if world.brokers else None
        self.machine = world.scripted_client(HOST)
        self.runtime = self.machine.runtime()

    @property
    def admin(self) -> AdminClient:
        """The Kafka client of the host.  Raises ClusterFailed if the cluster has no brokers."""
        if self._admin is None:
            raise ClusterFailed(f"{self} has no brokers")
        return self._admin

    @property
    def now_us(self) -> int:
        """Virtual microseconds since the world began."""
        return self.world.scheduler.now_us

    def ask(self, work: Coroutine[Any, Any, T], machine: ScriptedMachine | None = None) -> T:
        """Run a client's coroutine in the world, and return its result.

        Raises ClusterFailed if its request is rejected.
        """
        outcome: list[T] = []
        refusals: list[str] = []

        async def settle() -> None:
            try:
                outcome.append(await work)
            except (KafkaRequestFailed, KafkaUnavailable) as refused:
                refusals.append(f"{type(refused).__name__}: {refused}")

        try:
            self.world.until_done((machine or self.machine).begin(settle(), "ask"), ASK_MS_MAX, "the end of a request")
        except Deadlock as stuck:
            raise ClusterFailed(f"{self}: {stuck}") from None
        self.check_services()
        if refusals:
            raise ClusterFailed(refusals[0])
        return outcome[0]

    def begin_to_ask(self, work: Coroutine[Any, Any, object]) -> None:
        """Start a client's coroutine in the world without waiting for it, and ignore its result or error."""

        async def work_and_ignore() -> None:
            with suppress(KafkaRequestFailed, KafkaUnavailable):
                await work

        self.runtime.spawn(work_and_ignore(), "ask")

    def until(self, condition: Callable[[], T | Literal[False] | None], timeout_s: float = 30.0, what: str = "") -> T:
        """Advance the virtual time until the condition returns a true value, and return that value."""
        wait = Wait[T](condition, timeout_s, what)
        scheduler = self.world.scheduler
        deadline_us = scheduler.now_us + int(timeout_s * 1_000_000)
        with self.world.in_virtual_time():
            while True:
                if found := wait.holds():
                    return found
                # Evaluate the condition once per virtual millisecond, after all events of that millisecond.
                due = scheduler.next_time_us()
                if due is None or due > deadline_us:
                    break
                scheduler.run_until(due // 1000 * 1000 + 999)
                self.check_services()
        loose = [
            f"\na task of the program {machine.name} has failed\n{failure}"
            for machine in self.world.services
            for failure in machine.loose_failures()
        ]
        raise ClusterFailed(f"{self}: {wait.failure()}{''.join(loose)}", cause_key=TIMED_OUT)

    def check_services(self) -> None:
        """If a program of the test has failed and is not restarted, raise ClusterFailed with its traceback."""
        for machine in self.world.services:
            failure = machine.take_failure()
            if failure is not None:
                file, line = own_line(failure.frames)
                raise ClusterFailed(
                    f"{self}: the program {machine.name} has failed\n{failure.text}",
                    cause_key=("program", machine.name, failure.kind, f"{file}:{line}"),
                )

    def __repr__(self) -> str:
        return f"the world of seed {self.world.seed} at {self.now_us / 1e6:.3f} s"
