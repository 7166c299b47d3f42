"""Transports for asyncio's protocols on simulated sockets, and servers that accept connections.

They behave like asyncio's selector transports.  A transport reads received bytes once per turn.  A read can return only
a part of them, as in TCP; the seed determines how often.  The transport buffers bytes that the socket does not accept,
and pauses the protocol above the high-water mark.
"""

from __future__ import annotations

import asyncio
import errno
import socket as real
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from zabka.simulation.engine.observed import Observer
from zabka.simulation.engine.tcp import Kernel, Listener, Socket, os_error

READ_MAX = 256 * 1024
HIGH_WATER = 64 * 1024


class Closable(Protocol):
    """A kernel resource of a process: a socket or a listening port."""

    def close(self) -> None: ...


class Owner(Protocol):
    """The event loop of the process that owns these sockets."""

    @property
    def kernel(self) -> Kernel: ...
    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...
    def create_future(self) -> asyncio.Future[Any]: ...
    def call_exception_handler(self, context: dict[str, Any]) -> None: ...
    def own(self, each: Closable) -> None:
        """Register a socket or listening port, so that the kernel closes it when this process ends."""
        ...

    def disown(self, each: Closable) -> None:
        """Unregister a socket or listening port, because it has been closed."""
        ...

    def piece_of(self, size: int) -> int:
        """Return how many of `size` received bytes the next read returns."""
        ...


class SocketView:
    """The socket object that a transport returns for `get_extra_info("socket")`."""

    family = real.AF_INET
    type = real.SOCK_STREAM
    proto = real.IPPROTO_TCP

    def __init__(self, address: tuple[str, int], socket: Socket | None) -> None:
        self._address = address
        self._socket = socket

    def getsockname(self) -> tuple[str, int]:
        """Return the address and port of this end."""
        return self._address

    def getpeername(self) -> tuple[str, int]:
        """Return the address and port of the other end.  Raises OSError for a listening socket."""
        if self._socket is None:
            raise os_error(errno.ENOTCONN)
        return self._socket.remote, self._socket.remote_port

    def getsockopt(self, level: int, option: int) -> int:
        """Return 0: no socket option has an effect, except SO_KEEPALIVE."""
        return 0

    def fileno(self) -> int:
        """Return -1: simulated machines have no limit on file descriptors."""
        return -1

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Set SO_KEEPALIVE and ignore all other options."""
        if self._socket is not None and (level, option) == (real.SOL_SOCKET, real.SO_KEEPALIVE) and value:
            self._socket.keep_alive()


class SocketTransport(asyncio.Transport):
    """asyncio transport of one connection."""

    def __init__(
        self, loop: Owner, socket: Socket, protocol: asyncio.BaseProtocol, observers: Sequence[Observer] = ()
    ) -> None:
        here = (socket.kernel.address, socket.port)
        super().__init__(
            {"peername": (socket.remote, socket.remote_port), "sockname": here, "socket": SocketView(here, socket)}
        )
        self._loop = loop
        self._socket = socket
        self._protocol: Any = protocol
        self._observers = observers
        self._gate = socket.kernel.network.make_gate(socket, self._pass)
        self._waiting = bytearray()
        self._high, self._low = HIGH_WATER, HIGH_WATER // 4
        self._asked_to_pause = False
        self._reads = False
        self._read_due = False
        self._closing = False
        self._ends = False
        self._lost_due = False
        self._saw_end = False
        self.is_lost = False
        """Whether the connection is closed."""
        loop.own(socket)
        socket.on_readable, socket.on_writable = self._on_readable, self._on_writable
        loop.call_soon(protocol.connection_made, self)
        loop.call_soon(self._begin)

    def _begin(self) -> None:
        if not self._closing:
            self._reads = True
            self._on_readable()

    # -- reading -----------------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        if self._reads and not self._read_due and not self._closing:
            socket = self._socket
            if socket.inbox or socket.failure is not None or (socket.at_end and not self._saw_end):
                self._read_due = True
                self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._read_due = False
        if self._closing or not self._reads:
            return
        socket = self._socket
        if socket.failure is not None:
            self._break(socket.failure)
            return
        if socket.inbox:
            data = socket.receive_bytes(self._loop.piece_of(min(len(socket.inbox), READ_MAX)))
            for observer in self._observers:
                observer.received(data)
            if self._gate is not None:
                self._gate.received(data)
            if not self._passed(self._deliver, data):
                return
        elif socket.at_end and not self._saw_end:
            self._saw_end = True
            if not self._passed(self._deliver_end):
                return
        self._on_readable()

    def _deliver(self, data: bytes) -> None:
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(data)
            return
        rest = memoryview(data)
        while rest:
            buffer = memoryview(protocol.get_buffer(len(rest)))
            size = min(len(buffer), len(rest))
            buffer[:size] = rest[:size]
            protocol.buffer_updated(size)
            rest = rest[size:]

    def _deliver_end(self) -> None:
        if not self._protocol.eof_received():
            self.close()

    def _passed(self, call: Callable[..., None], *args: Any) -> bool:
        """Call a method of the protocol.  If it raises, report the exception, close the connection and return False."""
        try:
            call(*args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as failed:
            message = f"Fatal error: protocol.{'data_received' if args else 'eof_received'}() call failed."
            self._loop.call_exception_handler({"message": message, "exception": failed, "protocol": self._protocol})
            self._break(failed if isinstance(failed, Exception) else None)
            return False
        return True

    def is_reading(self) -> bool:
        """Return whether received bytes are passed to the protocol."""
        return self._reads and not self._closing

    def pause_reading(self) -> None:
        """Stop passing received bytes to the protocol; they stay in the socket's receive buffer."""
        self._reads = False

    def resume_reading(self) -> None:
        """Pass received bytes to the protocol again."""
        if not self._closing and not self._reads:
            self._reads = True
            self._on_readable()

    # -- writing -----------------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, and buffer the bytes that the socket does not accept."""
        if self._ends:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._lost_due or not data:
            return
        for observer in self._observers:
            observer.sent(bytes(data))
        if self._gate is not None:
            self._gate.write(bytes(data))
        else:
            self._pass(data)

    def _pass(self, data: bytes | bytearray | memoryview) -> None:
        if self._lost_due:
            return
        if not self._waiting:
            try:
                taken = self._socket.send(data)
            except OSError as broken:
                self._break(broken)
                return
            data = data[taken:]
            if not data:
                return
        self._waiting += data
        self._watch_water()

    def _on_writable(self) -> None:
        self._loop.call_soon(self._write)

    def _write(self) -> None:
        if self._lost_due or not self._waiting:
            return
        try:
            del self._waiting[: self._socket.send(self._waiting)]
        except OSError as broken:
            self._break(broken)
            return
        self._watch_water()
        if not self._waiting:
            if self._closing:
                self._lose(None)
            elif self._ends:
                self._socket.shutdown_write()

    def _watch_water(self) -> None:
        size = len(self._waiting)
        if size > self._high and not self._asked_to_pause:
            self._asked_to_pause = True
            self._protocol.pause_writing()
        elif size <= self._low and self._asked_to_pause:
            self._asked_to_pause = False
            self._protocol.resume_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the numbers of buffered bytes at which the protocol is paused and resumed."""
        if high is None:
            high = HIGH_WATER if low is None else 4 * low
        self._high, self._low = high, high // 4 if low is None else low
        self._watch_water()

    def get_write_buffer_size(self) -> int:
        """Return the number of buffered bytes."""
        return len(self._waiting)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the low and high limits of the write buffer."""
        return self._low, self._high

    def write_eof(self) -> None:
        """Send the buffered bytes, and then FIN."""
        self._ends = True
        if not self._waiting:
            self._socket.shutdown_write()

    def can_write_eof(self) -> bool:
        """Return True."""
        return True

    # -- closing -----------------------------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        """Return whether the transport is closed or closing."""
        return self._closing

    def close(self) -> None:
        """Send the buffered bytes, and then close the connection."""
        if not self._closing:
            self._closing = True
            if not self._waiting:
                self._lose(None)

    def abort(self) -> None:
        """Close the connection immediately, and discard the buffered bytes."""
        self._break(None)

    def _force_close(self, failure: Exception | None) -> None:
        """Close the connection immediately.  asyncio's TLS protocol calls this method."""
        self._break(failure)

    def _break(self, failure: Exception | None) -> None:
        self._waiting.clear()
        self._closing = True
        self._lose(failure)

    def _lose(self, failure: Exception | None) -> None:
        if not self._lost_due:
            self._lost_due = True
            self._loop.call_soon(self._report_lost, failure)

    def _report_lost(self, failure: Exception | None) -> None:
        try:
            self._protocol.connection_lost(failure)
        finally:
            self._socket.close()
            self._loop.disown(self._socket)
            self.is_lost = True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Make `protocol` the protocol of this connection."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the connection's protocol."""
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol


class ListeningSocket(Closable, Protocol):
    """A socket that a program has opened for a server."""

    def getsockname(self) -> Any:
        """Return the address and the port to listen on."""
        ...

    def listen_for(self, on_waiting: Callable[[], None]) -> Listener:
        """Listen; `on_waiting` is called when a connection waits.  Raises OSError."""
        ...


class SocketServer(asyncio.AbstractServer):
    """A listening port of a process.  If `sock` is given, the server listens with this socket, and closes it."""

    def __init__(
        self,
        loop: Owner,
        port: int,
        factory: Callable[[], asyncio.BaseProtocol],
        *,
        starts: bool = True,
        sock: ListeningSocket | None = None,
    ) -> None:
        self._loop = loop
        self._factory = factory
        self._sock = sock
        self._port = port if sock is None else sock.getsockname()[1]
        self._listener: Listener | None = None
        if starts or sock is None:
            self._listen()
        self._is_closed = False
        self.sockets = (SocketView((loop.kernel.address, self._port), None),)
        self._forever: asyncio.Future[None] | None = None
        if not starts:
            self._stop_listening()

    def _listen(self) -> None:
        if self._sock is None:
            listener = self._loop.kernel.listen(self._port, self._on_waiting)
        else:
            listener = self._sock.listen_for(self._on_waiting)
        self._listener, self._port = listener, listener.port
        self._loop.own(listener)

    def _on_waiting(self) -> None:
        self._loop.call_soon(self._accept)

    def _accept(self) -> None:
        listener, kernel = self._listener, self._loop.kernel
        while listener is not None and listener.waiting:
            observers = kernel.network.observers(kernel.address, listener.port)
            SocketTransport(self._loop, listener.waiting.popleft(), self._factory(), observers)

    def close(self) -> None:
        """Stop listening; accepted connections stay open."""
        self._is_closed = True
        self._stop_listening()
        if self._sock is not None:
            self._sock.close()
        if self._forever is not None and not self._forever.done():
            self._forever.cancel()

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._loop.disown(self._listener)
            self._listener = None

    async def wait_closed(self) -> None:
        """Return immediately, because `close` takes no time."""

    async def start_serving(self) -> None:
        """Listen, if the server was created with `start_serving=False`.  Raises OSError if the port is in use."""
        if self._listener is None and not self._is_closed:
            self._listen()

    async def serve_forever(self) -> None:
        """Wait until cancelled, or until the server is closed.  Raises RuntimeError if it is closed already."""
        if self._is_closed or self._forever is not None:
            raise RuntimeError(f"server {self!r} is closed, or serve_forever is called twice")
        await self.start_serving()
        self._forever = self._loop.create_future()
        try:
            await self._forever
        finally:
            self._forever = None
            self.close()

    def is_serving(self) -> bool:
        """Return whether the server is listening."""
        return self._listener is not None

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of the process."""
        return asyncio.get_running_loop()
