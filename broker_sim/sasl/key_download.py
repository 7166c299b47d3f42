"""Reads the issuer's keys from a file or over HTTP, without blocking the event loop. Does I/O."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import h11

from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.oauth_keys import SignedTokenKeys
from zabka.broker_sim.sasl.key_endpoint import KeysUnavailable
from zabka.ensemble.server.config.tls_stores import BadStore, Store, kind_of, load_trust

KEYS_BYTES_MAX = 1 << 20
DOWNLOAD_S_MAX = 20.0
REDIRECTS_MAX = 5
_READ_BYTES = 65_536


class KeyDownload:
    """Reads the keys of one listener. Raises ConfigError if the trust store cannot be used."""

    def __init__(self, keys: SignedTokenKeys, limit_s: float = DOWNLOAD_S_MAX) -> None:
        self._keys = keys
        self._limit_s = limit_s
        self._context = _context(keys) if keys.url.startswith("https:") else None

    async def read(self) -> bytes:
        """Return the content of the key set. Raises KeysUnavailable."""
        if self._keys.file:
            return _file(Path(self._keys.file))
        try:
            async with asyncio.timeout(self._limit_s):
                return await self._follow(self._keys.url)
        except TimeoutError:
            raise KeysUnavailable(f"no complete response within {self._limit_s:g} s") from None
        except (OSError, h11.ProtocolError, ValueError) as failed:
            raise KeysUnavailable(str(failed) or type(failed).__name__) from None

    async def _follow(self, url: str) -> bytes:
        """Follow redirects with the same protocol, as Java does."""
        for _ in range(REDIRECTS_MAX):
            location, body = await self._get(url)
            if not location:
                return body
            target = urljoin(url, location)
            if urlsplit(target).scheme != urlsplit(url).scheme:
                raise KeysUnavailable("a redirect to another protocol")
            url = target
        raise KeysUnavailable(f"more than {REDIRECTS_MAX} redirects")

    async def _get(self, url: str) -> tuple[str, bytes]:
        """Send one request. Return the location of a redirect, or an empty string and the body."""
        parts = urlsplit(url)
        is_secure = parts.scheme == "https"
        reader, writer = await asyncio.open_connection(
            parts.hostname, parts.port or (443 if is_secure else 80), ssl=self._context if is_secure else None
        )
        try:
            http = h11.Connection(h11.CLIENT)
            headers = [("Host", parts.netloc), ("Accept", "application/json, */*"), ("Connection", "close")]
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            writer.write(http.send(h11.Request(method="GET", target=target, headers=headers)) or b"")
            writer.write(http.send(h11.EndOfMessage()) or b"")
            return await _response(http, reader)
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)


async def _response(http: h11.Connection, reader: asyncio.StreamReader) -> tuple[str, bytes]:
    body = bytearray()
    location = ""
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            location = dict(event.headers).get(b"location", b"").decode("latin-1")
            is_redirect = event.status_code in (301, 302, 303, 307, 308) and bool(location)
            if is_redirect:
                return location, b""
            if event.status_code != 200:
                raise KeysUnavailable(f"HTTP status {event.status_code}")
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > KEYS_BYTES_MAX:
                raise KeysUnavailable(f"a key set of more than {KEYS_BYTES_MAX} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return "", bytes(body)
        elif isinstance(event, h11.ConnectionClosed):
            raise KeysUnavailable("the connection was closed before the response")


def _file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            text = file.read(KEYS_BYTES_MAX + 1)
    except OSError as failed:
        raise KeysUnavailable(failed.strerror or str(failed)) from None
    if len(text) > KEYS_BYTES_MAX:
        raise KeysUnavailable(f"a key set of more than {KEYS_BYTES_MAX} bytes")
    return text


def _context(keys: SignedTokenKeys) -> ssl.SSLContext:
    """Return the TLS context of the endpoint's connections. Raises ConfigError."""
    location = keys.trust.get("ssl.truststore.location", "")
    if not location:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        kind = kind_of(keys.trust.get("ssl.truststore.type", ""), Path(location))
        load_trust(context, Store(Path(location), kind, keys.trust.get("ssl.truststore.password", "")))
    except (BadStore, ValueError) as wrong:
        raise ConfigError(f"ssl.truststore.location={location}: {wrong}") from None
    return context
