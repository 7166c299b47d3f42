"""TLS on the connections of a test's programs: asyncio's own, over the simulated transports.

OpenSSL draws its keys from the host, so the bytes of such a connection differ between two runs of a seed. The
number of bytes does not differ, except with ECDSA, whose signatures vary in length by a few bytes.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from typing import Any, NamedTuple


class Tls(NamedTuple):
    """The TLS parameters of asyncio's calls."""

    context: ssl.SSLContext | bool
    server_hostname: str | None = None
    handshake_timeout_s: float | None = None
    shutdown_timeout_s: float | None = None

    def protocol(
        self, loop: asyncio.AbstractEventLoop, inner: asyncio.BaseProtocol, waiter: asyncio.Future[None] | None, *,
        is_server: bool, is_new: bool = True,
    ) -> Any:  # fmt: skip
        """Return the protocol that encrypts the connection of `inner`; `waiter` ends with the handshake.

        `is_new` is whether `inner` is not connected yet.
        """
        context = ssl.create_default_context() if self.context is True else self.context
        made: Callable[..., Any] = SSLProtocol
        return made(
            loop, inner, context, waiter, server_side=is_server, server_hostname=self.server_hostname,
            call_connection_made=is_new, ssl_handshake_timeout=self.handshake_timeout_s,
            ssl_shutdown_timeout=self.shutdown_timeout_s,
        )  # fmt: skip
