"""Clients of the ensemble with short sessions, and one with a long session.

Each visitor opens a session, creates an ephemeral znode, waits for a while, and closes its session or crashes.  The
ephemeral must be deleted when the session ends.  The session timeout of the patient client is so long that its session
survives any fault of its server.  When it reads after a sync, it must see all writes that were acknowledged to any
client before the sync.
"""

from __future__ import annotations

from collections.abc import Callable

from zabka.ensemble.client.client import Client
from zabka.ensemble.errors import SessionExpired, ZooKeeperError
from zabka.simulation.cluster.world import World
from zabka.simulation.draws import derive_random
from zabka.simulation.workloads.writer import PATH

PATIENT = "patient"
PATIENCE_MS = 40_000
PAUSE_MS = 120
ASKED_MAX = 100
"""Maximum number of requests in flight.  When a paused server resumes, it must reply to up to this many."""
MACHINES = ("visitor-1", "visitor-2")
PREFIX = "/visit-"
SESSION_TIMEOUTS_MS = (2_000, 4_000, 8_000)
STAYS_MS_MAX = 6_000
AWAY_MS = 500


class Visiting:
    """All visitors of one run, and the patient client.

    `acknowledged` returns the last number acknowledged to the writer.
    """

    def __init__(self, world: World, acknowledged: Callable[[], int]) -> None:
        self._world = world
        self._acknowledged = acknowledged
        self.violations: list[str] = []
        self._client, machine = world.zookeeper_client(PATIENT, session_timeout_ms=PATIENCE_MS)
        self._runtime = machine.runtime()
        self._asked = 0
        self._is_over = False
        self._runtime.spawn(self._stay(), PATIENT)
        self._visitors = [_Visitor(world, machine) for machine in MACHINES]

    async def _stay(self) -> None:
        """Run the patient client: send requests periodically, without waiting for earlier replies."""
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
        """Send a sync, and a read directly after it: the server handles the requests of a session in order."""
        promised = self._acknowledged()
        synced, read = self._client.sync(PATH), self._client.get(PATH)
        try:
            await synced
            data, _ = await read
        except SessionExpired:
            self._is_over = True
        except ZooKeeperError:
            pass  # The connection is lost.
        else:
            if int(data) < promised:
                self.violations.append(f"behind a sync {PATH} is {data.decode()}, {promised} was acknowledged before")
        finally:
            self._asked -= 1

    def leave(self) -> None:
        """Crash the machines of the current visitors, and start no more visitors."""
        for visitor in self._visitors:
            visitor.vanish()

    def nothing_is_left(self) -> bool:
        """Return whether the ephemeral znode of every visitor has been deleted on all peers."""
        trees = [running.service.tree for running in self._world.running()]
        return not any(path.startswith(PREFIX) for tree in trees for path in tree.nodes)


class _Visitor:
    """One machine that runs one visitor (a client that leaves or crashes soon) after another."""

    def __init__(self, world: World, machine: str) -> None:
        self._world = world
        self._machine = machine
        self._random = derive_random(world.seed, machine)
        self._visits = 0
        self.active = True
        self._come()

    def _come(self) -> None:
        """Boot the machine and connect a client to some of the peers."""
        if not self.active:
            return
        self._visits += 1
        world, random, visit = self._world, self._random, self._visits
        peers = [peer for peer in world.peers if random.random() < 0.6] or list(world.peers)
        timeout_ms = SESSION_TIMEOUTS_MS[random.randrange(0, len(SESSION_TIMEOUTS_MS))]
        stays_ms, vanishes = random.randrange(1, STAYS_MS_MAX), random.random() < 0.5
        client, machine = world.zookeeper_client(self._machine, peers, session_timeout_ms=timeout_ms)
        machine.runtime().spawn(self._visit(client, f"{PREFIX}{self._machine}-{visit}"), self._machine)

        def leave() -> None:
            if self.active and self._visits == visit:
                if not vanishes:
                    machine.runtime().spawn(client.close(), "goodbye")
                world.scheduler.after(AWAY_MS * 1000, gone)

        def gone() -> None:
            if self.active and self._visits == visit:
                machine.kill()
                self._come()

        world.scheduler.after(stays_ms * 1000, leave)

    async def _visit(self, client: Client, path: str) -> None:
        try:
            await client.start()
            await client.create(path, ephemeral=True)
        except ZooKeeperError:
            pass  # The create was rejected or its reply was lost, so this visit ends without an ephemeral znode.

    def vanish(self) -> None:
        """Crash the machine and do not boot it again."""
        self.active = False
        self._world.scripted_client(self._machine).kill()
