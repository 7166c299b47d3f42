"""TLS on the connections of a test's programs: asyncio's own TLS protocol over the simulated transports.

OpenSSL uses the host's random numbers for its keys, so the bytes of such a connection differ between two runs of a
seed. The number of bytes is the same, except with ECDSA, whose signatures vary in length by a few bytes.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from typing import Any, NamedTuple


class Tls(NamedTuple):
    """The TLS parameters of asyncio methods such as `create_connection`."""

    context: ssl.SSLContext | bool
    server_hostname: str | None = None
    handshake_timeout_s: float | None = None
    shutdown_timeout_s: float | None = None

    def protocol(
        self, loop: asyncio.AbstractEventLoop, inner: asyncio.BaseProtocol, waiter: asyncio.Future[None] | None, *,
        is_server: bool, is_new: bool = True,
    ) -> Any:  # fmt: skip
        """Return the protocol that encrypts the connection of the protocol `inner`; the handshake completes `waiter`.

        If `is_new`, `connection_made` of `inner` is called after the handshake; with start_tls, it was called before.
        """
        context = ssl.create_default_context() if self.context is True else self.context
        made: Callable[..., Any] = SSLProtocol
        return made(
            loop, inner, context, waiter, server_side=is_server, server_hostname=self.server_hostname,
            call_connection_made=is_new, ssl_handshake_timeout=self.handshake_timeout_s,
            ssl_shutdown_timeout=self.shutdown_timeout_s,
        )  # fmt: skip
