"""Virtual time: a scheduler, and the futures and tasks that coroutine code awaits in it.

Everything that happens is one call on the scheduler's heap, ordered by (time, order of scheduling); nothing else runs.
A coroutine awaits a `SimFuture`; resolving it schedules the coroutine's next step at the present moment, behind what is
due already.  There is no event loop, no thread and no clock but `Scheduler.now_us`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from hashlib import sha256
from heapq import heappop as _pop
from heapq import heappush as _push
from random import Random
from typing import Any

from ensemble.ports import Instant


class Deadlock(Exception):
    """Nothing is scheduled any more, and what was waited for has not happened."""


class Call:
    """One scheduled call; cancelling leaves it on the heap, spent."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Do not call."""
        self.callback = None


class Scheduler:
    """The heap of calls and the virtual clock."""

    __slots__ = ("_heap", "_order", "now_us", "steps")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Call]] = []
        self._order = 0
        self.now_us = 0
        self.steps = 0

    def at(self, time_us: int, callback: Callable[[], object]) -> Call:
        """Call at that moment (now, if it is past)."""
        call = Call(callback)
        self._order += 1
        _push(self._heap, (max(time_us, self.now_us), self._order, call))
        return call

    def after(self, delay_us: int, callback: Callable[[], object]) -> Call:
        """Call after a delay, which is not negative."""
        call = Call(callback)
        self._order += 1
        _push(self._heap, (self.now_us + delay_us, self._order, call))
        return call

    def step(self) -> bool:
        """Run the next call; False when there is none."""
        while self._heap:
            time_us, _, call = _pop(self._heap)
            callback = call.callback
            if callback is None:
                continue
            call.callback = None
            self.now_us = time_us
            self.steps += 1
            callback()
            return True
        return False

    def end(self) -> None:
        """Nothing happens any more: tasks that were to go on are cancelled, for they never will."""
        waiting, self._heap = self._heap, []
        for _, _, call in sorted(waiting, key=lambda entry: entry[:2]):
            owner = getattr(call.callback, "__self__", None)
            if isinstance(owner, SimTask):
                owner.cancel()

    def next_time_us(self) -> int | None:
        """When the next call is due, None for never."""
        while self._heap and self._heap[0][2].callback is None:
            _pop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run_until(self, time_us: int) -> None:
        """Run everything due up to and including that moment; the clock ends there."""
        # As `step`, over and over; simulated years pass through here.
        heap = self._heap
        while heap and heap[0][0] <= time_us:
            self.now_us, _, call = _pop(heap)
            callback = call.callback
            if callback is not None:
                call.callback = None
                self.steps += 1
                callback()
        self.now_us = max(self.now_us, time_us)


_PENDING = object()


class SimFuture:
    """A value that arrives once, in virtual time (`ensemble.ports.Future`)."""

    __slots__ = ("_exception", "_result", "_scheduler", "_waiters")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._result: Any = _PENDING
        self._exception: BaseException | None = None
        self._waiters: list[Callable[[], object]] = []

    def done(self) -> bool:
        """Has it a result or an exception?"""
        return self._result is not _PENDING or self._exception is not None

    def set_result(self, result: Any) -> None:
        """Resolve it."""
        assert not self.done(), "resolved twice"
        self._result = result
        self._wake()

    def set_exception(self, exception: BaseException) -> None:
        """Fail it."""
        assert not self.done(), "resolved twice"
        self._exception = exception
        self._wake()

    def result(self) -> Any:
        """The result; raises the exception it failed with."""
        assert self.done(), "not resolved yet"
        if self._exception is not None:
            raise self._exception
        return self._result

    def add_waiter(self, callback: Callable[[], object]) -> None:
        """Schedule the callback once resolved."""
        if self.done():
            self._scheduler.after(0, callback)
        else:
            self._waiters.append(callback)

    def _wake(self) -> None:
        for callback in self._waiters:
            self._scheduler.after(0, callback)
        self._waiters.clear()

    def __await__(self) -> Generator[SimFuture, None, Any]:
        if not self.done():
            yield self
        return self.result()


class SimTask:
    """A coroutine on the scheduler; its own result is a future others may await."""

    __slots__ = ("_coroutine", "_due", "_ended", "_on_crash", "_running", "future", "name")

    def __init__(
        self,
        scheduler: Scheduler,
        coroutine: Coroutine[Any, Any, Any],
        name: str,
        on_crash: Callable[[str, BaseException], None],
    ) -> None:
        self.name = name
        self.future = SimFuture(scheduler)
        self._coroutine = coroutine
        self._on_crash = on_crash
        self._ended = False
        self._running = False
        self._due: Callable[[], object] = self._step
        """What goes on with it; made once, since a bound method is a new object each time."""

    def begin(self, scheduler: Scheduler) -> None:
        """Take the first step behind what is due already."""
        scheduler.after(0, self._due)

    def begin_now(self) -> None:
        """Take the first step."""
        self._step()

    def _step(self) -> None:
        if self._ended:
            return
        self._running = True
        try:
            awaited = self._coroutine.send(None)
        except StopIteration as stop:
            self._ended = True
            self.future.set_result(stop.value)
            return
        except Exception as crash:
            self._ended = True
            self._on_crash(self.name, crash)
            return
        finally:
            self._running = False
        if self._ended:
            # It cancelled itself, by way of something it called.
            self._coroutine.close()
            return
        assert isinstance(awaited, SimFuture), f"{self.name} awaited something that is no port: {awaited!r}"
        awaited.add_waiter(self._due)

    def cancel(self) -> bool:
        """End it at its present await, with GeneratorExit inside; at once, unless it is the one running."""
        if self._ended:
            return False
        self._ended = True
        if not self._running:
            self._coroutine.close()
        return True

    def done(self) -> bool:
        """Has it ended?"""
        return self._ended


def derive_random(seed: int, purpose: str) -> Random:
    """A stream of its own for each purpose, so that one more draw here shifts nothing there."""
    return Random(int.from_bytes(sha256(f"{seed}/{purpose}".encode()).digest()[:16], "big"))


def _crash(name: str, crash: BaseException) -> None:
    raise AssertionError(f"task {name} failed: {crash!r}") from crash


class SimRuntime:
    """`ensemble.ports.Runtime` for one node: the world's clock (with the node's own skew) and that node's tasks.

    `stop()` is the process's death: tasks end where they stand, timers and futures of this node wake nobody any more.
    While `paused` (SIGSTOP) nothing of this node runs; what came due meanwhile runs at `resume()`, in order.
    """

    WALL_START_MS = 1_700_000_000_000

    def __init__(
        self,
        scheduler: Scheduler,
        random: Random,
        *,
        skew_ms: int = 0,
        on_crash: Callable[[str, BaseException], None] = _crash,
    ) -> None:
        self.scheduler = scheduler
        self._random = random
        self._skew_ms = skew_ms
        self._on_crash = on_crash
        self._tasks: list[SimTask] = []
        self.stopped = False
        """Has the process died?"""
        self.paused = False
        """Is the process stopped by a signal?"""
        self._held: list[Callable[[], object]] = []
        self._now = Instant(-1, -1)

    @property
    def random(self) -> Random:
        """This node's stream."""
        return self._random

    def now(self) -> Instant:
        """Both clocks of this node."""
        now_ms = self.scheduler.now_us // 1000
        if now_ms != self._now.mono_ms:
            self._now = Instant(now_ms, self.WALL_START_MS + now_ms + self._skew_ms)
        return self._now

    def future(self) -> SimFuture:
        """A fresh future."""
        return SimFuture(self.scheduler)

    def run(self, callback: Callable[[], object]) -> None:
        """Run a callback as this node: now, at resume, or never (dead)."""
        if self.stopped:
            return
        if self.paused:
            self._held.append(callback)
        else:
            callback()

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> SimTask:
        """Start a task of this node."""
        task = self._new_task(coroutine, name)
        task.begin(self.scheduler)
        return task

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> SimTask:
        """Start a task of this node, which runs to its first await before this returns."""
        task = self._new_task(coroutine, name)
        task.begin_now()
        return task

    def _new_task(self, coroutine: Coroutine[Any, Any, Any], name: str) -> SimTask:
        if len(self._tasks) > 64:
            self._tasks = [task for task in self._tasks if not task.done()]
        task = _NodeTask(self, coroutine, name, self._on_crash)
        self._tasks.append(task)
        return task

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> _NodeTimer:
        """Call back after a delay, as this node.  Cancelling works until the callback has run, also while paused."""
        timer = _NodeTimer(self, callback)
        timer.scheduled = self.scheduler.after(max(0, delay_ms) * 1000, timer.due)
        return timer

    def sleep(self, delay_ms: int) -> Awaitable[None]:
        """A future that resolves after a delay."""
        future = self.future()
        self.call_later(delay_ms, lambda: future.set_result(None))
        return future

    def pause(self) -> None:
        """SIGSTOP."""
        self.paused = True

    def resume(self) -> None:
        """SIGCONT: everything held runs now, in the order it came due."""
        self.paused = False
        held, self._held = self._held, []
        for callback in held:
            self.scheduler.after(0, lambda due=callback: self.run(due))  # type: ignore[misc]

    def stop(self) -> None:
        """The process dies: nothing of it runs again."""
        self.stopped = True
        self._held.clear()
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()


class _NodeTimer(Call):
    """A timer of a node: what it calls waits while the node is paused."""

    __slots__ = ("_runtime", "scheduled")

    def __init__(self, runtime: SimRuntime, callback: Callable[[], object]) -> None:
        super().__init__(callback)
        self._runtime = runtime
        self.scheduled: Call | None = None
        """Its place on the heap."""

    def cancel(self) -> None:
        """Do not call."""
        self.callback = None
        if self.scheduled is not None:
            self.scheduled.callback = None

    def due(self) -> None:
        """The moment has come."""
        self._runtime.run(self._fire)

    def _fire(self) -> None:
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


class _NodeTask(SimTask):
    """A task whose steps wait while its node is paused and never come once it is dead."""

    __slots__ = ("_runtime",)

    def __init__(
        self,
        runtime: SimRuntime,
        coroutine: Coroutine[Any, Any, Any],
        name: str,
        on_crash: Callable[[str, BaseException], None],
    ) -> None:
        self._runtime = runtime
        super().__init__(runtime.scheduler, coroutine, name, on_crash)

    def _step(self) -> None:
        runtime = self._runtime
        if not runtime.paused:
            if not runtime.stopped:
                SimTask._step(self)
        else:
            runtime.run(self._due)


def run_task(
    scheduler: Scheduler, runtime: SimRuntime, coroutine: Coroutine[Any, Any, Any], limit_ms: int = 600_000
) -> Any:
    """Run the world until that coroutine ends; its result.  Raises Deadlock when it cannot, or not in `limit_ms`."""
    task = runtime.spawn(coroutine, "main")
    limit_us = scheduler.now_us + limit_ms * 1000
    while not task.done():
        due = scheduler.next_time_us()
        if due is None or due > limit_us:
            raise Deadlock("the task waits for something that does not happen")
        scheduler.step()
    return task.future.result()
