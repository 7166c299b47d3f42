"""The end of a client's connection, with and without TLS."""

from __future__ import annotations

import asyncio


def disconnect(transport: asyncio.WriteTransport) -> None:
    """Close after the written bytes are sent, without a wait for the other side's close_notify.

    asyncio waits up to 30 s for it. A frozen server would keep the descriptor open for so long, and a program whose
    event loop ends earlier would leak it.
    """
    if transport.is_closing():
        transport.close()
        return
    is_tls = transport.get_extra_info("ssl_object") is not None
    transport.close()
    if is_tls:
        # The call above has sent the bytes and this side's close_notify.
        transport.abort()
