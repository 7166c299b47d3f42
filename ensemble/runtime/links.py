"""Faults on the links between running nodes: cut or delayed, per direction.

Every node gets the same kind of table: which remote nodes' links are faulty, as seen from itself.  The node that
opened a TCP connection enforces the faults of both its directions; a node leaves the connections it accepted alone,
since the other end enforces them.  A cut direction stalls: nothing is sent or delivered, not even a close, new
connections hang until their time-out, and all of it goes on when the cut is healed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from ensemble.runtime.faulty_link import FaultyLink

ANY = "*"
DELAY_MS_MAX = 600_000

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class LinkFault(msgspec.Struct, frozen=True):
    """One fault, as this node sees it: `out` is what it sends to `remote`, `in` is what it gets from there."""

    id: str
    remote: str
    direction: Literal["out", "in"]
    kind: Literal["cut", "delay"]
    delay_ms: int = 0


class FaultTable(msgspec.Struct, frozen=True):
    """All faults that hold, and which node answers at which "host:port"."""

    faults: list[LinkFault] = []
    names: dict[str, str] = {}


class LinkState(NamedTuple):
    """What holds on a connection, seen from its opener."""

    out_cut: bool = False
    out_delay_ms: int = 0
    in_cut: bool = False
    in_delay_ms: int = 0


HEALTHY = LinkState()


def address_key(host: str, port: int) -> str:
    """How addresses are written in a table."""
    return f"{'127.0.0.1' if host == 'localhost' else host}:{port}"


class LinkFaults:
    """This node's faults, and the way to open connections that feel them."""

    def __init__(self, names: dict[str, str] | None = None) -> None:
        self._own_names = _normalised(names or {})
        self._names = self._own_names
        self._faults: list[LinkFault] = []
        self._links: dict[int, FaultyLink] = {}
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def faults(self) -> list[LinkFault]:
        """The faults that hold."""
        return list(self._faults)

    def apply(self, table: FaultTable) -> None:
        """Make this the whole table; applying the same twice changes nothing.  Raises ValueError for a bad delay."""
        for fault in table.faults:
            if not 0 <= fault.delay_ms <= DELAY_MS_MAX:
                raise ValueError(f"fault {fault.id}: delay_ms must be 0 to {DELAY_MS_MAX}")
        self._faults = list(table.faults)
        self._names = {**self._own_names, **_normalised(table.names)}
        for link in list(self._links.values()):
            link.update(self.state(link.address))
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def state(self, address: str) -> LinkState:
        """What holds on connections to that address."""
        if not self._faults:
            return HEALTHY
        remote = self._names.get(address)
        mine = [fault for fault in self._faults if fault.remote in (remote, ANY)]
        return LinkState(
            any(f.kind == "cut" and f.direction == "out" for f in mine),
            _longest(f for f in mine if f.direction == "out"),
            any(f.kind == "cut" and f.direction == "in" for f in mine),
            _longest(f for f in mine if f.direction == "in"),
        )

    async def open_connection(
        self,
        factory: ProtocolFactory,
        host: str,
        port: int,
        *,
        ssl: ssl.SSLContext | None = None,
        sock: socket.socket | None = None,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Like `loop.create_connection(factory, host, port, ssl=ssl)`, through the faults of that address.  `sock` is
        connected there already.

        While a direction is cut it waits for the heal: bound it with a time-out.  Raises OSError.
        """
        loop = asyncio.get_running_loop()
        address = address_key(host, port)
        try:
            state = await self.passable(host, port)
            if state.out_delay_ms or state.in_delay_ms:
                await asyncio.sleep((state.out_delay_ms + state.in_delay_ms) / 1000)
        except asyncio.CancelledError:
            if sock is not None:
                sock.close()
            raise
        protocol = factory()

        def wrap() -> FaultyLink:
            return FaultyLink(loop, address, protocol, self._links, self.state(address))

        # A socket belongs to the transport from here on, also where that does not come about.
        if sock is None:
            _, link = await loop.create_connection(wrap, host, port, ssl=ssl)
        else:
            _, link = await loop.create_connection(wrap, sock=sock, ssl=ssl, server_hostname=host if ssl else None)
        return link.facade, protocol

    async def passable(self, host: str, port: int) -> LinkState:
        """Wait until nothing is cut on the way to that address; what holds there then."""
        address = address_key(host, port)
        while (state := self.state(address)).out_cut or state.in_cut:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        return state

    async def open_streams(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Like `asyncio.open_connection(host, port)`, through the faults of that address.  Raises OSError."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await self.open_connection(lambda: protocol, host, port)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def _longest(faults: Iterable[LinkFault]) -> int:
    return max((fault.delay_ms for fault in faults if fault.kind == "delay"), default=0)


def _normalised(names: dict[str, str]) -> dict[str, str]:
    out: dict[str, str] = {}
    for address, name in names.items():
        host, _, port = address.rpartition(":")
        out[address_key(host.strip("[]"), int(port)) if port.isdigit() else address] = name
    return out


_decoder = msgspec.json.Decoder(FaultTable)


class ControlSocket:
    """A unix-domain socket on which a host agent sends fault tables: one JSON object a line, one answer a line.

    `{"faults": [...], "names": {...}}` is the full state each time; the answer is `{"ok": true}`, or `{"ok": false,
    "error": "..."}` with nothing changed.  `{"status": true}` asks how the node stands: the answer is what the
    `status` given here returns, as one object.
    """

    LINE_BYTES_MAX = 1024 * 1024

    def __init__(self, path: str, faults: LinkFaults, status: Callable[[], dict[str, Any]] | None = None) -> None:
        self._path = path
        self._faults = faults
        self._status = status
        self._server: asyncio.AbstractServer | None = None
        self._writers: dict[int, asyncio.StreamWriter] = {}

    async def start(self) -> None:
        """Listen; a socket file left by a killed process is replaced.  Raises OSError."""
        self._server = await asyncio.start_unix_server(self._serve, self._path, limit=self.LINE_BYTES_MAX)

    async def close(self) -> None:
        """Stop listening and drop the agent's connections."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers.values()):
            writer.close()

    def answer(self, line: bytes) -> bytes:
        """Carry out one line; what to say to it."""
        try:
            if msgspec.json.decode(line) == {"status": True}:
                return msgspec.json.encode(self._status() if self._status else {}) + b"\n"
            self._faults.apply(_decoder.decode(line))
        except (msgspec.DecodeError, ValueError) as bad:
            return msgspec.json.encode({"ok": False, "error": str(bad)}) + b"\n"
        return b'{"ok":true}\n'

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers[id(writer)] = writer
        try:
            while (line := await reader.readline()).endswith(b"\n"):
                writer.write(self.answer(line))
                await writer.drain()
        except (OSError, ValueError):
            # The agent went away, or its line was beyond the limit.
            return
        finally:
            del self._writers[id(writer)]
            writer.close()


def parse_table(raw: Any) -> FaultTable:
    """A table from decoded JSON.  Raises msgspec.ValidationError."""
    return msgspec.convert(raw, FaultTable)
