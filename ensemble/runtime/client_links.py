"""Faults of the links between a node and its clients, enforced on the connections that the node has accepted.

A new connection is held until its first request names the client, so a rule applies to that request already. A rule
that is added later applies to open connections immediately. The session id of a new ZooKeeper client is known only with
the server's response, so a rule for that session applies from that response on. Connections of the cluster's own nodes
are not affected, because faults between nodes have rules of their own kind. Without rules, connections have no
`ClientLink`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

from zabka.ensemble.request_fault import ANY
from zabka.ensemble.runtime.client_end import ClientLine, Named, address_text
from zabka.ensemble.runtime.faulty_link import FaultyLink
from zabka.ensemble.runtime.link_fault import HeldFault, client_impairments, is_of
from zabka.ensemble.runtime.links import HEALTHY, FaultTable, LinkState
from zabka.journal.cause import fault_cause
from zabka.journal.events import Event, LinkFaultApplied

REPORTED_MAX = 1_000
"""Maximum number of clients that are journalled for each fault. The fault affects all matching clients."""
CLIENT_CHARACTERS_MAX = 260


class KnownClient(NamedTuple):
    """The name of a connection's client, "" if it has none, and whether the client is a node of the cluster."""

    name: str
    is_node: bool = False


Identify = Callable[[bytes], KnownClient | None]
"""Returns the client that the first bytes of a connection name, or None if more bytes are needed."""


class Accepted(Protocol):
    """A client's connection at the port that accepted it: the asyncio protocol of the transport."""

    def use_transport(self, transport: asyncio.Transport, link: ClientLink | None) -> None:
        """Read from and write to this transport from now on. If `link` is given, the transport is the link's."""
        ...


class ClientLinks:
    """The faults of one node's links with clients. `emit` receives an event for each client that a fault affects."""

    def __init__(self, named: Named, identify: Identify, emit: Callable[[Event], object]) -> None:
        self.named = named
        self.identify = identify
        self.registry: dict[int, FaultyLink] = {}
        self._emit = emit
        self._node = ""
        self._faults: list[HeldFault] = []
        self._reported: dict[str, dict[str, None]] = {}
        """The clients that were journalled, keyed by fault."""

    @property
    def is_needed(self) -> bool:
        """Whether there are faults, so that new connections need a link."""
        return bool(self._faults)

    def apply(self, table: FaultTable) -> None:
        """Apply exactly the faults of this table from now on."""
        self._node = table.node
        self._faults = [each for each in table.faults if each.client is not None and each.node in (table.node, ANY)]
        self._reported = {each.id: self._reported.get(each.id, {}) for each in self._faults}
        for link in list(self.registry.values()):
            assert isinstance(link, ClientLink)
            link.refresh()

    def attach(self, connection: Accepted, transport: asyncio.Transport, known: KnownClient | None) -> ClientLink:
        """Put a link between a connection and its transport. Without `known`, the first bytes name the client."""
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        line = ClientLine(self.named, "" if known is None else known.name, str(host), int(port))
        link = ClientLink(self, connection, line)
        # A new connection is not read yet: asyncio and uvloop begin to read after `connection_made`.
        link.take_over(transport, is_reading=known is None or transport.is_reading())
        connection.use_transport(link.facade, link)
        if known is not None:
            link.name_client(known)
        return link

    def state(self, line: ClientLine) -> LinkState:
        """Return the faults of a client's link. Journal each fault that affects the client for the first time."""
        for fault in self._faults:
            if is_of(fault, self._node, line):
                self._report(fault, line)
        inward, outward = client_impairments(self._faults, self._node, line)
        return LinkState(outward=outward, inward=inward)

    def _report(self, fault: HeldFault, line: ClientLine) -> None:
        client, seen = line.text[:CLIENT_CHARACTERS_MAX], self._reported[fault.id]
        if client not in seen and len(seen) < REPORTED_MAX:
            seen[client] = None
            address = address_text(line.host, line.port)
            self._emit(LinkFaultApplied(fault.id, fault.kind, client, address, caused_by=fault_cause(fault.id)))


class ClientLink(FaultyLink):
    """The link of one accepted connection."""

    def __init__(self, links: ClientLinks, connection: Accepted, line: ClientLine) -> None:
        protocol = cast(asyncio.Protocol, connection)
        loop = asyncio.get_running_loop()
        super().__init__(loop, line.text, protocol, links.registry, lambda: HEALTHY)
        self._links = links
        self._connection = connection
        self._line = line
        self._first: bytes | None = b""
        """The bytes that have arrived so far, while the client is unknown."""
        self._is_of_node = False

    def name_client(self, known: KnownClient) -> None:
        """Apply the faults of the client with that name."""
        self._first = None
        self._is_of_node = known.is_node
        self._line = self._line._replace(name=known.name)
        self.refresh()

    def refresh(self) -> None:
        """Apply the present faults. If there are none, detach from the connection as soon as nothing is held back."""
        if self._first is None:
            self.update(HEALTHY if self._is_of_node else self._links.state(self._line))
        if not self._links.is_needed and self.is_clear and not self._first:
            self.give_back()
            assert self.transport is not None
            self._connection.use_transport(self.transport, None)

    def data_received(self, data: bytes) -> None:
        """Hold the first bytes until they name the client."""
        if self._first is not None:
            data = self._first + data
            known = self._links.identify(data)
            if known is None:
                self._first = data
                return
            self.name_client(known)
        super().data_received(data)
