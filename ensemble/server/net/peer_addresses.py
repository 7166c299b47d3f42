"""Servers with several addresses (multiAddress.enabled): connecting to any address, and listening at each.

Sources: MultipleAddresses, QuorumCnxManager.Listener, Leader.createServerSocket. ZooKeeper checks with a ping whether
an address is reachable, and then connects. Here the connection attempt is the check, so a firewall that drops pings
has no effect.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from zabka.ensemble.runtime.links import LinkFaults
from zabka.ensemble.server.net.peer_security import Listening
from zabka.ensemble.server.net.sockets import PortError

HEAD_START_S = 0.25
"""Delay after which the next address is tried in parallel (RFC 8305)."""


class Answered(NamedTuple):
    """An open connection, and the address that it is connected to."""

    sock: socket.socket
    host: str
    port: int


async def first_to_answer(faults: LinkFaults, addresses: Sequence[tuple[str, int]]) -> Answered:
    """Connect to all addresses of a server, and return the connection that is established first.

    Each address gets a head start over the next one in the list. Raises OSError if none can be reached. Use a timeout
    to limit the wait.
    """
    waiting, asked = deque(addresses), set[asyncio.Task[Answered]]()
    failure: OSError = OSError("no address")
    try:
        while waiting or asked:
            if waiting:
                asked.add(asyncio.create_task(_ask(faults, *waiting.popleft())))
            done, asked = await asyncio.wait(
                asked, timeout=HEAD_START_S if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            answers = []
            for task in done:
                try:
                    answers.append(task.result())
                except OSError as refused:
                    failure = refused
            for late in answers[1:]:
                late.sock.close()
            if answers:
                return answers[0]
        raise failure
    finally:
        for task in asked:
            task.add_done_callback(_drop)
            task.cancel()


async def _ask(faults: LinkFaults, host: str, port: int) -> Answered:
    loop = asyncio.get_running_loop()
    await faults.passable(host, port)
    family, kind, protocol, _, address = (await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return Answered(sock, host, port)


def _drop(task: asyncio.Task[Answered]) -> None:
    """Close a connection that was established too late, after another address had accepted."""
    with suppress(OSError, asyncio.CancelledError):
        task.result().sock.close()


class SeveralPorts:
    """Ports that are opened and closed together."""

    def __init__(self, ports: Sequence[Listening]) -> None:
        self._ports = ports

    def close(self) -> None:
        """Close all ports."""
        for port in self._ports:
            port.close()


async def listen_each(
    addresses: Sequence[tuple[str, int]],
    listen: Callable[[str, int], Awaitable[Listening]],
    warn: Callable[[str], None],
) -> Listening:
    """Listen at every address; call `warn` for an unavailable one, such as an address of a network that is down.

    Raises PortError if none is available.
    """
    ports: list[Listening] = []
    troubles: list[PortError] = []
    for host, port in addresses:
        try:
            ports.append(await listen(host, port))
        except PortError as trouble:
            troubles.append(trouble)
    if not ports:
        raise troubles[0]
    for each in troubles:
        warn(str(each))
    return SeveralPorts(ports)
