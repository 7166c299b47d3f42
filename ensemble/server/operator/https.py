"""HTTPS for the small HTTP server: HTTPS only, or HTTPS and HTTP on one port (UnifiedConnectionFactory)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from zabka.ensemble.server.config.tls import TlsStore
from zabka.ensemble.server.net.tls_listener import TlsListener

HANDSHAKES_MAX = 16
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Https:
    """TLS settings of an HTTP port; `forced` disables plain HTTP.

    `on_plain` is called for each connection without TLS.
    """

    def __init__(self, store: TlsStore, *, forced: bool, on_plain: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._forced = forced
        self._on_plain = on_plain

    async def listen(self, serve: Serve, host: str, port: int, purpose: str, limit: int) -> TlsListener:
        """Listen on host:port; pass every accepted connection to `serve`.

        Raises PortError.
        """
        door = _Door(serve, limit, self._on_plain, plain=not self._forced)
        listener = TlsListener(self._store, door, handshakes_max=HANDSHAKES_MAX, detects_plain=True)
        await listener.listen(host, port, purpose)
        return listener


class _Door:
    """Admission to the HTTPS port: accepts every client, because the HTTP server itself counts connections.

    It does not report failed handshakes, because port scanners cause them.
    """

    def __init__(self, serve: Serve, limit: int, on_plain: Callable[[], None], *, plain: bool) -> None:
        self._serve = serve
        self._limit = limit
        self._on_plain = on_plain
        self._plain = plain

    def admit(self, host: str) -> bool:
        """Allow every client to begin a handshake."""
        return True

    def leave(self, host: str) -> None:
        """Do nothing, because TLS handshakes on this port are not counted."""

    def made(self, host: str) -> asyncio.Protocol:
        """Return the protocol of a connection after its handshake."""
        reader = asyncio.StreamReader(limit=self._limit)
        return asyncio.StreamReaderProtocol(reader, self._serve)

    def made_plain(self, host: str) -> asyncio.Protocol | None:
        """Return the protocol of a connection without TLS, if plain HTTP is enabled."""
        self._on_plain()
        return self.made(host) if self._plain else None

    def on_handshake_failed(self, remote: str, reason: str) -> None:
        """Do nothing."""

    def on_too_many_handshakes(self) -> None:
        """Do nothing."""
