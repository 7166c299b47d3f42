"""Resource limits for HTTP servers: body sizes, connections, and the time to send a request or read a response.

uvicorn limits only the size of a request's headers, not the body size, the request time or the idle time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from zabka.agent.problem_document import MEDIA_TYPE, document

BODY_BYTES_MAX = 1024 * 1024
"""Limit of a request body.

The largest valid body, a topic with an explicit assignment of thousands of partitions, is far below it.
"""
REQUEST_S = 15.0
"""Maximum time in which a whole request, including its body, must arrive.

On a new connection the time starts when the connection is accepted; on a reused connection, at the first byte of the
request.
"""
LARGE_AT_ONCE = 8
"""Maximum number of simultaneous bodies above BODY_BYTES_MAX, on paths that accept them.

Each such body is in memory twice.
"""
STALLED_S = 120.0
"""Time after which a client that does not read its response is disconnected.

Up to 40 MB of a long response are buffered for such a client. Progress of the client is detected about a megabyte late,
because the kernel buffers that much.
"""
CONNECTIONS_MAX = 512
"""Maximum number of connections, including event streams.

Half of the usual limit of 1,024 file descriptors per process.
"""


def _refusal(status: int, detail: str, path: str) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Return the headers and the body of a problem document; the headers close the connection after the response."""
    body = json.dumps(document(status, detail, path)).encode()
    length = str(len(body)).encode()
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", length), (b"connection", b"close")]
    return headers, body


def _full() -> bytes:
    """Return the 503 response for a connection beyond CONNECTIONS_MAX.

    Its request is not read, so the problem document has no path.
    """
    headers, body = _refusal(503, "there are too many connections; try again later", "")
    lines = (b"%b: %b" % header for header in headers)
    return b"\r\n".join([b"HTTP/1.1 503 Service Unavailable", *lines, b"", body])


class BoundedConnection(H11Protocol):
    """A connection to one of this project's servers, with limits on time and size (`uvicorn.Config(http=…)`)."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._turned_away = False
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, or respond with 503 and close it if there are already CONNECTIONS_MAX."""
        if len(self.connections) >= CONNECTIONS_MAX:
            self._turned_away = True
            transport.write(_full())
            transport.close()
            return
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """Receive data. Start the timeout of a request at its first byte."""
        if self._turned_away:
            return
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._await_request()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers of the connection."""
        self._stop_waiting()
        self._stop_watching()
        if not self._turned_away:
            super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the timer that disconnects a client that does not read, because the write buffer is full."""
        super().pause_writing()
        self._watch(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Stop the timer that `pause_writing` started, because the client has read almost everything."""
        self._stop_watching()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Reject invalid HTTP with a problem document. The path of the request is unknown."""
        headers, body = _refusal(400, msg, "")
        answer = (h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage())
        self.transport.write(b"".join(self.conn.send(part) or b"" for part in answer))
        self.transport.close()

    def _watch(self, left: int) -> None:
        self._stalled = self.loop.call_later(STALLED_S, self._look_whether_taken, left)

    def _stop_watching(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _look_whether_taken(self, before: int) -> None:
        # Writing is paused, so no data was added to the buffer: if it is smaller than before, the client has read some
        # of it.
        left = self.transport.get_write_buffer_size()
        if left < before:
            self._watch(left)
        else:
            self.transport.abort()

    def _await_request(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_S, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        self.transport.abort()


class BodyLimit:
    """ASGI middleware that reads the whole body of a request before it calls the application.

    Returns 413 if the body is too large. `larger` maps paths to larger limits.
    """

    def __init__(self, app: ASGIApp, bytes_max: int = BODY_BYTES_MAX, larger: Mapping[str, int] | None = None) -> None:
        self._app = app
        self._bytes_max = bytes_max
        self._larger = dict(larger or {})
        self._large_ones = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, then call the application with it."""
        headers = dict(scope.get("headers", ()))
        if scope["type"] != "http" or not (b"content-length" in headers or b"transfer-encoding" in headers):
            await self._app(scope, receive, send)
            return
        bytes_max = self._larger.get(scope["path"], self._bytes_max)
        # A chunked body can have any size, so assume the largest allowed size, even if there is a content-length. h11
        # rejects an invalid content-length.
        length = bytes_max if b"transfer-encoding" in headers else int(headers[b"content-length"])
        if length > bytes_max:
            await self._refuse(scope, send, 413, f"a body can have at most {bytes_max} bytes")
        elif length <= self._bytes_max:
            await self._pass_on(scope, receive, send, bytes_max)
        elif self._large_ones == LARGE_AT_ONCE:
            await self._refuse(scope, send, 503, f"{LARGE_AT_ONCE} large bodies are being read; try again in a moment")
        else:
            self._large_ones += 1
            try:
                await self._pass_on(scope, receive, send, bytes_max)
            finally:
                self._large_ones -= 1

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, bytes_max: int) -> None:
        body = await self._read(receive, bytes_max)
        if body is None:
            await self._refuse(scope, send, 413, f"a body can have at most {bytes_max} bytes")
            return
        left: list[Message] = [body]

        async def again() -> Message:
            return left.pop() if left else await receive()

        await self._app(scope, again, send)

    async def _read(self, receive: Receive, bytes_max: int) -> Message | None:
        """Return the whole body as one message, or the disconnect message; None if the body is too large."""
        read = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return message
            read += message.get("body", b"")
            if len(read) > bytes_max:
                return None
            if not message.get("more_body", False):
                return {"type": "http.request", "body": bytes(read), "more_body": False}

    async def _refuse(self, scope: Scope, send: Send, status: int, detail: str) -> None:
        # Do not read the rest of the body, because the connection is closed after the response.
        headers, body = _refusal(status, detail, scope["path"])
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
