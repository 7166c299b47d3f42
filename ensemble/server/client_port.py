"""The client port: frames in, frames out, and the four-letter words (NIOServerCnxn, FourLetterCommands).

All complete frames of a read are parsed in one go, all replies of a turn leave in one write.  Bytes that are no frame,
or a frame beyond jute.maxbuffer, end that one connection.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from ensemble.ids import ConnectionId
from ensemble.jute import MalformedRecord, pack_int
from ensemble.records import ClientMessage, ConnectRequest, Request, ServerMessage
from ensemble.server.sockets import keep_alive, listen, remote_name

SESSIONLESS_TIMEOUT_S = 10.0
"""zookeeper.nio.sessionlessCnxnTimeout: how long a connection may take to say who it is."""
OUTSTANDING_HIGH = 4000
OUTSTANDING_LOW = 1000
"""Above the one a connection is not read from until it has fallen below the other."""


class ClientListener(Protocol):
    """Who serves clients."""

    def on_client_connected(self, connection: ConnectionId) -> None: ...
    def on_client_messages(self, connection: ConnectionId, messages: list[ClientMessage]) -> None: ...
    def on_client_closed(self, connection: ConnectionId) -> None: ...
    def answer_word(self, word: str) -> str | None:
        """The answer to a four-letter word, None where it is none."""
        ...

    def outstanding(self, connection: ConnectionId) -> int:
        """How many requests of a connection wait for an answer."""
        ...


class ClientPort:
    """The listening port and every client connection."""

    def __init__(self, listener: ClientListener, *, frame_bytes_max: int, connections_per_host_max: int) -> None:
        self.listener = listener
        self.frame_bytes_max = frame_bytes_max
        self._per_host_max = connections_per_host_max
        self._per_host: dict[str, int] = {}
        self._server: asyncio.AbstractServer | None = None
        self._connections: dict[ConnectionId, ClientConnection] = {}
        self._unflushed: dict[ConnectionId, ClientConnection] = {}
        self._next = 0

    async def listen(self, host: str, port: int) -> None:
        """Open the port.  Raises PortError."""
        self._server = await listen(lambda: ClientConnection(self), host, port, "the client port")

    async def close(self) -> None:
        """Stop listening and close every connection."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections.values()):
            connection.close()

    @property
    def port(self) -> int:
        """The port that is listened on (where 0 was asked for)."""
        assert self._server is not None
        number: int = self._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        return number

    def admit(self, host: str) -> bool:
        """Whether another connection from that host is within maxClientCnxns; it counts until `leave`."""
        count = self._per_host.get(host, 0)
        if self._per_host_max and count >= self._per_host_max:
            return False
        self._per_host[host] = count + 1
        return True

    def leave(self, host: str) -> None:
        """A connection from that host is gone."""
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]

    def register(self, connection: ClientConnection) -> ConnectionId:
        """A number for a new connection, never used before."""
        self._next += 1
        connection_id = ConnectionId(self._next)
        self._connections[connection_id] = connection
        self.listener.on_client_connected(connection_id)
        return connection_id

    def forget(self, connection_id: ConnectionId) -> None:
        """A connection broke or was closed by its client."""
        if self._connections.pop(connection_id, None) is not None:
            self.listener.on_client_closed(connection_id)

    def answer(self, connection_id: ConnectionId, message: ServerMessage) -> None:
        """Queue a frame for a client."""
        connection = self._connections.get(connection_id)
        if connection is not None:
            frame = message.encode()
            connection.out.append(pack_int(len(frame)))
            connection.out.append(frame)
            self._unflushed[connection_id] = connection

    def close_connection(self, connection_id: ConnectionId) -> None:
        """Close a connection after what is queued on it; its listener is not told."""
        connection = self._connections.pop(connection_id, None)
        if connection is not None:
            connection.close()

    def flush(self) -> None:
        """Write what was queued in this turn."""
        if self._unflushed:
            connections, self._unflushed = self._unflushed, {}
            for connection in connections.values():
                connection.flush()

    def address(self, connection_id: ConnectionId) -> str:
        """A client's address, for the words that list connections."""
        connection = self._connections.get(connection_id)
        return connection.remote if connection is not None else "unknown"


class ClientConnection(asyncio.Protocol):
    """One client connection."""

    def __init__(self, port: ClientPort) -> None:
        self.out: list[bytes] = []
        self.remote = "unknown"
        self._port = port
        self._host: str | None = None
        self._transport: asyncio.Transport | None = None
        self._id: ConnectionId | None = None
        self._buffer = b""
        self._fresh = True
        self._deadline: asyncio.TimerHandle | None = None
        self._throttled = False
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected; it has to say who it is before it counts."""
        # uvloop's transports are asyncio.Transport in all but name.
        self._transport = transport = cast(asyncio.Transport, transport)
        self.remote = remote_name(transport)
        host = self.remote.rpartition(":")[0]
        if not self._port.admit(host):
            transport.abort()
            return
        self._host = host
        keep_alive(transport)
        self._deadline = asyncio.get_running_loop().call_later(SESSIONLESS_TIMEOUT_S, self.close)

    def data_received(self, data: bytes) -> None:
        """Parse every complete frame and hand them over together."""
        if self._transport is None or self._transport.is_closing():
            return
        buffer = self._buffer + data if self._buffer else data
        if self._fresh and len(buffer) >= 4 and self._is_word(buffer[:4]):
            return
        try:
            messages = self._parse(buffer)
        except MalformedRecord:
            self._hand_over([])
            self.close()
            return
        self._hand_over(messages)

    def _is_word(self, head: bytes) -> bool:
        """Answer a four-letter word, in place of the first frame's length."""
        if not head.isalpha() or not head.islower():
            return False
        answer = self._port.listener.answer_word(head.decode())
        if answer is None or self._transport is None:
            return False
        self._transport.write(answer.encode())
        self.close()
        return True

    def _parse(self, buffer: bytes) -> list[ClientMessage]:
        messages: list[ClientMessage] = []
        pos, end = 0, len(buffer)
        limit = self._port.frame_bytes_max
        while end - pos >= 4:
            size = int.from_bytes(buffer[pos : pos + 4], "big")
            if size > limit:
                # What came complete before it is still served; then the connection ends (the "Len error").
                self._hand_over(messages)
                raise MalformedRecord(f"a frame of {size} bytes")
            stop = pos + 4 + size
            if stop > end:
                break
            frame = buffer[pos + 4 : stop]
            messages.append(self._first(frame) if self._fresh else Request.decode(frame))
            pos = stop
        self._buffer = buffer[pos:]
        return messages

    def _first(self, frame: bytes) -> ConnectRequest:
        request = ConnectRequest.decode(frame)
        self._fresh = False
        if self._deadline is not None:
            self._deadline.cancel()
        self._id = self._port.register(self)
        return request

    def _hand_over(self, messages: list[ClientMessage]) -> None:
        if messages and self._id is not None:
            self._port.listener.on_client_messages(self._id, messages)
            self._throttle()

    def _throttle(self) -> None:
        """A client with very much under way is not read from for a while."""
        if self._transport is None or self._id is None or self._transport.is_closing():
            return
        if not self._throttled and self._port.listener.outstanding(self._id) > OUTSTANDING_HIGH:
            self._throttled = True
            self._transport.pause_reading()

    def flush(self) -> None:
        """Write what is queued."""
        if self._transport is None:
            return
        if self.out:
            self._transport.write(b"".join(self.out))
            self.out.clear()
        if self._throttled and not self._paused and not self._transport.is_closing() and self._has_room():
            self._throttled = False
            self._transport.resume_reading()

    def _has_room(self) -> bool:
        return self._id is not None and self._port.listener.outstanding(self._id) < OUTSTANDING_LOW

    def pause_writing(self) -> None:
        """The client does not read its replies: stop reading its requests."""
        self._paused = True
        if self._transport is not None and not self._throttled:
            self._throttled = True
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._paused = False
        self.flush()

    def close(self) -> None:
        """Close after what is queued."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone."""
        self._transport = None
        if self._deadline is not None:
            self._deadline.cancel()
        if self._host is not None:
            self._port.leave(self._host)
            self._host = None
        if self._id is not None:
            self._port.forget(self._id)
