"""One HTTP request to an issuer of tokens, without blocking the event loop. Does I/O."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import h11

from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.sasl.retries import Unavailable
from zabka.ensemble.server.config.tls_stores import BadStore, Store, kind_of, load_trust

T = TypeVar("T")
BODY_BYTES_MAX = 1 << 20
_READ_BYTES = 65_536


class Request(NamedTuple):
    """An HTTP request. Without `form`, it is a GET; `headers` are sent in addition to those that each request has."""

    url: str
    headers: Mapping[str, str] = {}
    form: bytes | None = None

    def __repr__(self) -> str:
        """Representation without headers and form, which can contain secrets."""
        return f"Request({self.url})"


class Response(NamedTuple):
    """The response to a request. `location` is that of a redirect, which has no body here, or empty."""

    status: int
    location: str
    body: bytes


async def exchange(
    request: Request,
    context: ssl.SSLContext | None,
    connect_s: float | None = None,
    read_s: float | None = None,
) -> Response:
    """Send a request, and return the response. Raises Unavailable.

    `connect_s` limits the time to connect, and `read_s` each wait for data.
    """
    try:
        return await _exchange(request, context, connect_s, read_s)
    except (OSError, h11.ProtocolError, ValueError) as failed:
        raise Unavailable(str(failed) or type(failed).__name__) from None


async def _exchange(
    request: Request, context: ssl.SSLContext | None, connect_s: float | None, read_s: float | None
) -> Response:
    parts = urlsplit(request.url)
    is_secure = parts.scheme == "https"
    opened = asyncio.open_connection(
        parts.hostname, parts.port or (443 if is_secure else 80), ssl=context if is_secure else None
    )
    reader, writer = await _within(opened, connect_s, "no connection")
    try:
        http = h11.Connection(h11.CLIENT)
        headers = {"Host": parts.netloc.rpartition("@")[2], "Connection": "close", **request.headers}
        if request.form is not None:
            headers |= {
                "Content-Type": "application/x-www-form-urlencoded", "Content-Length": str(len(request.form))
            }  # fmt: skip
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        method = "GET" if request.form is None else "POST"
        head = h11.Request(method=method, target=target, headers=list(headers.items()))
        writer.write(http.send(head) or b"")
        writer.write(http.send(h11.Data(data=request.form)) or b"" if request.form else b"")
        writer.write(http.send(h11.EndOfMessage()) or b"")
        return await _response(http, reader, read_s)
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


async def _response(http: h11.Connection, reader: asyncio.StreamReader, read_s: float | None) -> Response:
    body = bytearray()
    status = 0
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await _within(reader.read(_READ_BYTES), read_s, "no response"))
        elif isinstance(event, h11.Response):
            status = event.status_code
            location = dict(event.headers).get(b"location", b"").decode("latin-1")
            if status in (301, 302, 303, 307, 308) and location:
                return Response(status, location, b"")
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > BODY_BYTES_MAX:
                raise Unavailable(f"a response of more than {BODY_BYTES_MAX} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return Response(status, "", bytes(body))
        elif isinstance(event, h11.ConnectionClosed):
            raise Unavailable("the connection was closed before the response")


async def _within(waited: Awaitable[T], limit_s: float | None, what: str) -> T:
    try:
        async with asyncio.timeout(limit_s):
            return await waited
    except TimeoutError:
        if limit_s is None:
            raise
        raise Unavailable(f"{what} within {limit_s:g} s") from None


def trusting(url: str, trust: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return the TLS context for a URL, or None without TLS. Raises ConfigError.

    `trust` has the options of the trust store. Without one, the system's certificate authorities are trusted.
    """
    if not url.startswith("https:"):
        return None
    location = trust.get("ssl.truststore.location", "")
    if not location:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        kind = kind_of(trust.get("ssl.truststore.type", ""), Path(location))
        load_trust(context, Store(Path(location), kind, trust.get("ssl.truststore.password", "")))
    except (BadStore, ValueError) as wrong:
        raise ConfigError(f"ssl.truststore.location={location}: {wrong}") from None
    return context


def read_file(path: Path) -> bytes:
    """Return the content of a file instead of a response. Raises Unavailable, because another try is useless."""
    try:
        with path.open("rb") as file:
            content = file.read(BODY_BYTES_MAX + 1)
    except OSError as failed:
        raise Unavailable(failed.strerror or str(failed), is_final=True) from None
    if len(content) > BODY_BYTES_MAX:
        raise Unavailable(f"a file of more than {BODY_BYTES_MAX} bytes", is_final=True)
    return content
