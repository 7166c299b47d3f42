"""Stream sockets of a test's own programs: in a simulated program, `socket.socket` returns a SimulatedSocket.

A program uses it with the methods of the event loop (`loop.sock_connect`, `sock_accept`, `sock_recv`, `sock_sendall`),
or hands it over to a transport (`create_connection(sock=…)`) or to a server (`create_server(sock=…)`).  Python's own
methods that can block, such as `recv`, raise NotSimulated, even if the socket is non-blocking.

The differences from sockets of Linux:

- All machines have one IPv4 address.  A socket of the family AF_INET6 uses it in IPv4-mapped form (::ffff:10.0.0.1).
- A socket that the program neither closes nor hands over stays open until the program ends, even without references.
- Options are stored and have no effect, except SO_KEEPALIVE, and SO_LINGER with a time of 0, which makes `close` reset
  the connection.
- Faults on messages (`zabka.simulation.faults.message_faults`) do not affect bytes that `sock_sendall` writes.
"""

from __future__ import annotations

import asyncio
import errno
import socket as real
import struct
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, cast

from zabka.simulation.engine.refusal import not_simulated
from zabka.simulation.engine.tcp import RECEIVE_BUFFER, SEND_BUFFER, Listener, Socket, os_error
from zabka.simulation.engine.transports import Owner, SocketTransport

OWN_ADDRESSES = {real.AF_INET: "0.0.0.0", real.AF_INET6: "::"}
"""The address that stands for all addresses of the machine, keyed by address family."""
_MAPPED = "::ffff:"
"""Prefix of an IPv4 address in IPv6 notation."""
_TYPE_FLAGS = getattr(real, "SOCK_NONBLOCK", 0) | getattr(real, "SOCK_CLOEXEC", 0)
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)
_ONLY_TCP = "only TCP is simulated: use AF_INET or AF_INET6 with SOCK_STREAM"
_READ, _WRITE = "use loop.sock_recv", "use loop.sock_sendall"
_REFUSED = {
    "accept": "use loop.sock_accept",
    "connect": "use loop.sock_connect",
    "connect_ex": "use loop.sock_connect",
    **dict.fromkeys(("recv", "recv_into", "recvfrom", "recvfrom_into", "recvmsg", "recvmsg_into"), _READ),
    **dict.fromkeys(("send", "sendall", "sendto", "sendmsg", "sendmsg_afalg", "sendfile"), _WRITE),
    "makefile": "use asyncio.open_connection(sock=…)",
    "dup": "use the socket itself",
}
"""Methods that a world cannot simulate, each with the alternative that the error message names."""


class SocketLoop(Owner, Protocol):
    """The event loop of a program that opens sockets."""

    def address_of(self, host: str | bytes | None) -> str:
        """Return the address of the machine with that name.  Raises gaierror."""
        ...

    def new_descriptor(self) -> int:
        """Return a number that no other socket of the program has."""
        ...


class SimulatedSocket(real.socket):
    """A TCP socket of a simulated program."""

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:
        # Do not call the base class, which opens a socket of the host.
        if fileno is not None:
            raise not_simulated("socket.socket(fileno=…)", "open a socket with socket.socket()")
        type = real.SOCK_STREAM if type == -1 else type
        self._family = real.AF_INET if family == -1 else real.AddressFamily(family)
        if self._family not in OWN_ADDRESSES or type & ~_TYPE_FLAGS != real.SOCK_STREAM:
            raise not_simulated("socket.socket without TCP", _ONLY_TCP)
        if proto not in (-1, 0, real.IPPROTO_TCP):
            raise not_simulated("socket.socket without TCP", _ONLY_TCP)
        self._io_refs, self._closed = 0, False
        self.transport: SocketTransport | None = None
        """The transport that uses the socket, or None."""
        self._loop = cast(SocketLoop, asyncio.get_running_loop())
        self._proto = max(proto, 0)
        self._timeout = 0.0 if type & getattr(real, "SOCK_NONBLOCK", 0) else real.getdefaulttimeout()
        self._number = self._loop.new_descriptor()
        self._options: dict[tuple[int, int], int | bytes] = {}
        self._host = OWN_ADDRESSES[self._family]
        self._port = 0
        self._end: Socket | None = None
        self._listener: Listener | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._wake_due = False
        self._sends = False
        self._reported = False
        """Whether a call has raised the connection's failure.  Later calls behave as at the end of the stream."""
        self._can_read = self._can_write = True

    # -- attributes --------------------------------------------------------------------------------------------------

    @property
    def family(self) -> real.AddressFamily:
        """The address family."""
        return self._family

    @property
    def type(self) -> real.SocketKind:
        """SOCK_STREAM."""
        return real.SOCK_STREAM

    @property
    def proto(self) -> int:
        """The protocol that the program gave, or 0."""
        return self._proto

    @property
    def timeout(self) -> float | None:
        """The timeout in seconds: 0 if the socket is non-blocking."""
        return self._timeout

    def gettimeout(self) -> float | None:
        """Return the timeout in seconds: 0 if the socket is non-blocking."""
        return self._timeout

    def settimeout(self, value: float | None, /) -> None:
        """Set the timeout; 0 makes the socket non-blocking."""
        self._timeout = value

    def getblocking(self) -> bool:
        """Return whether the socket is blocking."""
        return self._timeout != 0

    def setblocking(self, flag: bool, /) -> None:
        """Make the socket blocking or non-blocking."""
        self._timeout = None if flag else 0.0

    def get_inheritable(self) -> bool:
        """Return False: a simulated program has no child processes."""
        return False

    def set_inheritable(self, inheritable: bool) -> None:
        """Do nothing: a simulated program has no child processes."""

    def fileno(self) -> int:
        """Return the number of the socket, which no call of the host accepts, or -1 if the socket is closed."""
        return -1 if self._is_closed else self._number

    @property
    def _is_closed(self) -> bool:
        return self._closed or (self.transport is not None and self.transport.is_lost)

    def getsockopt(self, level: int, option: int, buflen: int = 0, /) -> Any:
        """Return an option as the program has set it; 0 if the option has not been set."""
        if (level, option) == (real.SOL_SOCKET, real.SO_ERROR):
            value: int | bytes = self._pending_error()
        else:
            known = {real.SO_TYPE: real.SOCK_STREAM, real.SO_SNDBUF: SEND_BUFFER, real.SO_RCVBUF: RECEIVE_BUFFER}
            default = known.get(option, 0) if level == real.SOL_SOCKET else 0
            value = self._options.get((level, option), default)
        if buflen and isinstance(value, int):
            return value.to_bytes(4, sys.byteorder)[:buflen]
        return value

    def setsockopt(self, level: int, option: int, value: Any, optlen: int | None = None, /) -> None:
        """Store an option."""
        self._check_open()
        self._options[level, option] = bytes(optlen or 0) if value is None else value
        self._apply_keepalive()

    def _pending_error(self) -> int:
        failure = None if self._end is None or self._reported else self._end.failure
        if failure is None:
            return 0
        self._reported = True
        return failure.errno or 0

    def _apply_keepalive(self) -> None:
        if self._end is not None and self._end.is_open and self._options.get((real.SOL_SOCKET, real.SO_KEEPALIVE)):
            self._end.keep_alive()

    # -- addresses ---------------------------------------------------------------------------------------------------

    def bind(self, address: Any, /) -> None:
        """Choose the socket's port; 0 chooses a free port.  Raises OSError."""
        self._check_open()
        if self._port:
            raise os_error(errno.EINVAL)
        host, port = address[:2]
        kernel = self._loop.kernel
        if self._loop.address_of(host.removeprefix(_MAPPED)) != kernel.address:
            raise os_error(errno.EADDRNOTAVAIL)
        if port in kernel.listeners:
            raise os_error(errno.EADDRINUSE)
        self._host, self._port = host or self._host, port or kernel.free_port()

    def getsockname(self) -> Any:
        """Return this end's address and port."""
        self._check_open()
        if self._end is not None and self._end.is_open:
            return self._address(self._end.kernel.address, self._end.port)
        return self._address(self._host, self._port)

    def getpeername(self) -> Any:
        """Return the other end's address and port.  Raises OSError unless the socket is connected."""
        self._check_open()
        if self._end is None or not self._end.is_open or self._end.is_gone:
            raise os_error(errno.ENOTCONN)
        return self._address(self._end.remote, self._end.remote_port)

    def _address(self, host: str, port: int) -> tuple[Any, ...]:
        if self._family == real.AF_INET:
            return host, port
        return (_MAPPED + host if host[:1].isdigit() and ":" not in host else host), port, 0, 0

    # -- waiting -----------------------------------------------------------------------------------------------------

    def _on_change(self) -> None:
        """Wake up the waiting calls in the next turn.  The kernel calls this method."""
        if not self._wake_due:
            self._wake_due = True
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._wake_due = False
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _change(self) -> None:
        """Wait until the state of the connection or of the listening port changes."""
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            self._waiters.remove(waiter)

    def _check_open(self) -> None:
        if self._is_closed:
            raise os_error(errno.EBADF)

    def check_usable_by(self, loop: object) -> None:
        """Raise an exception if methods of `loop` cannot use this socket, as asyncio does."""
        if loop is not self._loop:
            raise RuntimeError("the socket belongs to another program of the world")
        if self._timeout != 0:
            raise ValueError("the socket must be non-blocking")
        if self.transport is not None and not self.transport.is_closing():
            raise RuntimeError(f"File descriptor {self._number} is used by transport {self.transport!r}")

    # -- connections -------------------------------------------------------------------------------------------------

    async def open(self, address: Any) -> None:
        """Connect to a machine.  Raises OSError."""
        self._check_open()
        if self._listener is not None or self._end is not None:
            is_opening = self._end is not None and not self._end.is_open
            raise os_error(errno.EALREADY if is_opening else errno.EISCONN)
        host, port = address[:2]
        opened: asyncio.Future[None] = self._loop.create_future()
        done = partial(self._loop.call_soon, self._opened, opened)
        there = self._loop.address_of(host.removeprefix(_MAPPED))
        self._adopt(self._loop.kernel.connect(there, int(port), cast(Any, done), from_port=self._port))
        await opened

    def _opened(self, opened: asyncio.Future[None], failure: OSError | None) -> None:
        if failure is None:
            self._apply_keepalive()
        elif self._end is not None:
            # A later connection of this socket must use another port, so that it cannot receive old segments.
            self._loop.disown(self._end)
            self._end, self._port = None, 0
        if not opened.done():
            if failure is None:
                opened.set_result(None)
            else:
                opened.set_exception(failure)
        self._wake()

    def _adopt(self, end: Socket) -> None:
        """Use this end of a connection."""
        self._end = end
        end.on_readable = end.on_writable = self._on_change
        self._loop.own(end)

    def connection(self) -> Socket:
        """Return the end of the connection.  Raises OSError unless the socket is connected."""
        self._check_open()
        if self._end is None:
            raise os_error(errno.ENOTCONN)
        return self._end

    async def read(self, size: int) -> bytes:
        """Return up to `size` received bytes when some arrive, and no bytes at the end of the stream.  Raises OSError.

        Like a transport, it can return only a part of the bytes that have arrived.
        """
        if size < 0:
            raise ValueError("negative buffersize in recv")
        while True:
            end = self.connection()
            self._raise_failure(end)
            if size == 0 or not self._can_read:
                return b""
            if end.inbox:
                return end.receive_bytes(self._loop.piece_of(min(len(end.inbox), size)))
            if end.at_end or end.is_gone:
                return b""
            await self._change()

    async def write(self, data: Any) -> None:
        """Send all bytes, and wait while the send buffer is full.  Raises OSError."""
        rest = memoryview(data).cast("B")
        self.connection()
        while self._sends:
            await self._change()
        self._sends = True
        try:
            while rest:
                end = self.connection()
                self._raise_failure(end)
                if end.is_gone or not self._can_write:
                    raise os_error(errno.EPIPE)
                if end.is_open:
                    rest = rest[end.send(rest) :]
                if rest:
                    await self._change()
        finally:
            self._sends = False
            self._wake()

    def _raise_failure(self, end: Socket) -> None:
        if end.failure is not None and not self._reported:
            self._reported = True
            raise end.failure

    # -- listening ---------------------------------------------------------------------------------------------------

    def listen(self, backlog: int = 0, /) -> None:
        """Accept connections on the socket's port, or on a free port if it has none.  Raises OSError."""
        self._check_open()
        if self._end is not None:
            raise os_error(errno.EINVAL)
        if self._listener is None:
            self._listener = self._loop.kernel.listen(self._port, self._on_change)
            self._port = self._listener.port
            self._loop.own(self._listener)

    def listen_for(self, on_waiting: Callable[[], None]) -> Listener:
        """Listen, and let a server accept the connections: `on_waiting` is called when a connection waits."""
        self.listen()
        assert self._listener is not None
        self._listener.on_waiting = on_waiting
        if self._listener.waiting:
            on_waiting()
        return self._listener

    async def next_connection(self) -> tuple[SimulatedSocket, Any]:
        """Wait for a connection; return its socket, and the address of the other end.  Raises OSError."""
        while True:
            self._check_open()
            if self._listener is None:
                raise os_error(errno.EINVAL)
            if self._listener.waiting:
                break
            await self._change()
        accepted = SimulatedSocket(self._family, real.SOCK_STREAM, self._proto)
        accepted.setblocking(False)
        accepted._options = dict(self._options)
        end = self._listener.waiting.popleft()
        accepted._adopt(end)
        accepted._apply_keepalive()
        return accepted, accepted._address(end.remote, end.remote_port)

    # -- closing -----------------------------------------------------------------------------------------------------

    def shutdown(self, how: int, /) -> None:
        """End the stream in one direction or both.  Raises OSError unless the socket is connected."""
        end = self.connection()
        if not end.is_open or end.is_gone:
            raise os_error(errno.ENOTCONN)
        if how in (real.SHUT_RD, real.SHUT_RDWR):
            self._can_read = False
        if how in (real.SHUT_WR, real.SHUT_RDWR):
            self._can_write = False
            end.shutdown_write()
        self._on_change()

    def close(self) -> None:
        """Close the socket, as close(2) does.  As in asyncio, a call that waits for the socket never returns."""
        if self._is_closed:
            return
        self._closed = True
        for each in (self._listener, self._end):
            if each is not None:
                self._loop.disown(each)
                if each is self._end and self._options.get((real.SOL_SOCKET, real.SO_LINGER)) == _RESET_AT_CLOSE:
                    self._end.reset()
                each.close()

    def detach(self) -> int:
        """Close this object, but not the connection, which stays open until the program ends.  Return its number."""
        number = self.fileno()
        self._closed = True
        return number


def _refusing(name: str, instead: str) -> Callable[..., Any]:
    def call(_: SimulatedSocket, *__: Any, **___: Any) -> Any:
        raise not_simulated(f"socket.{name}", instead)

    return call


for _name, _instead in _REFUSED.items():
    setattr(SimulatedSocket, _name, _refusing(_name, _instead))
