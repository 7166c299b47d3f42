"""Listening, and the socket options that every connection of a server gets."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable
from typing import Protocol

from ensemble.server.net.port_owner import port_trouble

BACKLOG = 1024
DESCRIPTORS_KEPT = 1100
"""So many, or a quarter of what there are, no connection gets that somebody else opened: more than can be accepted in
one go before the first of them is looked at."""


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


class _Numbered(Protocol):
    def fileno(self) -> int: ...


def may_stay(transport: asyncio.BaseTransport) -> bool:
    """Whether a connection that was accepted leaves room for others' needs: see `leaves_room`."""
    accepted: _Numbered | None = transport.get_extra_info("socket")
    return accepted is None or leaves_room(accepted)


def leaves_room(accepted: _Numbered) -> bool:
    """Whether a socket that was accepted is none of the last descriptors.

    The kernel gives out the lowest number that is free, so a high one says that few are left.  Those are for the log,
    for snapshots and for calls to other servers: a server that has none for these ends.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit == resource.RLIM_INFINITY or accepted.fileno() < limit - min(DESCRIPTORS_KEPT, limit // 4)


def keep_alive(transport: asyncio.BaseTransport, unacknowledged_ms: int = 0) -> None:
    """Let the kernel notice a peer that vanished without a word (cut power, dropped state in a firewall).

    What was sent and is not acknowledged keeps it from asking, and is sent again for a quarter of an hour, unless it is
    to end the connection after `unacknowledged_ms`.
    """
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Where there is a user timeout it stands in for the count of probes: several must fit into it.
    idle_s, every_s = (2, 1) if unacknowledged_ms else (10, 5)
    for option, value in (("TCP_KEEPIDLE", idle_s), ("TCP_KEEPINTVL", every_s), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    if unacknowledged_ms and hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unacknowledged_ms)


def remote_name(transport: asyncio.BaseTransport) -> str:
    """The other side as "host:port", for messages."""
    name = transport.get_extra_info("peername")
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) and len(name) >= 2 else "unknown"
