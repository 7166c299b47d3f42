"""Listening, and the socket options that every connection of a server gets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from ensemble.server.net.port_owner import port_trouble

BACKLOG = 1024


class PortError(Exception):
    """A port cannot be listened on; one clear line for the operator."""


async def listen(
    factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, purpose: str
) -> asyncio.AbstractServer:
    """Listen on host:port ("" for every address).  Raises PortError."""
    loop = asyncio.get_running_loop()
    try:
        return await loop.create_server(factory, host or None, port, backlog=BACKLOG, reuse_address=True)
    except OSError as bad:
        raise PortError(port_trouble(purpose, host, port, bad)) from None


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Let the kernel notice a peer that vanished without a word (cut power, dropped state in a firewall)."""
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def remote_name(transport: asyncio.BaseTransport) -> str:
    """The other side as "host:port", for messages."""
    name = transport.get_extra_info("peername")
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) and len(name) >= 2 else "unknown"
