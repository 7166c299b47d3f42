"""Calls over HTTP/1.1 to one host agent, on connections that are kept: h11 over asyncio's streams.

The API asks each agent several times a second, for ever: what a general client does besides (cookies, redirects,
proxies, content codings) costs five times as much as the calls.
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
"""A host that comes back, perhaps with another address, is looked for anew this often; its kernel takes a connection at
once, however busy the agent is."""
IDLE_CONNECTIONS_MAX = 4
IDLE_S_MAX = 2.0
"""Well below the five seconds after which uvicorn closes: no call is to meet a connection that is just being closed."""


class AgentSilent(Exception):
    """An agent did not answer a call, which it may have carried out."""


class AgentUnreachable(AgentSilent):
    """There was no connection to the agent, so it cannot have heard the call."""


class _Connection:
    """One connection, one call after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)
        self._idle_since_s = 0.0

    @property
    def usable(self) -> bool:
        """Whether it has been idle for a moment only, and was not closed meanwhile."""
        idle_s = asyncio.get_running_loop().time() - self._idle_since_s
        return idle_s < IDLE_S_MAX and not self._reader.at_eof() and not self._writer.is_closing()

    async def call(self, request: h11.Request, body: bytes) -> Answer:
        """Ask, and read the whole answer.  Raises OSError, or h11.ProtocolError for what is no HTTP."""
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
        """Make it ready for the next call; False where the other side wants to close it."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        self._idle_since_s = asyncio.get_running_loop().time()
        return True

    def close(self) -> None:
        self._writer.close()


class AgentHttp:
    """One agent's address and the connections to it; a call that is given up takes its connection with it."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._headers = [("host", parts.netloc), ("authorization", f"Bearer {token}")]
        self._idle: list[_Connection] = []

    async def call(self, method: str, path: str, body: bytes = b"", *, timeout_s: float) -> Answer:
        """Raises AgentUnreachable where there was no connection, AgentSilent where no answer came in time."""
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
        """Close the connections that nobody uses now; a call under way closes its own."""
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()
