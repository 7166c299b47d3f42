"""A listening port whose connections begin with a TLS handshake.

Each handshake is a separate task with a time limit, so that a stalled handshake does not delay others. A client that is
not allowed to connect is rejected before its handshake (NettyServerCnxnFactory, UnifiedServerSocket).
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from functools import partial
from typing import Protocol

from zabka.ensemble.runtime.descriptors import leaves_room
from zabka.ensemble.runtime.supervisor import report_task_failure
from zabka.ensemble.server.config.tls import TlsStore
from zabka.ensemble.server.net.port_owner import port_trouble
from zabka.ensemble.server.net.sockets import BACKLOG, PortError

ACCEPT_PAUSE_S = 0.2
"""Pause after a connection could not be accepted, because too many files were open."""
SHUTDOWN_TIMEOUT_S = 5.0
RECORD_HANDSHAKE = 0x16


class Doorkeeper(Protocol):
    """Interface that decides which connections a TLS port accepts, before and after their handshakes."""

    def admit(self, host: str) -> bool:
        """Return whether a connection from that address can begin its handshake."""
        ...

    def leave(self, host: str) -> None:
        """Handle the failed handshake of an admitted connection."""
        ...

    def made(self, host: str) -> asyncio.Protocol:
        """Return a protocol for a connection that has completed its handshake."""
        ...

    def made_plain(self, host: str) -> asyncio.Protocol | None:
        """Return a protocol for a connection without TLS, or None if such connections are not allowed."""
        ...

    def on_handshake_failed(self, remote: str, reason: str) -> None: ...
    def on_too_many_handshakes(self) -> None: ...


class TlsListener:
    """Listening sockets, a task for each socket that accepts connections, and the handshakes in progress."""

    def __init__(
        self,
        store: TlsStore,
        keeper: Doorkeeper,
        *,
        handshakes_max: int,
        detects_plain: bool,
        is_of_few: bool = True,
        per_host_max: int = 0,
    ) -> None:
        """Create the port.

        `is_of_few` is set for a port for servers or operators, which can use more of the file descriptors (see
        `leaves_room`). `per_host_max` limits the handshakes of one address; 0 is no limit.
        """
        self._store = store
        self._is_of_few = is_of_few
        self._keeper = keeper
        self._handshakes_max = handshakes_max
        self._detects_plain = detects_plain
        self._per_host_max = per_host_max or handshakes_max
        self._hosts: Counter[str] = Counter()
        """Number of TLS handshakes in progress, keyed by the client's address."""
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._welcoming: dict[asyncio.Task[None], socket.socket] = {}

    async def listen(self, host: str, port: int, purpose: str) -> None:
        """Listen on host:port ("" for all addresses).

        Raises PortError.
        """
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, address in {(entry[0], entry[4]): None for entry in found}:
                listening = _listening(family, address)
                if listening is not None:
                    self._sockets.append(listening)
        except OSError as bad:
            self.close()
            raise PortError(port_trouble(purpose, host, port, bad)) from None
        self._accepting = [
            loop.create_task(self._accept(listening), name=f"accept {purpose}") for listening in self._sockets
        ]
        for task in self._accepting:
            report_task_failure(task)

    @property
    def port(self) -> int:
        """The actual port number, even if port 0 was configured."""
        number: int = self._sockets[0].getsockname()[1]
        return number

    @property
    def handshakes(self) -> int:
        """Number of handshakes in progress."""
        return len(self._welcoming)

    def use(self, store: TlsStore) -> None:
        """Use this store for all handshakes from now on. Open connections are not affected."""
        self._store = store

    def close(self) -> None:
        """Stop listening, and cancel handshakes in progress."""
        for task in (*self._accepting, *self._welcoming):
            task.cancel()
        for listening in self._sockets:
            listening.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            host = address[0]
            if len(self._welcoming) >= self._handshakes_max or self._hosts[host] >= self._per_host_max:
                self._keeper.on_too_many_handshakes()
                accepted.close()
            elif not (leaves_room(accepted, is_of_few=self._is_of_few) and self._keeper.admit(host)):
                accepted.close()
            else:
                task = loop.create_task(self._welcome(accepted, host, f"{host}:{address[1]}"))
                self._welcoming[task] = accepted
                self._hosts[host] += 1
                task.add_done_callback(partial(self._welcomed, host))

    def _welcomed(self, host: str, task: asyncio.Task[None]) -> None:
        del self._welcoming[task]
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]

    async def _welcome(self, accepted: socket.socket, host: str, remote: str) -> None:
        """Run the TLS handshake of an accepted connection.

        The time limit includes the wait for the first byte, which shows whether the client uses TLS.
        """
        loop = asyncio.get_running_loop()
        timeout_s = self._store.settings.handshake_timeout_ms / 1000
        protocol: asyncio.Protocol | None = None
        try:
            accepted.setblocking(False)
            if self._detects_plain and await self._is_plain(accepted, timeout_s):
                plain = self._keeper.made_plain(host)
                if plain is None:
                    sent = accepted.recv(1, socket.MSG_PEEK)
                    raise ConnectionAbortedError("no TLS handshake" if sent else "closed before the TLS handshake")
                protocol = plain
                await loop.connect_accepted_socket(lambda: plain, accepted)
                return
            secured = self._keeper.made(host)
            await loop.connect_accepted_socket(
                lambda: secured,
                accepted,
                ssl=self._store.server_context(),
                ssl_handshake_timeout=timeout_s,
                ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
            )
            protocol = secured
        except (OSError, TimeoutError) as failed:
            self._keeper.on_handshake_failed(remote, str(failed) or type(failed).__name__)
        finally:
            if protocol is None:
                self._keeper.leave(host)
                accepted.close()

    @staticmethod
    async def _is_plain(accepted: socket.socket, timeout_s: float) -> bool:
        """Return whether a connection begins without TLS. Only look at its first byte, which stays in the socket."""
        loop = asyncio.get_running_loop()
        readable: asyncio.Future[None] = loop.create_future()
        loop.add_reader(accepted.fileno(), _settle, readable)
        try:
            async with asyncio.timeout(timeout_s):
                await readable
        except TimeoutError:
            raise TimeoutError(f"no TLS handshake within {timeout_s:g} s") from None
        finally:
            loop.remove_reader(accepted.fileno())
        first = accepted.recv(1, socket.MSG_PEEK)
        return not first or first[0] != RECORD_HANDSHAKE


def _settle(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)


def _listening(family: int, address: tuple[object, ...]) -> socket.socket | None:
    try:
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        return None  # the kernel may not support this address family
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
