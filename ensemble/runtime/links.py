"""Faults on the links between running nodes: partitions and delays, per direction.

Every node receives the same table of all active faults, and its own name. The node that opened a TCP connection
enforces the faults of both directions; the node that accepted it enforces none. A partitioned direction stalls: nothing
is sent or delivered, not even a close, and new connections hang until they time out. After the partition is healed, the
connections continue.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec

from zabka.ensemble.request_fault import HeldRequestFault
from zabka.ensemble.runtime.faulty_link import FaultyLink
from zabka.ensemble.runtime.link_fault import WHOLE, HeldFault, Impairment, impairment

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class FaultTable(msgspec.Struct, frozen=True):
    """All active link faults, this node's name and request faults, and the name of the node at each "host:port".

    `ledger` is the directory in which the nodes of the host count the requests to which each request fault was applied.
    """

    faults: list[HeldFault] = []
    node: str = ""
    names: dict[str, str] = {}
    requests: list[HeldRequestFault] = []
    ledger: str = ""


class LinkState(NamedTuple):
    """Impairments of the two directions of a connection, as seen from the node that enforces them."""

    outward: Impairment = WHOLE
    inward: Impairment = WHOLE


HEALTHY = LinkState()


def address_key(host: str, port: int) -> str:
    """Return an address in the format of a fault table: "host:port"."""
    return f"{'127.0.0.1' if host == 'localhost' else host}:{port}"


class LinkFaults:
    """This node's link faults; opens connections to which the faults are applied."""

    def __init__(self, names: dict[str, str] | None = None) -> None:
        self._own_names = _normalised(names or {})
        self._later_names: dict[str, str] = {}
        self._names = dict(self._own_names)
        self._node = ""
        self._faults: list[HeldFault] = []
        self._links: dict[int, FaultyLink] = {}
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def faults(self) -> list[HeldFault]:
        """Return the active faults."""
        return list(self._faults)

    def name_nodes(self, names: dict[str, str]) -> None:
        """Add the names of the nodes at these addresses, for nodes that joined or moved after this node started."""
        named = _normalised(names)
        if all(self._later_names.get(address) == name for address, name in named.items()):
            return
        self._later_names.update(named)
        self._names.update(self._later_names)
        for link in list(self._links.values()):
            link.update(self.state(link.address))

    def apply(self, table: FaultTable) -> None:
        """Replace the whole fault table; applying the same table twice has no effect."""
        self._node = table.node
        self._faults = list(table.faults)
        self._names = {**self._own_names, **_normalised(table.names), **self._later_names}
        for link in list(self._links.values()):
            link.update(self.state(link.address))
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def state(self, address: str) -> LinkState:
        """Return the faults on connections to this address."""
        if not self._faults:
            return HEALTHY
        remote = self._names.get(address)
        return LinkState(impairment(self._faults, self._node, remote), impairment(self._faults, remote, self._node))

    async def open_connection(
        self,
        factory: ProtocolFactory,
        host: str,
        port: int,
        *,
        ssl: ssl.SSLContext | None = None,
        sock: socket.socket | None = None,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect as `loop.create_connection(factory, host, port, ssl=ssl)` does, with the faults for this address.

        `sock`, if given, is already connected to the address.

        Waits while a direction is partitioned; use a timeout to limit the wait. Raises OSError.
        """
        loop = asyncio.get_running_loop()
        address = address_key(host, port)
        try:
            state = await self.passable(host, port)
            round_trip_ms = state.outward.delay_ms + state.inward.delay_ms
            if round_trip_ms:
                await asyncio.sleep(round_trip_ms / 1000)
        except asyncio.CancelledError:
            if sock is not None:
                sock.close()
            raise
        protocol = factory()

        def wrap() -> FaultyLink:
            return FaultyLink(loop, address, protocol, self._links, partial(self.state, address))

        # From here on the transport owns the socket and closes it, even if the transport cannot be created.
        if sock is None:
            _, link = await loop.create_connection(wrap, host, port, ssl=ssl)
        else:
            _, link = await loop.create_connection(wrap, sock=sock, ssl=ssl, server_hostname=host if ssl else None)
        return link.facade, protocol

    async def passable(self, host: str, port: int) -> LinkState:
        """Wait until neither direction of the link to this address is partitioned; return the remaining faults."""
        address = address_key(host, port)
        while (state := self.state(address)).outward.cut or state.inward.cut:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        return state

    async def open_streams(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect as `asyncio.open_connection(host, port)` does, with the faults for this address.

        Raises OSError.
        """
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await self.open_connection(lambda: protocol, host, port)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def _normalised(names: dict[str, str]) -> dict[str, str]:
    out: dict[str, str] = {}
    for address, name in names.items():
        host, _, port = address.rpartition(":")
        out[address_key(host.strip("[]"), int(port)) if port.isdigit() else address] = name
    return out


_decoder = msgspec.json.Decoder(FaultTable)


class ControlSocket:
    """Unix-domain socket on which the host agent sends fault tables to a node: one JSON object and one reply per line.

    `{"faults": [...], "node": "...", …}`, a `FaultTable`, always contains all faults, and is passed to `hold`. The
    reply is `{"ok": true}`, or `{"ok": false, "error": "..."}` if it was rejected and nothing changed. The line
    `{"status": true}` requests the node's status: the reply is the result of the function `status`, as one object.
    """

    LINE_BYTES_MAX = 1024 * 1024

    def __init__(
        self,
        path: str,
        hold: Callable[[FaultTable], object],
        status: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        self._path = path
        self._hold = hold
        self._status = status
        self._server: asyncio.AbstractServer | None = None
        self._writers: dict[int, asyncio.StreamWriter] = {}

    async def start(self) -> None:
        """Listen on the socket; replace a socket file left by a killed process.

        Raises OSError.
        """
        self._server = await asyncio.start_unix_server(self._serve, self._path, limit=self.LINE_BYTES_MAX)

    async def close(self) -> None:
        """Stop listening and drop the agent's connections."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers.values()):
            writer.close()

    def answer(self, line: bytes) -> bytes:
        """Handle one line from the host agent; return the reply."""
        try:
            if msgspec.json.decode(line) == {"status": True}:
                return msgspec.json.encode(self._status() if self._status else {}) + b"\n"
            self._hold(_decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as bad:
            return msgspec.json.encode({"ok": False, "error": str(bad)}) + b"\n"
        return b'{"ok":true}\n'

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers[id(writer)] = writer
        try:
            while (line := await reader.readline()).endswith(b"\n"):
                writer.write(self.answer(line))
                await writer.drain()
        except (OSError, ValueError):
            # The agent closed the connection, or sent a line that is longer than the limit.
            return
        finally:
            del self._writers[id(writer)]
            writer.close()
