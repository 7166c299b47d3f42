"""TLS between servers: on the quorum and election ports, both sides present certificates.

Sources: QuorumX509Util, UnifiedServerSocket. If names are verified, the certificate of the server that accepts a
connection must match the host that the other side connected to. The certificate of the server that connects must match
its address or the host of a member of this ensemble (ZooKeeper uses reverse DNS instead).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from typing import Protocol

from zabka.ensemble.server.config.limits import HANDSHAKES_MAX
from zabka.ensemble.server.config.tls import TlsStore, certificate_of, refusal
from zabka.ensemble.server.net.sockets import listen, remote_name
from zabka.ensemble.server.net.tls_listener import TlsListener

Report = Callable[[str, str], None]
"""Callback (remote, reason) for a rejected connection."""


class Listening(Protocol):
    """Interface of an open port."""

    def close(self) -> None: ...


class PeerSecurity:
    """TLS for connections between servers.

    `dials` (sslQuorum): this server uses TLS on the connections that it opens. `accepts_plain` (portUnification): it
    also accepts connections without TLS.
    """

    def __init__(self, store: TlsStore, *, dials: bool, accepts_plain: bool) -> None:
        self.store = store
        self.accepts_plain = accepts_plain
        self._dials = dials

    @property
    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context for connections that this side opens, or None if they do not use TLS."""
        return self.store.client_context() if self._dials else None

    def refusal_of_called(self, transport: asyncio.BaseTransport, hosts: Iterable[str]) -> str | None:
        """Return why the certificate of the server to which this server connected is rejected.

        Return None if the certificate matches one of `hosts`.
        """
        if not self._dials:
            return None
        if (reason := self.store.outdated(transport)) is not None or not self.store.settings.verify_server_name:
            return reason
        return refusal(transport, (*hosts, _address(transport)))

    def refusal_of_caller(self, transport: asyncio.BaseTransport, members: Iterable[str]) -> str | None:
        """Return why the connecting server's certificate is rejected, or None if it is accepted or not required."""
        settings = self.store.settings
        plain = transport.get_extra_info("ssl_object") is None
        # If client certificates are optional, the connecting server may have sent none.
        anonymous = settings.client_auth != "need" and certificate_of(transport) is None
        if plain or anonymous:
            return None
        if (reason := self.store.outdated(transport)) is not None or not settings.verify_client_name:
            return reason
        return refusal(transport, (_address(transport), *dict.fromkeys(members)))


async def open_port(
    security: PeerSecurity | None,
    factory: Callable[[], asyncio.Protocol],
    host: str,
    port: int,
    purpose: str,
    report: Report,
) -> Listening:
    """Open a port for other servers, with TLS if `security` is given.  Raises PortError."""
    if security is None:
        return await listen(factory, host, port, purpose)
    listener = TlsListener(
        security.store,
        _Door(factory, purpose, report, accepts_plain=security.accepts_plain),
        handshakes_max=HANDSHAKES_MAX,
        detects_plain=True,
    )
    await listener.listen(host, port, purpose)
    return listener


def tls_problem(failed: BaseException) -> str | None:
    """Return the reason if `failed` is a failed TLS handshake of a connection that this side opened, otherwise None."""
    if isinstance(failed, ssl.SSLCertVerificationError):
        return f"its certificate was refused: {failed.verify_message}"
    return f"TLS handshake: {failed.reason or failed}" if isinstance(failed, ssl.SSLError) else None


def _address(transport: asyncio.BaseTransport) -> str:
    return remote_name(transport).rpartition(":")[0]


class _Door:
    """Implements `Doorkeeper` for a port that other servers use: every server may begin a TLS handshake."""

    def __init__(
        self, factory: Callable[[], asyncio.Protocol], purpose: str, report: Report, *, accepts_plain: bool
    ) -> None:
        self._factory = factory
        self._purpose = purpose
        self._report = report
        self._accepts_plain = accepts_plain

    def admit(self, host: str) -> bool:
        """Allow every server to begin a handshake."""
        return True

    def leave(self, host: str) -> None:
        """Do nothing, because TLS handshakes between servers are not counted."""

    def made(self, host: str) -> asyncio.Protocol:
        """Return the protocol that handles a connection after its TLS handshake."""
        return self._factory()

    def made_plain(self, host: str) -> asyncio.Protocol | None:
        """Return the protocol of a connection without TLS, if such connections are allowed."""
        return self._factory() if self._accepts_plain else None

    def on_handshake_failed(self, remote: str, reason: str) -> None:
        """Report the failed handshake."""
        self._report(remote, f"{self._purpose}: {reason}")

    def on_too_many_handshakes(self) -> None:
        """Report that there are too many handshakes."""
        self._report("several", f"{self._purpose}: more than {HANDSHAKES_MAX} handshakes at once")
