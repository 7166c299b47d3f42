"""Connections over TCP for the client: framing, codecs, one write per event loop turn.

Contains I/O only, no protocol logic. Works with uvloop too.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from zabka.ensemble.client.client_tap import ClientLine, ClientTap
from zabka.ensemble.client.hosts import split_host
from zabka.ensemble.client.service import Receiver, ToServer, WatchEvent
from zabka.ensemble.jute import MalformedRecord, Reader, Record, pack_int
from zabka.ensemble.records import (
    NOTIFICATION_XID,
    RESPONSE_BODIES,
    AnyResponse,
    ConnectResponse,
    EventType,
    GetChildren2Response,
    MultiResponse,
    OpCode,
    Reply,
    Request,
    WatcherEvent,
)
from zabka.ensemble.runtime.disconnect import disconnect

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""Size limit of a reply. A longer reply (a list of very many children) closes the connection."""

WORD_TIMEOUT_S = 2.0
WORD_BYTES_MAX = 64 * 1024

_BODIES: dict[int, type[Record] | type[MultiResponse]] = {
    **RESPONSE_BODIES,
    OpCode.GET_CHILDREN2: GetChildren2Response,
}
_EVENT_TYPES = {event.value: event for event in EventType}


class Opener(Protocol):
    """Opens TCP connections as `loop.create_connection` does; `zabka.ensemble.runtime.links` adds faults."""

    def open_connection(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, ssl: ssl.SSLContext | None
    ) -> Awaitable[object]:
        """Open a connection; `factory` creates its protocol.

        Raises OSError.
        """
        ...


class AsyncioConnector:
    """Opens connections to ZooKeeper servers over asyncio TCP, as a `Connector`.

    Uses TLS if `ssl_context` is given. Network faults are injected by `faults`, if given.
    """

    def __init__(
        self, faults: Opener | None = None, *, ssl_context: ssl.SSLContext | None = None, tap: ClientTap | None = None
    ) -> None:
        self._faults = faults
        self._tap = tap
        self._ssl = ssl_context
        self._asking: set[asyncio.Future[str]] = set()

    def connect(self, host: str, receiver: Receiver) -> ClientConnection:
        """Begin to connect to "host:port"; must be called on the running loop."""
        connection = ClientConnection(receiver, self._tap)
        connection.opening = asyncio.ensure_future(self._open(connection, host))
        return connection

    def ask_word(self, host: str, word: str, heard: Callable[[str], None]) -> None:
        """Send a four-letter word to the server at "host:port"; call `heard` with the reply, or "" if there is none."""
        asking = asyncio.ensure_future(self._ask(host, word))
        self._asking.add(asking)

        def done(asked: asyncio.Future[str]) -> None:
            self._asking.discard(asked)
            if not asked.cancelled():
                heard(asked.result())

        asking.add_done_callback(done)

    async def _ask(self, server: str, word: str) -> str:
        question = _Word(word)
        try:
            async with asyncio.timeout(WORD_TIMEOUT_S):
                await self._dial(question, server)
                return await question.answer
        except (OSError, ValueError):  # TimeoutError is an OSError
            return ""
        finally:
            question.close()

    async def _open(self, connection: ClientConnection, server: str) -> None:
        try:
            await self._dial(connection, server)
        except (OSError, ValueError) as failed:  # ValueError: an invalid address or host name
            connection.fail(str(failed) or type(failed).__name__)

    async def _dial(self, protocol: asyncio.Protocol, server: str) -> None:
        host, port = split_host(server)
        if self._faults is not None:
            await self._faults.open_connection(lambda: protocol, host, port, ssl=self._ssl)
        else:
            await asyncio.get_running_loop().create_connection(lambda: protocol, host, port, ssl=self._ssl)


class _Word(asyncio.Protocol):
    """Connection for one four-letter word."""

    def __init__(self, word: str) -> None:
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._word = word
        self._transport: asyncio.Transport | None = None
        self._in = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._word.encode())

    def data_received(self, data: bytes) -> None:
        self._in += data
        if len(self._in) > WORD_BYTES_MAX:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_result(self._in.decode("utf-8", "replace"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class ClientConnection(asyncio.Protocol):
    """One connection to a server: sends requests, and decodes each reply by the op code of its request."""

    def __init__(self, receiver: Receiver, tap: ClientTap | None = None) -> None:
        self._receiver: Receiver | None = receiver
        self._tap = tap
        self._line: ClientLine | None = None
        self.opening: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._ops: deque[int] = deque()
        self._out: list[bytes] = []
        self._flushing = False
        self._in = bytearray()
        self._wanted = 4
        self._first = True

    # -- methods that the client calls

    def send(self, message: ToServer) -> None:
        """Queue a frame; all frames of an event loop turn are sent in one write."""
        if isinstance(message, Request) and message.xid > 0:
            self._ops.append(message.op)
        frame = message.encode()
        self._out.append(pack_int(len(frame)))
        self._out.append(frame)
        if self._line is not None:
            self._line.sent(message, len(frame) + 4)
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._transport is not None and self._out:
            self._transport.write(b"".join(self._out))
            self._out.clear()

    def close(self) -> None:
        """Disconnect after the queued frames are sent; no callback is called afterwards."""
        self._receiver = None
        if self.opening is not None:
            self.opening.cancel()
        if self._transport is not None:
            self._flush()
            disconnect(self._transport)
            self._transport = None

    def fail(self, reason: str) -> None:
        """Close the connection and report `reason` to its receiver, unless the connection is already closed."""
        receiver = self._receiver
        self.close()
        if receiver is not None:
            receiver.on_disconnected(reason)

    # -- callbacks from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to send and receive: TCP has connected."""
        self._transport = cast(asyncio.Transport, transport)
        if self._receiver is None:
            self._transport.abort()
            return
        if self._tap is not None:
            self._line = self._tap.line(transport)
        self._receiver.on_connected()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that the other side closed the connection."""
        self.fail(str(exc) if exc else "closed by the server")

    def data_received(self, data: bytes) -> None:
        """Process every complete frame."""
        if self._in:
            self._in += data
            if len(self._in) < self._wanted:
                return
            data = bytes(self._in)
            self._in.clear()
        pos, end = 0, len(data)
        self._wanted = 4
        while end - pos >= 4 and self._receiver is not None:
            size = int.from_bytes(data[pos : pos + 4], "big", signed=True)
            if not 0 <= size <= FRAME_BYTES_MAX:
                self.fail(f"invalid frame length {size}")
                return
            if end - pos - 4 < size:
                self._wanted = 4 + size
                break
            try:
                self._on_frame(data[pos + 4 : pos + 4 + size], self._receiver)
            except MalformedRecord as malformed:
                self.fail(f"malformed reply: {malformed}")
                return
            pos += 4 + size
        self._in += data[pos:]

    def _on_frame(self, frame: bytes, receiver: Receiver) -> None:
        if self._first:
            self._first = False
            connected = _decode_connect(frame)
            if self._line is not None:
                self._line.connected(connected)
            receiver.on_message(connected)
            return
        reader = Reader(frame)
        reply = Reply(reader.read_int(), reader.read_long(), reader.read_int())
        if reply.xid == NOTIFICATION_XID:
            raw = WatcherEvent.read_from(reader)
            event_type = _EVENT_TYPES.get(raw.type)
            if event_type is None:
                raise MalformedRecord(f"watch event of type {raw.type}")
            event = WatchEvent(event_type, raw.path)
            if self._line is not None:
                self._line.watched(event, reply.zxid, len(frame) + 4)
            receiver.on_watch(event, reply.zxid)
            return
        if reply.xid > 0:
            reply.body = self._decode_body(reader, reply)
        if self._line is not None:
            self._line.replied(reply, len(frame) + 4)
        receiver.on_message(reply)

    def _decode_body(self, reader: Reader, reply: Reply) -> AnyResponse | None:
        if not self._ops:
            raise MalformedRecord(f"xid {reply.xid} answers nothing")
        kind = _BODIES.get(self._ops.popleft())
        return kind.read_from(reader) if kind is not None and not reply.err else None


def _decode_connect(frame: bytes) -> ConnectResponse:
    """Decode a ConnectResponse; servers before 3.4 omit `read_only`."""
    reader = Reader(frame)
    parts = (reader.read_int(), reader.read_int(), reader.read_long(), reader.read_buffer() or b"")
    return ConnectResponse(*parts, read_only=reader.read_bool() if reader.left else False)
