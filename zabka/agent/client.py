"""HTTP/1.1 calls to one host agent over persistent connections: h11 over asyncio's streams.

The API calls each agent several times a second. A general HTTP client also handles cookies, redirects, proxies and
content codings, which cost five times as much CPU time as the calls themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
from urllib.parse import urlsplit

import h11

from zabka.agent.http_call import Answer

READ_BYTES_MAX = 256 * 1024
ANSWER_BYTES_MAX = 64 * 1024 * 1024
CONNECT_S_MAX = 1.0
"""Connection timeout, and therefore the interval at which the address of a restarted host is resolved again.

The kernel of a running host accepts a connection at once, even if the agent is busy.
"""
IDLE_CONNECTIONS_MAX = 4
IDLE_S_MAX = 2.0
"""Maximum idle time after which a connection is still reused.

It is well below the five seconds after which uvicorn closes an idle connection, so no call uses a connection that the
agent is closing.
"""


class AgentSilent(Exception):
    """An agent did not respond to a call. It may have executed the call."""


class AgentUnreachable(AgentSilent):
    """No connection to the agent could be opened, so the agent cannot have received the call."""


class _Connection:
    """A connection that carries one call at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)
        self._idle_since_s = 0.0

    @property
    def usable(self) -> bool:
        """Return whether the connection is still open and was idle for less than IDLE_S_MAX."""
        idle_s = asyncio.get_running_loop().time() - self._idle_since_s
        return idle_s < IDLE_S_MAX and not self._reader.at_eof() and not self._writer.is_closing()

    async def call(self, request: h11.Request, body: bytes) -> Answer:
        """Send the request and read the whole response. Raises OSError, or h11.ProtocolError for invalid HTTP."""
        sent = self._http.send(request) or b""
        if body:
            sent += self._http.send(h11.Data(data=body)) or b""
        self._writer.write(sent + (self._http.send(h11.EndOfMessage()) or b""))
        await self._writer.drain()
        status, parts, size = 0, [], 0
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(READ_BYTES_MAX))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                size += len(event.data)
                if size > ANSWER_BYTES_MAX:
                    raise h11.RemoteProtocolError(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
                parts.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                return Answer(status, b"".join(parts))
            elif isinstance(event, h11.ConnectionClosed):
                raise ConnectionResetError("it closed the connection")

    def ready(self) -> bool:
        """Prepare the connection for the next call. Return False if the agent is about to close the connection."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        self._idle_since_s = asyncio.get_running_loop().time()
        return True

    def close(self) -> None:
        self._writer.close()


class AgentHttp:
    """One agent's address and the connections to it. A cancelled call closes its connection."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._headers = [("host", parts.netloc), ("authorization", f"Bearer {token}")]
        self._idle: list[_Connection] = []

    async def call(self, method: str, path: str, body: bytes = b"", *, timeout_s: float) -> Answer:
        """Send a request and return the response.

        Raises AgentUnreachable if no connection can be opened, AgentSilent if no response arrives in time.
        """
        began = False
        try:
            async with asyncio.timeout(timeout_s):
                connection = self._kept() or await self._connected()
                began = True
                return await self._ask(connection, method, path, body)
        except (OSError, h11.ProtocolError) as reason:
            raise (AgentSilent if began else AgentUnreachable)(repr(reason)) from None

    async def _connected(self) -> _Connection:
        async with asyncio.timeout(CONNECT_S_MAX):
            return _Connection(*await asyncio.open_connection(self._host, self._port))

    def _kept(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            connection.close()
        return None

    async def _ask(self, connection: _Connection, method: str, path: str, body: bytes) -> Answer:
        length = [("content-length", str(len(body)))] if body else []
        done = False
        try:
            answer = await connection.call(
                h11.Request(method=method, target=path, headers=[*self._headers, *length]), body
            )
            done = connection.ready() and len(self._idle) < IDLE_CONNECTIONS_MAX
        finally:
            if done:
                self._idle.append(connection)
            else:
                connection.close()
        return answer

    def close(self) -> None:
        """Close the idle connections. A call in progress closes its connection when it ends."""
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()
