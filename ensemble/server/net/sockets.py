"""Opens listening sockets, and sets the socket options of a server's connections."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from zabka.ensemble.server.net.port_owner import port_trouble

BACKLOG = 1024


class PortError(Exception):
    """A port cannot be opened. The message is one line for the operator."""


async def listen(
    factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, purpose: str
) -> asyncio.AbstractServer:
    """Listen on host:port ("" for all addresses).

    Raises PortError.
    """
    loop = asyncio.get_running_loop()
    try:
        return await loop.create_server(factory, host or None, port, backlog=BACKLOG, reuse_address=True)
    except OSError as bad:
        raise PortError(port_trouble(purpose, host, port, bad)) from None


def keep_alive(transport: asyncio.BaseTransport, unacknowledged_ms: int = 0) -> None:
    """Enable TCP keep-alive, so that the kernel detects a peer that disappeared (power failure, firewall reset).

    While data is unacknowledged, the kernel sends no keep-alive probes, and resends the data for a quarter of an hour.
    With `unacknowledged_ms`, it closes the connection after that time instead.
    """
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # A TCP user timeout replaces the limit on unanswered probes, so several probes must be sent within it.
    idle_s, every_s = (2, 1) if unacknowledged_ms else (10, 5)
    for option, value in (("TCP_KEEPIDLE", idle_s), ("TCP_KEEPINTVL", every_s), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    if unacknowledged_ms and hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unacknowledged_ms)


def remote_name(transport: asyncio.BaseTransport) -> str:
    """Return the other side's address as "host:port", for messages."""
    name = transport.get_extra_info("peername")
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) and len(name) >= 2 else "unknown"
