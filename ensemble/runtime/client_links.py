"""Faults of the links between a node and its clients, enforced on the connections that the node has accepted.

The first bytes of a new connection are held until they contain the client's name, so a fault affects even the first
request. A fault that is added later affects open connections immediately. The session id of a new ZooKeeper client is
known only with the server's response, so a fault of that session takes effect with that response. Connections of the
cluster's own nodes are not affected, because there are separate faults for links between nodes. While there are no
faults, connections have no `ClientLink`.
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
"""Maximum number of clients for which a fault is journalled. The fault affects all matching clients."""
CLIENT_CHARACTERS_MAX = 260


class KnownClient(NamedTuple):
    """Client of a connection: its name ("" if it has none), and whether it is a node of the cluster."""

    name: str
    is_node: bool = False


Identify = Callable[[bytes], KnownClient | None]
"""Function that identifies the client from the first bytes of a connection.

It returns None if it needs more bytes.
"""


class Accepted(Protocol):
    """asyncio protocol of a client's connection, on the port that accepted it."""

    def use_transport(self, transport: asyncio.Transport, link: ClientLink | None) -> None:
        """Read from and write to this transport from now on. If `link` is given, it owns the transport."""
        ...


class ClientLinks:
    """The link faults between one node and its clients.

    `emit` receives an event for each client that a fault affects.
    """

    def __init__(self, named: Named, identify: Identify, emit: Callable[[Event], object]) -> None:
        self.named = named
        self.identify = identify
        self.registry: dict[int, FaultyLink] = {}
        self._emit = emit
        self._node = ""
        self._faults: list[HeldFault] = []
        self._reported: dict[str, dict[str, None]] = {}
        """Clients for which the fault was journalled, keyed by fault id."""

    @property
    def is_needed(self) -> bool:
        """Whether there are faults, so that new connections need a `ClientLink`."""
        return bool(self._faults)

    def apply(self, table: FaultTable) -> None:
        """Replace the active faults by the client faults in this table."""
        self._node = table.node
        self._faults = [each for each in table.faults if each.client is not None and each.node in (table.node, ANY)]
        self._reported = {each.id: self._reported.get(each.id, {}) for each in self._faults}
        for link in list(self.registry.values()):
            assert isinstance(link, ClientLink)
            link.refresh()

    def attach(self, connection: Accepted, transport: asyncio.Transport, known: KnownClient | None) -> ClientLink:
        """Insert a link between a connection and its transport.

        If `known` is None, the link finds the client's name in the first bytes.
        """
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        line = ClientLine(self.named, "" if known is None else known.name, str(host), int(port))
        link = ClientLink(self, connection, line)
        # Assume that a new connection is read: asyncio and uvloop begin to read only after `connection_made`.
        link.take_over(transport, is_reading=known is None or transport.is_reading())
        connection.use_transport(link.facade, link)
        if known is not None:
            link.name_client(known)
        return link

    def state(self, line: ClientLine) -> LinkState:
        """Return the faults of the link with this client.

        Journal a fault when it affects a client for the first time.
        """
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
    """Link between an accepted connection and its transport, which applies the client's faults."""

    def __init__(self, links: ClientLinks, connection: Accepted, line: ClientLine) -> None:
        protocol = cast(asyncio.Protocol, connection)
        loop = asyncio.get_running_loop()
        super().__init__(loop, line.text, protocol, links.registry, lambda: HEALTHY)
        self._links = links
        self._connection = connection
        self._line = line
        self._first: bytes | None = b""
        """Bytes received so far, while the client is unknown; None when it is known."""
        self._is_of_node = False

    def name_client(self, known: KnownClient) -> None:
        """Set the connection's client, and apply the faults of this client."""
        self._first = None
        self._is_of_node = known.is_node
        self._line = self._line._replace(name=known.name)
        self.refresh()

    def refresh(self) -> None:
        """Apply the current faults.

        If there are no faults any more, detach from the connection as soon as no bytes are held back.
        """
        if self._first is None:
            self.update(HEALTHY if self._is_of_node else self._links.state(self._line))
        if not self._links.is_needed and self.is_clear and not self._first:
            self.give_back()
            assert self.transport is not None
            self._connection.use_transport(self.transport, None)

    def data_received(self, data: bytes) -> None:
        """Hold back the first bytes until they contain the client's name."""
        if self._first is not None:
            data = self._first + data
            known = self._links.identify(data)
            if known is None:
                self._first = data
                return
            self.name_client(known)
        super().data_received(data)
