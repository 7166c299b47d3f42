"""An asyncio event loop on the world's scheduler that runs one process in turns, in virtual time.

A turn runs the handles that were ready when it began, in order, as one iteration of asyncio's own loop does.  It begins
up to 64 µs after a handle becomes ready.  The time of the disk operations in a turn delays the next turn.  A killed
loop runs no more turns.
"""

from __future__ import annotations

import asyncio
import math
import signal
import socket as real
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from random import Random
from typing import Any, Protocol

from zabka.simulation.draws import draw_below
from zabka.simulation.engine.callbacks import Callback, Timer
from zabka.simulation.engine.scheduler import Scheduler
from zabka.simulation.engine.tcp import Kernel
from zabka.simulation.engine.transports import Closable, SocketServer, SocketTransport
from zabka.simulation.engine.virtual_time import Turn
from zabka.simulation.filesystem.volume import PowerLost

TURN_US_MIN = 10
TURN_US_BITS = 6
"""A turn begins up to 2^TURN_US_BITS µs after a handle becomes ready."""
JOB_US_MIN = 50
JOB_US_SPREAD = 3_000
NEVER_US = 1 << 60
"""Time in µs at which a call with an infinite delay is scheduled."""
WALL_START_US = 1_700_000_000_000_000
_TASKS_SWEPT_AT = 64

Context_ = dict[str, Any]


OWN_HOSTS = ("localhost", "127.0.0.1", "0.0.0.0", "::1", "::")
"""Host names that refer to the machine of the process that uses them."""


class Timed(Protocol):
    """Disk of one process.  `took_us` is the total time in µs of its operations since `took_us` was last set to 0."""

    took_us: int


class ProcessLoop(asyncio.AbstractEventLoop):
    """One process's event loop.

    `pieces` is the probability that a read returns only a part of the received bytes.  `on_failure(text, exception)` is
    called with exceptions that the process does not catch.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        kernel: Kernel,
        random: Random,
        turn: Turn,
        on_failure: Callable[[str, BaseException | None], None],
        *,
        skew_us: int = 0,
        pieces: float = 0.0,
    ) -> None:
        self.scheduler = scheduler
        self.kernel = kernel
        self.paused = False
        self.killed = False
        self.disk: Timed | None = None
        """The process's disk, whose operations delay the process's next turn."""
        self.signals: dict[int, Callable[[], object]] = {}
        self._random = random
        self._turn = turn
        self._on_failure = on_failure
        self._wall_us = WALL_START_US + skew_us
        self._pieces = pieces
        self._ready: deque[Callback | Timer] = deque()
        self._turn_due = False
        self._spent_us = 0
        self._is_beside = False
        self._busy_until_us = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._tasks_max = _TASKS_SWEPT_AT
        self._task_number = 0
        self._owned: dict[int, Closable] = {}
        self._held: list[Callable[[], None]] = []
        self._exception_handler: Callable[[asyncio.AbstractEventLoop, Context_], object] | None = None

    # -- turns -------------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._turn_due or self.paused or self.killed:
            return
        self._turn_due = True
        self.scheduler.post(self._next_turn_us(), self._take_turns)

    def _next_turn_us(self) -> int:
        begins_us = self.scheduler.now_us + TURN_US_MIN + self._random.getrandbits(TURN_US_BITS)
        return begins_us if begins_us > self._busy_until_us else self._busy_until_us

    def _take_turns(self) -> None:
        """Run one turn, and then further turns until another call of the world is due before the next one."""
        if self.paused or self.killed:
            self._turn_due = False
            return
        scheduler, ready = self.scheduler, self._ready
        self._begin_turn()
        try:
            while True:
                for _ in range(len(ready)):
                    if not ready:
                        # The process was killed during this turn, which emptied the queue.
                        break
                    handle = ready.popleft()
                    if not handle._cancelled:
                        try:
                            handle._context.run(handle._callback, *handle._args)
                        except (SystemExit, KeyboardInterrupt):
                            raise
                        except BaseException as failed:
                            self._callback_failed(handle, failed)
                self._pay()
                if not ready or self.paused:
                    self._turn_due = False
                    return
                next_us = self._next_turn_us()
                if not scheduler.continue_at(next_us):
                    scheduler.post(next_us, self._take_turns)
                    return
        finally:
            self._end_turn()

    def _callback_failed(self, handle: asyncio.Handle, failed: BaseException) -> None:
        self.call_exception_handler({"message": f"Exception in callback {handle!r}", "exception": failed})

    def _begin_turn(self) -> None:
        """Mark this process as the process that is running."""
        self._turn.taker = self
        _set_running_loop(self)

    def _end_turn(self) -> None:
        """Mark that no process is running."""
        _set_running_loop(None)
        self._turn.taker = None

    def _pay(self) -> None:
        """Delay the next turn by the time that this turn has spent, including its disk operations."""
        spent_us = self._spent_us
        disk = self.disk
        if disk is not None and disk.took_us:
            spent_us += disk.took_us
            disk.took_us = 0
        if spent_us:
            self._busy_until_us = self.scheduler.now_us + spent_us
            self._spent_us = 0

    def pause(self) -> None:
        """Pause the process (SIGSTOP)."""
        self.paused = True

    def resume(self) -> None:
        """Resume the process (SIGCONT)."""
        self.paused = False
        held, self._held = self._held, []
        for run in held:
            self.scheduler.soon(run)
        if self._ready:
            self._wake()

    def kill(self) -> list[asyncio.Task[Any]]:
        """Kill the process (SIGKILL): run no more turns, and close all sockets as the kernel does.

        Return the suspended tasks.  The caller must store them, because Python would run their `finally` blocks when it
        deletes them.
        """
        tasks = self.vanish()
        owned, self._owned = self._owned, {}
        for each in owned.values():
            each.close()
        return tasks

    def vanish(self) -> list[asyncio.Task[Any]]:
        """Stop because of a power loss: run no more turns, close no sockets, and return the suspended tasks."""
        self.killed = True
        self._ready.clear()
        self._held.clear()
        return self._tasks

    def own(self, each: Closable) -> None:
        """Register a socket or listening port, so that the kernel closes it when this process ends."""
        self._owned[id(each)] = each

    def disown(self, each: Closable) -> None:
        """Unregister a socket or listening port, because it has been closed."""
        self._owned.pop(id(each), None)

    def piece_of(self, size: int) -> int:
        """Return how many of `size` received bytes the next read returns."""
        if size > 1 and self._pieces and self._random.random() < self._pieces:
            return 1 + draw_below(self._random, size - 1)
        return size

    def call_beside(self, delay_us: int, callback: Callable[..., None], *args: Any) -> None:
        """Call a function after `delay_us`, outside the loop's turns, so that disk operations do not delay it."""

        def run() -> None:
            if self.killed:
                return
            if self.paused:
                self._held.append(run)
                return
            busy_until_us, self._is_beside = self._busy_until_us, True
            self._begin_turn()
            try:
                callback(*args)
            except PowerLost:
                pass
            finally:
                self._end_turn()
                self._pay()
            self._busy_until_us, self._is_beside = busy_until_us, False

        self.scheduler.post(self.scheduler.now_us + delay_us, run)

    # -- clocks ------------------------------------------------------------------------------------------------------

    def time(self) -> float:
        """Return the monotonic clock in seconds."""
        return self.world_us() / 1e6

    def mono_ns(self) -> int:
        """Return the monotonic clock in nanoseconds."""
        disk = self.disk
        return (self.scheduler.now_us + self._spent_us + (0 if disk is None else disk.took_us)) * 1000

    def wall_ns(self) -> int:
        """Return the wall clock of this machine in nanoseconds."""
        return self._wall_us * 1000 + self.mono_ns()

    def step_clock(self, by_us: int) -> None:
        """Set the machine's wall clock forward by `by_us`, or back if it is negative."""
        self._wall_us += by_us

    def world_us(self) -> int:
        """Return the world's time in µs, plus the time that the process has spent in this turn."""
        return self.scheduler.now_us + self.busy_us()

    def busy_us(self) -> int:
        """Return the time in µs that the process has spent since its turn began."""
        return self._spent_us if self.disk is None else self._spent_us + self.disk.took_us

    def spend(self, duration_us: int) -> None:
        """Add `duration_us` to the time that the process spends in this turn."""
        self._spent_us += duration_us

    # -- asyncio.AbstractEventLoop -----------------------------------------------------------------------------------

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        """Call the callback in the next turn."""
        handle = Callback(callback, args, self, context)
        if self.killed:
            return handle
        if self._is_beside:
            # This method may be called by a step of a job, outside the loop's turns, so add the time that the step has
            # taken so far.
            self.scheduler.post(self.world_us(), partial(self._due, handle))
        else:
            self._ready.append(handle)
            if not self._turn_due:
                self._wake()
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call the callback after `delay` seconds."""
        due_us = self.world_us() + max(0, math.ceil(min(delay * 1e6, NEVER_US)))
        return self._call_at(due_us, callback, args, context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call the callback when this loop's clock reaches `when`."""
        return self._call_at(math.ceil(min(when * 1e6, NEVER_US) - 1e-3), callback, args, context)

    def _call_at(
        self, due_us: int, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> asyncio.TimerHandle:
        handle = Timer(due_us, callback, args, self, context)
        if not self.killed:
            self.scheduler.post(due_us, partial(self._due, handle))
        return handle

    def _due(self, handle: Callback | Timer) -> None:
        if not handle._cancelled and not self.killed:
            self._ready.append(handle)
            if not self._turn_due:
                self._wake()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        return

    def create_future(self) -> asyncio.Future[Any]:
        """Return a new future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        """Start a task. A task without a given name is named by its number within the process."""
        self._task_number += 1
        task = asyncio.Task(coro, loop=self, name=name or f"task {self._task_number}", context=context)
        self.keep(task)
        return task

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Hold a reference to a task until the task has ended."""
        if len(self._tasks) > self._tasks_max:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._tasks_max = 2 * len(self._tasks) + _TASKS_SWEPT_AT
        self._tasks.append(task)

    def get_debug(self) -> bool:
        """Return False, because there is no debug mode."""
        return False

    def is_running(self) -> bool:
        """Return whether the process is alive."""
        return not self.killed

    def is_closed(self) -> bool:
        """Return whether the process was killed. asyncio does not warn about unfinished tasks of a closed loop."""
        return self.killed

    def stop(self) -> None:
        """Report a failure of the run, because a process must not stop its event loop."""
        self._on_failure("the event loop was stopped", None)

    def set_exception_handler(self, handler: Callable[[asyncio.AbstractEventLoop, Context_], object] | None) -> None:
        """Set the handler of uncaught exceptions."""
        self._exception_handler = handler

    def get_exception_handler(self) -> Callable[[asyncio.AbstractEventLoop, Context_], object] | None:
        """Return the handler of uncaught exceptions."""
        return self._exception_handler

    def call_exception_handler(self, context: Context_) -> None:
        """Handle an exception of a callback, or of a task whose result is never retrieved."""
        if self.killed:
            return
        if self._exception_handler is None:
            self.default_exception_handler(context)
            return
        try:
            self._exception_handler(self, context)
        except Exception as failed:
            self.default_exception_handler({"message": "the exception handler has failed", "exception": failed})

    def default_exception_handler(self, context: Context_) -> None:
        """Report an uncaught exception to the machine."""
        self._on_failure(str(context.get("message")), context.get("exception"))

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        """Set the handler of a signal.  The simulation sends only SIGTERM (`terminate`)."""
        self.signals[sig] = partial(callback, *args)

    def remove_signal_handler(self, sig: int) -> bool:
        """Remove the handler of a signal."""
        return self.signals.pop(sig, None) is not None

    def terminate(self) -> None:
        """Call the process's SIGTERM handler in the next turn, if it has one."""
        handler = self.signals.get(signal.SIGTERM)
        if handler is not None:
            self.call_soon(handler)

    # -- the executor ------------------------------------------------------------------------------------------------

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Call the function later, outside the loop's turns. No thread is used."""
        future = self.create_future()

        def work() -> None:
            if self.killed or future.cancelled():
                return
            try:
                result = func(*args)
            except Exception as failed:
                future.set_exception(failed)
            else:
                future.set_result(result)

        self.call_later((JOB_US_MIN + draw_below(self._random, JOB_US_SPREAD)) / 1e6, work)
        return future

    # -- the network -------------------------------------------------------------------------------------------------

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        """Resolve a machine's name to its address.  An IP address resolves to itself."""
        return [(real.AF_INET, real.SOCK_STREAM, real.IPPROTO_TCP, "", (self.address_of(host), port))]

    def address_of(self, host: str | bytes | None) -> str:
        """Return the address of the machine with that name, or of this machine if the name is empty.

        Raises gaierror if no machine has the name.
        """
        host = host.decode() if isinstance(host, bytes) else host or OWN_HOSTS[0]
        address = self.kernel.address if host in OWN_HOSTS else self.kernel.network.addresses.get(host, host)
        if not address[:1].isdigit():
            raise real.gaierror(real.EAI_NONAME, f"no machine of this world has the name {host}")
        return address

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> tuple[str, str]:
        """Return the name of the machine with that address (the address itself if no machine has it), and the port."""
        host, port = sockaddr[0], sockaddr[1]
        named = (name for name, address in self.kernel.network.addresses.items() if address == host)
        return (host if flags & real.NI_NUMERICHOST else next(named, host)), str(port)

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: Any = None, port: Any = None, *,
        start_serving: bool = True, **_: Any,
    ) -> SocketServer:  # fmt: skip
        """Listen on a port of this machine's only address.  Raises OSError."""
        return SocketServer(self, port or 0, protocol_factory, starts=start_serving)

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: Any = None,
        *,
        ssl: Any = None,
        **_: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Open a connection to a machine.  Raises OSError."""
        assert ssl is None, "servers of a world have no TLS between machines"
        opened: asyncio.Future[None] = self.create_future()

        def done(failure: OSError | None) -> None:
            self.call_soon(_settle, opened, failure)

        socket = self.kernel.connect(self.address_of(host), int(port), done)
        self.own(socket)
        try:
            await opened
        except BaseException:
            self.disown(socket)
            socket.close()
            raise
        protocol = protocol_factory()
        transport = SocketTransport(self, socket, protocol)
        await self._begun(transport)
        return transport, protocol

    async def _begun(self, transport: SocketTransport) -> None:
        """Wait until the protocol of a new transport has been called."""
        begun = self.create_future()
        self.call_soon(_settle, begun, None)
        try:
            await begun
        except BaseException:
            transport.close()
            raise


def _settle(future: asyncio.Future[None], failure: OSError | None) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(None)
    else:
        future.set_exception(failure)
