"""ZooKeeper clients of a script, over real sockets.  Faults treat each client as if it ran on a machine of its own."""

from __future__ import annotations

import asyncio
import ssl
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
    """Return the paths of the znodes that an operation on a path creates."""
    if operation == "create_both":
        return [f"{path}-left", f"{path}-right"]
    return [path] if operation.startswith("create") else []


class LiveClients:
    """ZooKeeper clients keyed by name.  Their coroutines and `cut` must run on one event loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, peers: Mapping[str, str], tls: ssl.SSLContext | None = None
    ) -> None:
        """Set up an empty collection of clients.

        `peers` maps each peer's name to its address; `tls` is the TLS context of their client ports.
        """
        self._loop = loop
        self._peers = dict(peers)
        self._tls = tls
        self._clients: dict[str, Client] = {}
        self._links: dict[str, LinkFaults] = {}
        self._vanished: list[Client] = []
        self._fired: dict[str, int] = {}
        self.made: set[str] = set()
        """Paths of znodes whose creation by this script's clients was acknowledged, and which have not been deleted
        since then.
        """

    async def join(self, name: str, peers: tuple[int, ...], session_timeout_ms: int) -> None:
        """Connect a client only to these peers, and wait until the client has a session."""
        runtime = AsyncioRuntime(self._loop, owns_loop=False)
        servers = ",".join(self._peers[f"peer-{number}"] for number in peers)
        connector = AsyncioConnector(self._links_of(name), ssl_context=self._tls)
        client = Client(servers, connector, runtime, session_timeout_ms=session_timeout_ms, name=name)
        self._clients[name] = client
        await client.start()

    def _links_of(self, name: str) -> LinkFaults:
        names = {address: peer for peer, address in self._peers.items()}
        return self._links.setdefault(name, LinkFaults(names))

    def client(self, name: str) -> Client:
        """Return the client with that name. Raises StepFailed if there is none."""
        if name not in self._clients:
            raise StepFailed(f"there is no client {name!r}")
        return self._clients[name]

    async def ask(self, name: str, operation: str, path: str, data: str) -> str:
        """Request an operation from a client, and return the result in the format of the simulated stage.

        Raises StepFailed if there is no such client.
        """
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
        """Return how often the client's watches have fired."""
        return self._fired.get(name, 0)

    async def ask_all_peers(self, operation: str, path: str) -> dict[str, str]:
        """Request the operation from each peer after a sync, and return the results.

        Raises StepFailed if a peer does not reply.
        """
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
        """Hold packets from the client's machine to these peers until `heal`. With `both_ways`, also hold packets to
        the machine.
        """
        links = self._links_of(name)
        cuts = [HeldFault(name, peer, "cut", both_ways=both_ways, id=f"{name} to {peer}") for peer in peers]
        links.apply(FaultTable([*links.faults, *cuts], name))

    async def heal(self, names: list[str] | None) -> None:
        """End all cuts, or only the cuts of the clients in `names`."""
        for name, links in self._links.items():
            if names is None or name in names:
                links.apply(FaultTable())

    async def vanish(self, name: str) -> None:
        """Make the client's machine disappear without closing its connections. The session expires later."""
        gone = HeldFault(name, ANY, "cut", id="gone")
        self._links.pop(name).apply(FaultTable([gone], name))
        self._vanished.append(self._clients.pop(name))

    async def close(self) -> None:
        """Close every client's session, if a peer can be reached."""
        await self.heal(None)
        for client in self._clients.values():
            await client.close()
        for client in self._vanished:
            await client.close(wait_ms=0)
