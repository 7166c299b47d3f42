"""A small HTTP/1.1 server for operators: one request per connection, with limits on size and time.

Web pages of other sites cannot use it through a visitor's browser: a request is rejected if its Host header is another
host's name, or if another site's page sent it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import msgspec

from zabka.ensemble.runtime.descriptors import may_stay
from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.runtime.workers import THREADS, Workers
from zabka.ensemble.server.config.tls import certificate_of
from zabka.ensemble.server.net.port_owner import port_trouble
from zabka.ensemble.server.net.sockets import PortError, remote_name
from zabka.ensemble.server.net.tls_listener import TlsListener
from zabka.ensemble.server.operator.http_body import Body
from zabka.ensemble.server.operator.https import Https

HEAD_BYTES_MAX = 16 * 1024
REQUEST_TIMEOUT_S = 10.0
PART_BYTES = 256 * 1024
CONNECTIONS_MAX = 32
_METHODS = ("GET", "HEAD", "POST")
_JSON = "application/json"


class BadRequest(Exception):
    """A request that is rejected. Contains the HTTP status and a one-line message."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class HttpRequest(msgspec.Struct, frozen=True):
    """An HTTP request.

    Header names are in lower case. `remote` is the source address, `certificate` the client's certificate (DER).
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Body | None = None
    remote: str = ""
    certificate: bytes | None = None


class HttpResponse(msgspec.Struct, frozen=True):
    """An HTTP response. Its body is the content of `file`, if set. `then` is called after it was sent."""

    body: bytes
    status: int = 200
    content_type: str = _JSON
    headers: Mapping[str, str] = {}
    file: Path | None = None
    then: Callable[[], None] | None = None


Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]
Failure = Callable[[str, BaseException], None]


class HttpPort:
    """One listening port. `handler` responds to the requests that pass the port's checks."""

    def __init__(
        self,
        handler: Handler,
        on_failure: Failure,
        https: Https | None = None,
        *,
        files: Files = HOST,
        workers: Workers = THREADS,
    ) -> None:
        self._handler = handler
        self._on_failure = on_failure
        self._https = https
        self._files = files
        self._workers = workers
        self._server: asyncio.AbstractServer | TlsListener | None = None
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._names: frozenset[str] = frozenset()

    async def listen(self, host: str, port: int, purpose: str) -> int:
        """Open the port; return its number, which the system chooses if `port` is 0.

        Raises PortError.
        """
        own_names = ("localhost", host, socket.gethostname(), socket.getfqdn() if host not in _LOOPBACKS else host)
        self._names = frozenset(name.lower() for name in own_names)
        if self._https is not None:
            listener = await self._https.listen(self._serve, host, port, purpose, HEAD_BYTES_MAX)
            self._server = listener
            return listener.port
        try:
            self._server = await asyncio.start_server(self._serve, host or None, port, limit=HEAD_BYTES_MAX)
        except OSError as bad:
            raise PortError(port_trouble(purpose, host, port, bad)) from None
        number: int = self._server.sockets[0].getsockname()[1]
        return number

    async def close(self) -> None:
        """Stop listening, and close open connections."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers.values()):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._writers) >= CONNECTIONS_MAX or not may_stay(writer.transport, is_of_few=True):
            writer.close()
            return
        self._writers[id(writer)] = writer
        try:
            response, request = await self._answer(reader, writer)
            try:
                await self._write(writer, response, request is not None and request.method == "HEAD")
                if request is not None and request.body is not None:
                    await request.body.discard()
            finally:
                if response.then is not None:
                    response.then()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            # The client disconnected, or sent its request too slowly.
            return
        except Exception as bug:
            self._on_failure("the http port", bug)
        finally:
            del self._writers[id(writer)]
            writer.close()

    async def _write(self, writer: asyncio.StreamWriter, response: HttpResponse, head_only: bool) -> None:
        if response.file is None:
            await _send(writer, _head(response, len(response.body)) + (b"" if head_only else response.body))
            return
        files, workers = self._files, self._workers
        with await workers.call(files.stream, response.file, "rb") as file:
            await _send(writer, _head(response, files.fstat(file.fileno()).st_size))
            while not head_only and (part := await workers.call(file.read, PART_BYTES)):
                await _send(writer, part)

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[HttpResponse, HttpRequest | None]:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            request = parse_head(head)
            self._check_origin(request)
            request = msgspec.structs.replace(
                request,
                body=_body(request.headers, reader, writer),
                remote=remote_name(writer.transport).rpartition(":")[0],
                certificate=certificate_of(writer.transport),
            )
        except asyncio.LimitOverrunError:
            return _refusal(431, f"a request's head may have {HEAD_BYTES_MAX} bytes"), None
        except BadRequest as bad:
            return _refusal(bad.status, str(bad)), None
        return await self._handler(request), request

    def _check_origin(self, request: HttpRequest) -> None:
        host = request.headers.get("host", "")
        name = _name_of(f"//{host}")
        if not self._is_own(name):
            raise BadRequest(403, f"this server does not answer for the host {host[:100]!r}")
        origin = request.headers.get("origin")
        foreign = origin is not None and _name_of(origin) != name
        if foreign or request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise BadRequest(403, "pages of other sites may not ask this server")

    def _is_own(self, name: str) -> bool:
        """Return whether the name in a Host header is one of this server's names or an IP address.

        An IP address is safe, because no foreign name server can make it point to this server.
        """
        if name in self._names:
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True


_LOOPBACKS = ("127.0.0.1", "::1", "localhost")


def parse_head(head: bytes) -> HttpRequest:
    """Parse a request's head (request line and headers). Raises BadRequest."""
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadRequest(400, "this is no HTTP/1.1 request")
    method, target, _ = parts
    if method not in _METHODS:
        raise BadRequest(405, f"{method[:20]} is not one of {', '.join(_METHODS)}")
    headers: dict[str, str] = {}
    for line in filter(None, lines):
        name, colon, value = line.partition(":")
        if not colon or name != name.strip():
            raise BadRequest(400, "a header is malformed")
        headers[name.lower()] = value.strip()
    try:
        url = urlsplit(target)
    except ValueError:
        raise BadRequest(400, "the request's target is malformed") from None
    return HttpRequest(method, url.path, dict(parse_qsl(url.query, keep_blank_values=True)), headers)


def _body(headers: Mapping[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Body | None:
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers:
        raise BadRequest(411, "a body needs a Content-Length here")
    if not (length.isascii() and length.isdigit() and len(length) < 16):
        raise BadRequest(400, "the Content-Length is malformed")
    waits = headers.get("expect", "").lower() == "100-continue"
    return Body(reader, writer, int(length), waits=waits) if int(length) else None


def _name_of(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _refusal(status: int, reason: str) -> HttpResponse:
    return HttpResponse(msgspec.json.encode({"error": reason}) + b"\n", status)


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    async with asyncio.timeout(REQUEST_TIMEOUT_S):
        await writer.drain()


def _head(response: HttpResponse, size: int) -> bytes:
    try:
        phrase = HTTPStatus(response.status).phrase
    except ValueError:
        phrase = "Status"
    headers = {
        "Content-Type": response.content_type,
        "Content-Length": str(size),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
        **response.headers,
    }
    lines = [f"HTTP/1.1 {response.status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
