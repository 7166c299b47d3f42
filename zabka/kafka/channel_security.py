"""Security of the connections that a channel opens: TLS, names in certificates, and the user of the login."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from zabka.ensemble.server.config.tls import refusal
from zabka.kafka.ports import Endpoint
from zabka.kafka.sasl_login import BearerToken, Credentials, Login, log_in


class ServerSecurity(NamedTuple):
    """Security of connections to one listener.

    `context` returns the TLS context; None means no TLS. With `checks_names`, the server's certificate must contain the
    host to which the connection was opened (`ssl.endpoint.identification.algorithm=https`). Without `credentials`, the
    connection does not authenticate with SASL. `prepare` is awaited before a connection opens, if there is one; it
    raises AuthenticationFailed.
    """

    context: Callable[[], ssl.SSLContext] | None = None
    checks_names: bool = True
    credentials: Credentials | BearerToken | None = None
    prepare: Callable[[], Awaitable[object]] | None = None


_NONE = ServerSecurity()


class ChannelSecurity:
    """Security of all connections of a channel.

    `security_of` returns the security of a server. `nonce` returns unpredictable strings, for SCRAM. `failed` is called
    after a failed handshake or login with the server and the reason.
    """

    def __init__(
        self,
        security_of: Callable[[Endpoint], ServerSecurity],
        nonce: Callable[[], str],
        failed: Callable[[Endpoint, str], object] = lambda to, reason: None,
    ) -> None:
        self._security_of = security_of
        self._nonce = nonce
        self.failed = failed

    def reporting(self, failed: Callable[[Endpoint, str], object]) -> ChannelSecurity:
        """Return this security with another function that is called after a failed handshake or login."""
        return ChannelSecurity(self._security_of, self._nonce, failed)

    async def prepare(self, to: Endpoint) -> None:
        """Obtain the credentials for a connection, if that takes time. Raises AuthenticationFailed."""
        prepare = self._security_of(to).prepare
        if prepare is not None:
            await prepare()

    def context(self, to: Endpoint) -> ssl.SSLContext | None:
        """Return the TLS context for a connection, or None for one without TLS."""
        context = self._security_of(to).context
        return None if context is None else context()

    def refusal(self, to: Endpoint, transport: asyncio.BaseTransport) -> str | None:
        """Return why the server's certificate is not accepted, or None if it is."""
        security = self._security_of(to)
        if security.context is None or not security.checks_names:
            return None
        return refusal(transport, (to.host,))

    def login(self, to: Endpoint) -> Login | None:
        """Return the login for a connection, or None if it needs none."""
        credentials = self._security_of(to).credentials
        return None if credentials is None else log_in(credentials, self._nonce())


PLAIN_TEXT = ChannelSecurity(lambda to: _NONE, str)
"""Connections without TLS and SASL."""
