"""The clients of the ensemble that a script lets join, over real sockets: each as if on a machine of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from zabka.ensemble.client.asyncio_connector import AsyncioConnector
from zabka.ensemble.client.client import Client
from zabka.ensemble.client.service import WatchEvent
from zabka.ensemble.errors import ZooKeeperError
from zabka.ensemble.records import EventType
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.ensemble.runtime.link_fault import ANY, HeldFault
from zabka.ensemble.runtime.links import FaultTable, LinkFaults
from zabka.simulation.scenarios.operations import OPERATIONS
from zabka.simulation.scenarios.step import StepFailed

MACHINE = "client-"
SYNCS_MAX = 10
SYNC_AGAIN_S = 0.5
ASKING_SESSION_MS = 4_000


def creates(operation: str, path: str) -> list[str]:
    """The znodes that an operation on a path makes."""
    if operation == "create_both":
        return [f"{path}-left", f"{path}-right"]
    return [path] if operation.startswith("create") else []


class LiveClients:
    """Clients by name; their coroutines and `cut` belong to one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, peers: Mapping[str, str]) -> None:
        """`peers` are addresses by the peers' names."""
        self._loop = loop
        self._peers = dict(peers)
        self._clients: dict[str, Client] = {}
        self._links: dict[str, LinkFaults] = {}
        self._vanished: list[Client] = []
        self._fired: dict[str, int] = {}
        self.made: set[str] = set()
        """The znodes whose creation was answered, and that nobody here has deleted since."""

    async def join(self, name: str, peers: tuple[int, ...], session_timeout_ms: int) -> None:
        """Connect one, to these peers and no others; returns once it has its session."""
        runtime = AsyncioRuntime(self._loop, owns_loop=False)
        servers = ",".join(self._peers[f"peer-{number}"] for number in peers)
        connector = AsyncioConnector(self._links_of(name))
        client = Client(servers, connector, runtime, session_timeout_ms=session_timeout_ms, name=name)
        self._clients[name] = client
        await client.start()

    def _links_of(self, name: str) -> LinkFaults:
        names = {address: peer for peer, address in self._peers.items()}
        return self._links.setdefault(name, LinkFaults(names))

    def client(self, name: str) -> Client:
        """The client of that name.  Raises StepFailed where there is none."""
        if name not in self._clients:
            raise StepFailed(f"there is no client {name!r}")
        return self._clients[name]

    async def ask(self, name: str, operation: str, path: str, data: str) -> str:
        """What it is answered, in the simulated stage's words.  Raises StepFailed where there is no such client."""
        client = self.client(name)
        try:
            answer = await OPERATIONS[operation](client, path, data, self._watch(name))
        except ZooKeeperError as refused:
            return type(refused).__name__
        self.made.update(creates(operation, path))
        if operation == "delete":
            self.made.discard(path)
        return answer

    def _watch(self, name: str) -> Callable[[WatchEvent], None]:
        def seen(event: WatchEvent) -> None:
            if event.type is not EventType.NONE:
                self._fired[name] = self._fired.get(name, 0) + 1

        return seen

    def fired(self, name: str) -> int:
        """How often its watches have fired."""
        return self._fired.get(name, 0)

    async def ask_everybody(self, operation: str, path: str) -> dict[str, str]:
        """What each peer answers behind a sync.  Raises StepFailed where one does not."""
        return {peer: await self._ask_peer(peer, operation, path) for peer in self._peers}

    async def _ask_peer(self, peer: str, operation: str, path: str) -> str:
        name = f"at-{peer}"
        for _ in range(SYNCS_MAX):
            if name not in self._clients:
                await self.join(name, (int(peer.rpartition("-")[2]),), ASKING_SESSION_MS)
            answer = await self.ask(name, "sync", "/", "")
            if answer == "ok":
                return await self.ask(name, operation, path, "")
            if answer == "SessionExpired":
                await self._clients.pop(name).close(wait_ms=0)
            await asyncio.sleep(SYNC_AGAIN_S)
        raise StepFailed(f"{peer} does not answer")

    # -- faults --------------------------------------------------------------------------------------------------------

    async def cut(self, name: str, peers: list[str], *, both_ways: bool) -> None:
        """What its machine sends to these peers, and what they send back, waits until `heal`."""
        links = self._links_of(name)
        cuts = [HeldFault(name, peer, "cut", both_ways=both_ways, id=f"{name} to {peer}") for peer in peers]
        links.apply(FaultTable([*links.faults, *cuts], name))

    async def heal(self, names: list[str] | None) -> None:
        """Undo every cut, or those of these clients alone."""
        for name, links in self._links.items():
            if names is None or name in names:
                links.apply(FaultTable())

    async def vanish(self, name: str) -> None:
        """Its machine is gone without a word: no connection is closed, and its session ends by its time-out."""
        gone = HeldFault(name, ANY, "cut", id="gone")
        self._links.pop(name).apply(FaultTable([gone], name))
        self._vanished.append(self._clients.pop(name))

    async def close(self) -> None:
        """End every session, as far as somebody can be told."""
        await self.heal(None)
        for client in self._clients.values():
            await client.close()
        for client in self._vanished:
            await client.close(wait_ms=0)
