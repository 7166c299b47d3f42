"""The test's own host in a simulated world, where its requests come from."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Literal, TypeVar

from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.kernel.runtime import SimRuntime, run_task
from zabka.simulation.kernel.scheduler import Deadlock
from zabka.simulation.network.addresses import KAFKA_SERVICE
from zabka.simulation.network.channel import SimChannel
from zabka.simulation.world import World
from zabka.testing.cluster import ClusterFailed

T = TypeVar("T")

HOST = "test"


class SimHost:
    """A host that faults affect only if they name it ("test"), with a client of the brokers."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.bootstrap = [(name, int(KAFKA_SERVICE)) for name in world.broker_names()]
        self.runtime = SimRuntime(world.scheduler, derive_random(world.seed, HOST))
        host = world.network.boot(HOST, self.runtime)
        self.admin = AdminClient(SimChannel(world.network, host, self.runtime), self.runtime, self.bootstrap)

    @property
    def now_us(self) -> int:
        """Virtual microseconds since the world began."""
        return self.world.scheduler.now_us

    def ask(self, work: Coroutine[Any, Any, T], runtime: SimRuntime | None = None) -> T:
        """Run a client's coroutine to its end in the world.  Raises ClusterFailed if it is refused."""
        outcome: list[T] = []
        refusals: list[str] = []

        async def settle() -> None:
            try:
                outcome.append(await work)
            except (KafkaRequestFailed, KafkaUnavailable) as refused:
                refusals.append(f"{type(refused).__name__}: {refused}")

        try:
            run_task(self.world.scheduler, runtime or self.runtime, settle())
        except Deadlock as stuck:
            raise ClusterFailed(f"{self}: {stuck}") from None
        if refusals:
            raise ClusterFailed(refusals[0])
        return outcome[0]

    def begin_to_ask(self, work: Coroutine[Any, Any, object]) -> None:
        """Start a client's coroutine in the world, and ignore its result, even a refusal."""

        async def work_and_ignore() -> None:
            with suppress(KafkaRequestFailed, KafkaUnavailable):
                await work

        self.runtime.spawn(work_and_ignore(), "ask")

    def until(self, condition: Callable[[], T | Literal[False] | None], timeout_s: float = 30.0, what: str = "") -> T:
        """Let time pass until the condition returns a true value, and return that."""
        scheduler = self.world.scheduler
        deadline_us = scheduler.now_us + int(timeout_s * 1_000_000)
        seen: object = None
        while True:
            try:
                seen = found = condition()
                if found:
                    return found
            except (ClusterFailed, KeyError, IndexError) as reason:
                seen = reason
            # The condition is evaluated once for all events within one virtual millisecond.
            due = scheduler.next_time_us()
            if due is None or due > deadline_us:
                break
            scheduler.run_until(due // 1000 * 1000 + 999)
        failed = f"{what or 'the condition'} did not come true within {timeout_s} s; seen last: {seen!r}"
        raise ClusterFailed(f"{self}: {failed}")

    def __repr__(self) -> str:
        return f"the world of seed {self.world.seed} at {self.now_us / 1e6:.3f} s"
