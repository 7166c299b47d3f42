"""Clients of the ensemble that come and go, and one that stays.

Each visitor opens a session, makes an ephemeral, stays a while, and says goodbye or vanishes; what they leave behind
must be gone when their sessions are.  The one that stays has a session so long that it waits out whatever happens to
its server, and what it reads behind a sync must show all that anybody had been told before it asked.
"""

from __future__ import annotations

from collections.abc import Callable

from zabka.ensemble.client.client import Client
from zabka.ensemble.errors import SessionExpired, ZooKeeperError
from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.kernel.runtime import SimRuntime
from zabka.simulation.network.addresses import client_addresses
from zabka.simulation.network.connector import SimConnector
from zabka.simulation.workloads.writer import PATH
from zabka.simulation.world import World

PATIENT = "patient"
PATIENCE_MS = 40_000
PAUSE_MS = 120
ASKED_MAX = 100
"""How many questions it leaves open: a server that is stopped for a while has as many to answer when it goes on."""
MACHINES = ("visitor-1", "visitor-2")
PREFIX = "/visit-"
SESSION_TIMEOUTS_MS = (2_000, 4_000, 8_000)
STAYS_MS_MAX = 6_000
AWAY_MS = 500


class Visiting:
    """All visitors of one run.  `acknowledged` is the number that the writer has been told of."""

    def __init__(self, world: World, acknowledged: Callable[[], int]) -> None:
        self._world = world
        self._acknowledged = acknowledged
        self.violations: list[str] = []
        runtime = SimRuntime(world.scheduler, derive_random(world.seed, PATIENT))
        connector = SimConnector(world.network, world.network.boot(PATIENT, runtime))
        self._client = Client(world.zookeeper_connect, connector, runtime, session_timeout_ms=PATIENCE_MS, name=PATIENT)
        self._runtime = runtime
        self._asked = 0
        self._is_over = False
        runtime.spawn(self._stay(), PATIENT)
        self._visitors = [_Visitor(world, machine) for machine in MACHINES]

    async def _stay(self) -> None:
        """Ask again and again, whether or not what was asked before has been answered."""
        await self._client.start()
        while True:
            await self._runtime.sleep(PAUSE_MS)
            if self._is_over:
                await self._client.renew()
                self._is_over = False
            if self._asked < ASKED_MAX:
                self._asked += 1
                self._runtime.spawn(self._ask(), PATIENT)

    async def _ask(self) -> None:
        """One sync and the read behind it, both sent at once: a server answers a session in the order it asks."""
        promised = self._acknowledged()
        synced, read = self._client.sync(PATH), self._client.get(PATH)
        try:
            await synced
            data, _ = await read
        except SessionExpired:
            self._is_over = True
        except ZooKeeperError:
            pass  # lost on the way
        else:
            if int(data) < promised:
                self.violations.append(f"behind a sync {PATH} is {data.decode()}, {promised} was acknowledged before")
        finally:
            self._asked -= 1

    def leave(self) -> None:
        """Nobody comes any more, and whoever is there vanishes."""
        for visitor in self._visitors:
            visitor.active = False
            visitor.vanish()

    def nothing_is_left(self) -> bool:
        """Is there no ephemeral of a visitor on any peer?"""
        trees = [process.service.tree for process in self._world.peer_processes()]
        return not any(path.startswith(PREFIX) for tree in trees for path in tree.nodes)


class _Visitor:
    """One machine, from which one client after the other visits."""

    def __init__(self, world: World, machine: str) -> None:
        self._world = world
        self._machine = machine
        self._random = derive_random(world.seed, machine)
        self._visits = 0
        self._runtime: SimRuntime | None = None
        self.active = True
        self._come()

    def _come(self) -> None:
        """Boot the machine, and visit some of the peers."""
        if not self.active:
            return
        self._visits += 1
        world, random = self._world, self._random
        self._runtime = runtime = SimRuntime(
            world.scheduler, derive_random(world.seed, f"{self._machine}/{self._visits}")
        )
        host = world.network.boot(self._machine, runtime)
        peers = [peer for peer in world.peers if random.random() < 0.6] or list(world.peers)
        timeout_ms = SESSION_TIMEOUTS_MS[random.randrange(0, len(SESSION_TIMEOUTS_MS))]
        stays_ms, vanishes = random.randrange(1, STAYS_MS_MAX), random.random() < 0.5
        connector = SimConnector(world.network, host)
        client = Client(client_addresses(peers), connector, runtime, session_timeout_ms=timeout_ms, name=self._machine)
        runtime.spawn(self._visit(client, f"{PREFIX}{self._machine}-{self._visits}"), self._machine)

        def leave() -> None:
            if self._runtime is runtime:
                if not vanishes:
                    runtime.spawn(client.close(), "goodbye")
                world.scheduler.after(AWAY_MS * 1000, gone)

        def gone() -> None:
            if self._runtime is runtime:
                self.vanish()
                self._come()

        world.scheduler.after(stays_ms * 1000, leave)

    async def _visit(self, client: Client, path: str) -> None:
        try:
            await client.start()
            await client.create(path, ephemeral=True)
        except ZooKeeperError:
            pass  # nobody let it in, or the answer was lost: it goes as it came

    def vanish(self) -> None:
        """The machine dies without a word."""
        if self._runtime is not None:
            self._runtime.stop()
            self._world.network.kill(self._machine)
            self._runtime = None
