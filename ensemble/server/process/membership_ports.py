"""Applies a change of the membership to a running peer's ports.

The peer connects to the other servers at their new addresses, and listens at its own new addresses
(QuorumPeer.processReconfig, ServerCnxnFactory.reconfigure).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import structlog

from zabka.ensemble.ids import PeerId
from zabka.ensemble.runtime.links import LinkFaults
from zabka.ensemble.runtime.supervisor import report_task_failure
from zabka.ensemble.server.net.client_port import ClientPort
from zabka.ensemble.server.net.election_port import ElectionPort
from zabka.ensemble.server.net.quorum_port import QuorumPort
from zabka.ensemble.server.net.sockets import PortError
from zabka.ensemble.zab.effects import UseMembership
from zabka.ensemble.zab.server_line import ServerLine

ANY_HOST = "0.0.0.0"
Listen = Callable[[], Awaitable[None]]


def peer_names(servers: Iterable[tuple[int, ServerLine]]) -> dict[str, str]:
    """Return the name of the peer at each "host:port", for the fault table."""
    names: dict[str, str] = {}
    for number, line in servers:
        for host, quorum_port, election_port in line.addresses:
            for port in (quorum_port, election_port, line.client_port):
                if port is not None:
                    names[f"{host}:{port}"] = f"peer-{number}"
    return names


class MembershipPorts:
    """Applies each new membership to the ports.

    Open connections stay open. If a port cannot be opened, an error is logged, and the peer continues without the port.
    """

    def __init__(
        self,
        my_id: PeerId,
        mine: ServerLine,
        ports: tuple[ElectionPort, QuorumPort, ClientPort],
        links: LinkFaults,
        log: structlog.BoundLogger,
        *,
        listens_on_all: bool,
    ) -> None:
        self._my_id = my_id
        self._mine = mine
        self._elections, self._quorum, self._clients = ports
        self._links = links
        self._listens_on_all = listens_on_all
        self._log = log
        self._moving: asyncio.Task[None] | None = None

    def use(self, effect: UseMembership) -> None:
        """Connect to the servers of the active and of the last seen membership, and listen at this server's new
        addresses.

        If a server is in both, its address in the active membership is used.
        """
        servers = {**effect.last_seen.lines, **effect.current.lines}
        self._elections.use(servers)
        self._quorum.use(servers)
        self._links.name_nodes(peer_names(servers.items()))
        mine = effect.current.lines.get(self._my_id)
        if mine is not None and mine.canonical() != self._mine.canonical():
            before, self._mine = self._mine, mine
            moving = asyncio.get_running_loop().create_task(self._move(self._moving, before, mine), name="move ports")
            report_task_failure(moving)
            self._moving = moving

    async def _move(self, earlier: asyncio.Task[None] | None, before: ServerLine, after: ServerLine) -> None:
        if earlier is not None:
            await earlier
        addresses, warn = after.listens_at(on_all=self._listens_on_all), self._log.warning
        ports = [[(each.host, each.quorum_port) for each in line.addresses] for line in (before, after)]
        # Reopen the port also if this server becomes a voter or an observer: only a voter has a second quorum port, for
        # observers.
        if ports[0] != ports[1] or before.observer != after.observer:
            await self._reopen(lambda: self._quorum.listen(addresses, warn))
        ports = [[(each.host, each.election_port) for each in line.addresses] for line in (before, after)]
        if ports[0] != ports[1]:
            await self._reopen(lambda: self._elections.listen(addresses, warn))
        port = after.client_port
        if port is not None and (before.client_host or ANY_HOST, before.client_port) != (after.client_host, port):
            await self._reopen(lambda: self._clients.listen(after.client_host, port))

    async def _reopen(self, listen: Listen) -> None:
        try:
            await listen()
        except PortError as closed:
            self._log.error("the new membership cannot be followed", reason=str(closed))
