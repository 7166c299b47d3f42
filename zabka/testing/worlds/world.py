"""Argument of a test decorated with `simulated`: its world with the cluster, programs, faults and journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

from zabka.journal.cause import START, Cause
from zabka.journal.events import ProgramNoted
from zabka.simulation.cluster.service_machine import Service, ServiceMachine
from zabka.testing.cluster import ClusterFailed, Happening
from zabka.testing.conditions import Wait
from zabka.testing.worlds.cluster import SimulatedCluster
from zabka.testing.worlds.failure_places import TIMED_OUT
from zabka.testing.worlds.faults import SimFaults
from zabka.testing.worlds.nodes import SimBroker, SimPeer
from zabka.testing.worlds.paths import SimPath
from zabka.testing.worlds.services import SimService
from zabka.testing.worlds.topics import SimTopics

T = TypeVar("T")
TEST = "test-function"
"""Name of the machine on which the test function runs."""
UNTIL_S = 30.0


class _Awaited(NamedTuple):
    """A condition that the test function awaits, with its timeout."""

    wait: Wait[Any]
    deadline_us: int
    done: asyncio.Future[Any]


class SimulatedWorld:
    """The argument of a test that is decorated with `simulated`.

    The test function is itself a program of the world, so it can use `asyncio.sleep`, clients and servers. Virtual time
    also advances during calls of methods that are not awaited. `cluster` has all other methods of a `zabka_world`.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.seed = cluster.seed
        self.topics: SimTopics = cluster.topics
        self.brokers: dict[int, SimBroker] = cluster.brokers
        self.peers: dict[int, SimPeer] = cluster.peers
        self.faults: SimFaults = cluster.faults
        self.on_first_start: Callable[[], None] = _nothing
        """Called just before the first program starts."""
        self._awaited: list[_Awaited] = []

    @property
    def bootstrap(self) -> str:
        """Addresses of the brokers, for clients in the world."""
        return ",".join(f"{host}:{port}" for host, port in self.cluster.world.bootstrap)

    @property
    def zookeeper_connect(self) -> str:
        """Addresses of the ensemble's peers, for clients in the world."""
        return self.cluster.world.hosts

    @property
    def now(self) -> float:
        """Virtual seconds since the world began."""
        return self.cluster.now_us / 1e6

    def start(self, name: str, service: Service, *, restarts: bool = False) -> SimService:
        """Start an asyncio program of the test, the coroutine `service(bootstrap)`, on a machine of its own.

        With `restarts`, the program is started again one second after a failure, and random faults can kill it. Other
        programs connect to the servers of this program by the machine's name, which is `name`. Raises ValueError if the
        name is in use.
        """
        begin, self.on_first_start = self.on_first_start, _nothing
        begin()
        return self.cluster.start(name, service, restarts=restarts)

    async def until(
        self, condition: Callable[[], T | Literal[False] | None], within: float = UNTIL_S, what: str = ""
    ) -> T:
        """Wait until the condition returns a true value, and return that value; `within` is in virtual seconds.

        Raises ClusterFailed with the condition's source code and last value if it does not become true in time.
        """
        __tracebackhide__ = True
        wait = Wait[T](condition, within, what)
        if found := wait.holds():
            return found
        done = asyncio.get_running_loop().create_future()
        self._awaited.append(_Awaited(wait, self.cluster.now_us + round(within * 1e6), done))
        awaited: T = await done
        return awaited

    def note(self, kind: str, *, because: Cause | None = None, **fields: object) -> Cause:
        """Write a custom event to the journal.

        The dashboard's event tracks, the failure report and `zabka why KIND` show it.

        The event's node is the calling program. Return a reference that a later note can have as its cause (`because`).
        An event without a cause has the start of the program as its cause.
        """
        caused_by = START if because is None else because
        return self._caller().write(ProgramNoted(kind, {name: str(value) for name, value in fields.items()}, caused_by))

    def path(self, name: str = "/", machine: str | None = None) -> SimPath:
        """Return a path on the disk of `machine`, by default the machine of the calling program.

        The content of the disk stays after the program has ended.
        """
        return SimPath(self.cluster, name, machine)

    def _caller(self) -> ServiceMachine:
        """Return the machine of the program that is running, or the test function's machine if none is running."""
        machines = {machine.name: machine for machine in self.cluster.world.services}
        turn = self.cluster.world.ground.turn.taker
        owner = (each for each in machines.values() if each.process is not None and each.process.loop is turn)
        return next(owner, machines[TEST])

    def events(self, *types: str) -> list[Happening]:
        """Return the events of the journal, or only the events of these types."""
        return self.cluster.events(*types)

    # -- methods for the module that runs the test -------------------------------------------------------------------

    def check_awaited(self) -> None:
        """Evaluate the conditions that the test function awaits, and end the waits that succeed or time out."""
        for each in list(self._awaited):
            if each.done.done():
                self._awaited.remove(each)
                continue
            try:
                found = each.wait.holds()
            except Exception as failed:
                each.done.set_exception(failed)
                continue
            if found:
                each.done.set_result(found)
            elif self.cluster.now_us >= each.deadline_us:
                failure = ClusterFailed(f"{self.cluster}: {each.wait.failure()}", cause_key=TIMED_OUT)
                each.done.set_exception(failure)

    def next_deadline_us(self) -> int | None:
        """Return the time at which the test function's first wait times out, or None if it does not wait."""
        return min((each.deadline_us for each in self._awaited if not each.done.done()), default=None)

    def fail_awaited(self, failure: ClusterFailed) -> bool:
        """Raise the failure of a program from the call in which the test function waits.

        Return False if the test function does not wait.
        """
        waiting = [each for each in self._awaited if not each.done.done()]
        for each in waiting:
            each.done.set_exception(failure)
        return bool(waiting)


def _nothing() -> None:
    return
