"""TLS port for clients: limits connections before the handshake, and checks certificate names after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from zabka.ensemble.server.config.tls import TlsStore, certificate_of, refusal
from zabka.ensemble.server.net.admission import Admission
from zabka.ensemble.server.net.tls_listener import TlsListener


class SecureEntrance:
    """Implements `Doorkeeper` for the TLS port for clients.

    `connection` creates the protocol of an accepted client; `on_refused` is called with the reason for a rejected one.
    """

    def __init__(
        self,
        admission: Admission,
        store: TlsStore,
        *,
        connection: Callable[[SecureEntrance], asyncio.Protocol],
        on_refused: Callable[[str, str], None],
        accepts_plain: bool,
    ) -> None:
        self._admission = admission
        self._store = store
        self._connection = connection
        self._on_refused = on_refused
        self._accepts_plain = accepts_plain
        self.listener = self._new_listener()

    def _new_listener(self) -> TlsListener:
        handshakes_max = self._admission.limits.handshakes
        return TlsListener(
            self._store, self, handshakes_max=handshakes_max, detects_plain=self._accepts_plain, is_of_few=False
        )

    async def listen(self, host: str, port: int, purpose: str) -> None:
        """Open the port; close the previous one. Raises PortError."""
        self.listener.close()
        self.listener = self._new_listener()
        await self.listener.listen(host, port, purpose)

    def admit(self, host: str) -> bool:
        """Return whether the limits on connections allow another connection."""
        return self._admission.admit(host)

    def leave(self, host: str) -> None:
        """Stop counting a connection, because its TLS handshake failed."""
        self._admission.leave(host)

    def made(self, host: str) -> asyncio.Protocol:
        """Return a protocol for a client that has completed its handshake."""
        return self._connection(self)

    def made_plain(self, host: str) -> asyncio.Protocol | None:
        """Return a protocol for a client without TLS, or None if the port is only for TLS."""
        return self._connection(self) if self._accepts_plain else None

    def refusal(self, transport: asyncio.BaseTransport, host: str) -> str | None:
        """Return why a client's certificate is rejected, or None if it is accepted.

        It is rejected if it has expired or, where names are checked, does not match the client's address.
        """
        if (reason := self._store.outdated(transport)) is not None:
            return reason
        verifies = self._store.settings.verify_client_name and certificate_of(transport) is not None
        return refusal(transport, [host]) if verifies else None

    def on_too_many_handshakes(self) -> None:
        """Count a connection that was rejected because of too many handshakes."""
        self._admission.counts.tls_handshake_exceeded += 1

    def on_handshake_failed(self, remote: str, reason: str) -> None:
        """Count and report a failed handshake."""
        self._admission.counts.unsuccessful_handshake += 1
        self._admission.counts.auth_failed_count += 1
        self._on_refused(remote, reason)
