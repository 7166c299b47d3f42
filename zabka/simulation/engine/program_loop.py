"""Event loop of a test's own program, in which the order of sets of tasks and futures is deterministic.

`asyncio.wait` and similar functions keep tasks in sets.  The order of a set depends on the hashes of its members, and
the hash of a plain task is its memory address.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

from zabka.simulation.engine.host_values import stamp_records_of_aiokafka
from zabka.simulation.engine.loop import ProcessLoop
from zabka.simulation.engine.refusal import LIBRARIES, not_simulated
from zabka.simulation.engine.sockets import SimulatedSocket
from zabka.simulation.engine.tls import Tls
from zabka.simulation.engine.transports import SocketServer, SocketTransport
from zabka.simulation.filesystem import aio_files
from zabka.simulation.filesystem.process_files import ProcessFiles

_LOG = logging.getLogger("asyncio")
_NO_READINESS = "use loop.sock_recv and loop.sock_sendall, or streams: asyncio.open_connection"
_NO_HOST_SOCKETS = "pass a socket that this program has opened with socket.socket"
_ONLY_TCP = "only TCP is simulated: use loop.create_connection and loop.create_server"
_NO_COMMANDS = "replace the command in the test"
_NO_FACTORY = "tasks are made by the loop, which numbers them"
_NO_SUCH_FILES = "open the file by its path, or use another function of aiofiles.os"
_NO_SENDFILE = "read the file, and write its bytes"
_NO_PIPES = "pipes are not simulated: replace them in the test"
_REFUSED: dict[str, str] = {
    **dict.fromkeys(
        (
            "create_datagram_endpoint", "create_unix_connection", "create_unix_server", "sock_recvfrom",
            "sock_recvfrom_into", "sock_sendto",
        ),
        _ONLY_TCP,
    ),
    **dict.fromkeys(("add_reader", "add_writer"), _NO_READINESS),
    **dict.fromkeys(("sock_sendfile", "sendfile"), _NO_SENDFILE),
    **dict.fromkeys(("subprocess_exec", "subprocess_shell"), _NO_COMMANDS),
    "set_task_factory": _NO_FACTORY,
    **dict.fromkeys(("connect_read_pipe", "connect_write_pipe"), _NO_PIPES),
}  # fmt: skip
"""Event loop methods that a world cannot simulate, each with the alternative that the error message names."""
FIRST_SOCKET = 1 << 24
"""Sockets have larger numbers than simulated files and than descriptors of the host."""

Begin = Callable[[Callable[[], asyncio.BaseProtocol]], Awaitable[tuple[asyncio.Transport, asyncio.BaseProtocol]]]
"""Opens a connection, or uses an open one, with a protocol that it gets from the given factory."""


class NumberedTask(asyncio.Task[Any]):
    """A task whose hash is its number, so that the order of sets of tasks is deterministic."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **options: Any) -> None:
        # Set the number before calling the base class, which adds the task to a set and so calls its hash.
        self.number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number


class NumberedFuture(asyncio.Future[Any]):
    """A future whose hash is its number, so that the order of sets of futures is deterministic."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self.number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class Step(NamedTuple):
    """An event loop iteration: its time, the program's name, and the place in the code where it continues."""

    at_us: int
    program: str
    place: str


class ProgramLoop(ProcessLoop):
    """Event loop of a test's own program, which numbers its tasks and futures."""

    _steps: list[Step] | None = None
    _program = ""
    _stamps_records = False
    _debugs = False
    _sockets = 0
    slow_callback_duration = 0.1
    """Seconds of virtual time after which a turn is reported in debug mode."""

    def trace(self, program: str, steps: list[Step] | None) -> None:
        """Append every event loop iteration of this program to `steps`; if `steps` is None, trace nothing."""
        self._program, self._steps = program, steps

    async def cancel_all_but(self, main: asyncio.Task[Any] | None) -> None:
        """Cancel all tasks except `main` and wait until they end, as `asyncio.run` does after its main function."""
        if self.killed:
            return
        left = [task for task in self._tasks if task is not main and not task.done()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _begin_turn(self) -> None:
        super()._begin_turn()
        if not self._stamps_records:
            # Check in every turn, because a program can import aiokafka at any time.
            self._stamps_records = stamp_records_of_aiokafka()
        if self._steps is not None and self._ready:
            self._steps.append(Step(self.scheduler.now_us, self._program, _place_of(self._ready[0]._callback)))

    def create_future(self) -> asyncio.Future[Any]:
        """Return a new future of this loop."""
        self._task_number += 1
        return NumberedFuture(self._task_number, self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        """Start a task.  The name of a task without a name is its number."""
        self._task_number += 1
        number = self._task_number
        task = NumberedTask(number, coro, loop=self, name=name or f"task {number}", context=context)
        self.keep(task)
        return task

    def get_debug(self) -> bool:
        """Return whether the debug mode is on, in which asyncio records where tasks were created."""
        return self._debugs

    def set_debug(self, enabled: bool) -> None:
        """Switch the debug mode on or off."""
        self._debugs = enabled

    def _pay(self) -> None:
        if self._debugs and self.busy_us() >= self.slow_callback_duration * 1e6:
            _LOG.warning("Executing a turn of %s took %.3f seconds", self._program, self.busy_us() / 1e6)
        super()._pay()

    def run_forever(self) -> None:
        """Raise RuntimeError, as a running loop of asyncio does."""
        raise RuntimeError("This event loop is already running")

    def run_until_complete(self, future: Any) -> Any:
        """Raise RuntimeError, as a running loop of asyncio does."""
        raise RuntimeError("This event loop is already running")

    def close(self) -> None:
        """Raise RuntimeError, as a running loop of asyncio does."""
        raise RuntimeError("Cannot close a running event loop")

    def set_default_executor(self, executor: Any) -> None:
        """Do nothing: no executor is used."""

    def get_task_factory(self) -> None:
        """Return None: the loop itself makes numbered tasks."""

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: async generators are closed when the program ends."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: there is no thread pool."""

    # -- the executor ------------------------------------------------------------------------------------------------

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Call the function later, in place of a thread.  If aiofiles calls this, it uses the disk of the machine."""
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.partition(".")[0] == aio_files.LIBRARY and isinstance(self.disk, ProcessFiles):
            on_disk = aio_files.on_disk(func, self.disk)
            if on_disk is None:
                name = getattr(getattr(func, "func", func), "__name__", "a call")
                raise not_simulated(f"{name} of aiofiles", _NO_SUCH_FILES)
            func = on_disk
        return super().run_in_executor(executor, func, *args)

    # -- the network -------------------------------------------------------------------------------------------------

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: Any = None,
        *,
        ssl: Any = None,
        sock: Any = None,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
        **_: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Open a connection, or use the connection of `sock`, with TLS if `ssl` is given.  Raises OSError."""
        if sock is None:
            begin: Begin = partial(super().create_connection, host=host, port=port)
        else:
            begin = partial(self._use, self._given(sock, "create_connection(sock=…)", host, port))
        if not ssl:
            return await begin(protocol_factory)
        if sock is not None and server_hostname is None:
            raise ValueError("You must set server_hostname when using ssl without a host")
        tls = Tls(ssl, str(host) if server_hostname is None else server_hostname, ssl_handshake_timeout,
                  ssl_shutdown_timeout)  # fmt: skip
        return await self._encrypted(tls, protocol_factory, begin, is_server=False)

    async def connect_accepted_socket(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        sock: Any,
        *,
        ssl: Any = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Use the connection of a socket that `sock_accept` returned, with TLS if `ssl` is given.  Raises OSError."""
        begin: Begin = partial(self._use, self._given(sock, "loop.connect_accepted_socket"))
        if not ssl:
            return await begin(protocol_factory)
        tls = Tls(ssl, None, ssl_handshake_timeout, ssl_shutdown_timeout)
        return await self._encrypted(tls, protocol_factory, begin, is_server=True)

    async def _use(
        self, sock: SimulatedSocket, protocol_factory: Callable[[], asyncio.BaseProtocol]
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Return a transport for the connection of a socket."""
        connection = sock.connection()
        protocol = protocol_factory()
        sock.transport = transport = SocketTransport(self, connection, protocol)
        await self._begun(transport)
        return transport, protocol

    async def _encrypted(
        self, tls: Tls, protocol_factory: Callable[[], asyncio.BaseProtocol], begin: Begin, *, is_server: bool
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        inner, waiter = protocol_factory(), self.create_future()
        outer = tls.protocol(self, inner, waiter, is_server=is_server)
        transport, _protocol = await begin(lambda: outer)
        try:
            await waiter
        except BaseException:
            transport.close()
            raise
        return outer._app_transport, inner

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: Any = None,
        *,
        ssl: Any = None,
        sock: Any = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
        start_serving: bool = True,
        **_: Any,
    ) -> SocketServer:
        """Listen at a port on this machine's only address, or with `sock`; with TLS if `ssl` is given.

        Raises OSError.
        """
        factory = protocol_factory
        if ssl is not None:
            tls = Tls(ssl, None, ssl_handshake_timeout, ssl_shutdown_timeout)
            factory = lambda: tls.protocol(self, protocol_factory(), None, is_server=True)  # noqa: E731
        if sock is None:
            return await super().create_server(factory, host, port, start_serving=start_serving)
        given = self._given(sock, "create_server(sock=…)", host, port)
        return SocketServer(self, 0, factory, starts=start_serving, sock=given)

    # -- sockets -----------------------------------------------------------------------------------------------------

    def new_descriptor(self) -> int:
        """Return a number that no other socket of the program has, and no file of the host."""
        self._sockets += 1
        return FIRST_SOCKET + self._sockets

    def _given(self, sock: Any, call: str, host: Any = None, port: Any = None) -> SimulatedSocket:
        """Return the socket that a program has given to a transport or server."""
        if host is not None or port is not None:
            raise ValueError("host/port and sock can not be specified at the same time")
        if not isinstance(sock, SimulatedSocket):
            raise not_simulated(call, _NO_HOST_SOCKETS, frames=3)
        sock.setblocking(False)
        sock.check_usable_by(self)
        return sock

    def _socket(self, sock: Any, call: str) -> SimulatedSocket:
        """Return the socket that a program has given to a method of the loop."""
        if not isinstance(sock, SimulatedSocket):
            raise not_simulated(f"loop.{call}", _NO_HOST_SOCKETS, frames=3)
        sock.check_usable_by(self)
        return sock

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """Connect a socket to an address, or to a machine's name.  Raises OSError."""
        await self._socket(sock, "sock_connect").open(address)

    async def sock_accept(self, sock: Any) -> tuple[SimulatedSocket, Any]:
        """Wait for a connection; return its socket, and the address of the other end.  Raises OSError."""
        return await self._socket(sock, "sock_accept").next_connection()

    async def sock_recv(self, sock: Any, nbytes: int) -> bytes:
        """Wait for bytes, and return up to `nbytes` of them; no bytes at the end of the stream.  Raises OSError."""
        return await self._socket(sock, "sock_recv").read(nbytes)

    async def sock_recv_into(self, sock: Any, buf: Any) -> int:
        """Wait for bytes, write them to `buf`, and return their number.  Raises OSError."""
        view = memoryview(buf).cast("B")
        data = await self._socket(sock, "sock_recv_into").read(len(view))
        view[: len(data)] = data
        return len(data)

    async def sock_sendall(self, sock: Any, data: Any) -> None:
        """Send all bytes, and wait while the send buffer is full.  Raises OSError."""
        await self._socket(sock, "sock_sendall").write(data)

    def remove_reader(self, fd: Any) -> bool:
        """Return False: no descriptor has a reader."""
        return False

    def remove_writer(self, fd: Any) -> bool:
        """Return False: no descriptor has a writer."""
        return False

    # -- TLS ---------------------------------------------------------------------------------------------------------

    async def start_tls(
        self,
        transport: Any,
        protocol: asyncio.BaseProtocol,
        sslcontext: Any,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> Any:
        """Encrypt an open connection from now on, and return its new transport."""
        waiter = self.create_future()
        tls = Tls(sslcontext, server_hostname, ssl_handshake_timeout, ssl_shutdown_timeout)
        outer = tls.protocol(self, protocol, waiter, is_server=server_side, is_new=False)
        transport.pause_reading()
        transport.set_protocol(outer)
        self.call_soon(outer.connection_made, transport)
        self.call_soon(transport.resume_reading)
        try:
            await waiter
        except BaseException:
            transport.close()
            raise
        return outer._app_transport

    def loose_failures(self) -> list[BaseException]:
        """Return the exceptions of tasks that have failed and were never awaited."""
        # asyncio reports such an exception only when the task is deleted, but this loop holds references to its tasks.
        loose = [task for task in self._tasks if task.done() and getattr(task, "_log_traceback", False)]
        return [failure for task in loose if (failure := task.exception()) is not None]


def _refusing(name: str, instead: str) -> Callable[..., Any]:
    def call(_: ProgramLoop, *__: Any, **___: Any) -> Any:
        raise not_simulated(f"loop.{name}", instead)

    return call


for _name, _instead in _REFUSED.items():
    setattr(ProgramLoop, _name, _refusing(_name, _instead))


def _place_of(callback: object) -> str:
    """Return the innermost place, outside installed packages, at which a task's code waits.

    If the callback does not belong to a task, return its name.
    """
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return str(getattr(callback, "__qualname__", type(callback).__name__))
    frames: list[FrameType] = []
    waiting: Any = task.get_coro()
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is not None:
            frames.append(frame)
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
    own = [frame for frame in frames if not frame.f_code.co_filename.startswith(LIBRARIES)] or frames
    return f"{own[-1].f_code.co_filename}:{own[-1].f_lineno}" if own else task.get_name()
