"""Virtual time: a scheduler, and the futures and tasks that coroutine code awaits in it.

Everything that happens is one call of the scheduler, ordered by (time, order of scheduling); nothing else runs.  A
coroutine awaits a `SimFuture`; resolving it schedules the coroutine's next step at the present moment, behind what is
due already.  There is no event loop, no thread and no clock but `Scheduler.now_us`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from hashlib import sha256
from heapq import heappop as _pop
from heapq import heappush as _push
from random import Random
from typing import Any

from ensemble.ports import Instant


class Deadlock(Exception):
    """Nothing is scheduled any more, and what was waited for has not happened."""


class Call:
    """One scheduled call; cancelling leaves it where it stands, spent."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Do not call."""
        self.callback = None

    def due(self) -> None:
        """The moment has come."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


class Scheduler:
    """What is to be called, and the virtual clock."""

    __slots__ = ("_heap", "_order", "_ready", "now_us", "steps")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[], object]]] = []
        self._ready: deque[Callable[[], object]] = deque()
        """Scheduled for the present moment while it lasts: behind what stands on the heap for it."""
        self._order = 0
        self.now_us = 0
        self.steps = 0
        """How many calls were due so far, cancelled ones too."""

    def at(self, time_us: int, callback: Callable[[], object]) -> Call:
        """Call at that moment (now, if it is past)."""
        call = Call(callback)
        self.post(time_us, call.due)
        return call

    def after(self, delay_us: int, callback: Callable[[], object]) -> Call:
        """Call after a delay, which is not negative."""
        return self.at(self.now_us + delay_us, callback)

    def post(self, time_us: int, callback: Callable[[], object]) -> None:
        """As `at`, for what is never cancelled."""
        if time_us > self.now_us:
            self._order += 1
            _push(self._heap, (time_us, self._order, callback))
        else:
            self._ready.append(callback)

    def soon(self, callback: Callable[[], object]) -> None:
        """Call at the present moment, behind what is due already."""
        self._ready.append(callback)

    def step(self) -> bool:
        """Run the next call; False when there is none."""
        time_us = self.next_time_us()
        if time_us is None:
            return False
        if self._heap and self._heap[0][0] <= time_us:
            self.now_us, _, callback = _pop(self._heap)
        else:
            callback = self._ready.popleft()
        self.steps += 1
        callback()
        return True

    def end(self) -> None:
        """Nothing happens any more: tasks that were to go on are cancelled, for they never will."""
        waiting = [callback for _, _, callback in sorted(self._heap, key=lambda entry: entry[:2])]
        waiting += self._ready
        self._heap.clear()
        self._ready.clear()
        for callback in waiting:
            owner = getattr(callback, "__self__", None)
            if isinstance(owner, SimTask):
                owner.cancel()

    def next_time_us(self) -> int | None:
        """When the next call is due, None for never."""
        if self._ready:
            return self.now_us
        return self._heap[0][0] if self._heap else None

    def run_until(self, time_us: int) -> None:
        """Run everything due up to and including that moment; the clock ends there."""
        # As `step`, over and over; simulated years pass through here.
        heap, ready = self._heap, self._ready
        while True:
            if heap and heap[0][0] <= (self.now_us if ready else time_us):
                self.now_us, _, callback = _pop(heap)
            elif ready:
                callback = ready.popleft()
            else:
                break
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
        self._waiters: tuple[Callable[[], object], ...] = ()

    def done(self) -> bool:
        """Has it a result or an exception?"""
        return self._result is not _PENDING or self._exception is not None

    def set_result(self, result: Any) -> None:
        """Resolve it."""
        assert self._result is _PENDING and self._exception is None, "resolved twice"
        self._result = result
        if self._waiters:
            self._wake()

    def set_exception(self, exception: BaseException) -> None:
        """Fail it."""
        assert self._result is _PENDING and self._exception is None, "resolved twice"
        self._exception = exception
        if self._waiters:
            self._wake()

    def result(self) -> Any:
        """The result; raises the exception it failed with."""
        exception = self._exception
        if exception is None:
            assert self._result is not _PENDING, "not resolved yet"
            return self._result
        try:
            raise exception
        finally:
            # Its traceback holds this frame: without this they would hold each other.
            del exception, self

    def add_waiter(self, callback: Callable[[], object]) -> None:
        """Schedule the callback once resolved."""
        if self.done():
            self._scheduler.soon(callback)
        else:
            self._waiters += (callback,)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, ()
        for callback in waiters:
            self._scheduler.soon(callback)

    def __await__(self) -> Generator[SimFuture, None, Any]:
        if self._result is _PENDING and self._exception is None:
            yield self
        if self._exception is None:
            return self._result
        try:
            return self.result()
        finally:
            # As in `result`.
            del self


class SimTask:
    """A coroutine on the scheduler.

    Its steps wait while its node is paused and never come once that is dead.
    """

    __slots__ = ("_coroutine", "_ended", "_running", "_runtime", "name", "result")

    def __init__(self, runtime: SimRuntime, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        self.name = name
        self.result: Any = None
        """What it returned; None until then."""
        self._runtime = runtime
        self._coroutine = coroutine
        self._ended = False
        self._running = False

    def step(self) -> None:
        """Go on to the next await."""
        runtime = self._runtime
        if runtime.paused:
            runtime.run(self.step)
            return
        if self._ended or runtime.stopped:
            return
        self._running = True
        try:
            awaited = self._coroutine.send(None)
        except StopIteration as stop:
            self._ended = True
            self.result = stop.value
            return
        except Exception as crash:
            self._ended = True
            runtime.on_crash(self.name, crash)
            return
        finally:
            self._running = False
        if self._ended:
            # It cancelled itself, by way of something it called.
            self._coroutine.close()
            return
        assert isinstance(awaited, SimFuture), f"{self.name} awaited something that is no port: {awaited!r}"
        awaited.add_waiter(self.step)

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


_TASKS_SWEPT_AT = 64
"""A node forgets the tasks that have ended once it has so many more than were alive the last time."""


def derive_random(seed: int, purpose: str) -> Random:
    """A stream of its own for each purpose, so that one more draw here shifts nothing there."""
    return Random(int.from_bytes(sha256(f"{seed}/{purpose}".encode()).digest()[:16], "big"))


def draw_below(random: Random, stop: int) -> int:
    """What `randrange(0, stop)` draws, in half its time."""
    bits = stop.bit_length()
    drawn = random.getrandbits(bits)
    while drawn >= stop:
        drawn = random.getrandbits(bits)
    return drawn


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
        self.on_crash = on_crash
        self._tasks: list[SimTask] = []
        self._tasks_max = _TASKS_SWEPT_AT
        self.stopped = False
        """Has the process died?"""
        self.paused = False
        """Is the process stopped by a signal?"""
        self._held: list[Callable[[], object]] = []
        self._now = Instant(-1, -1)
        self._now_us = -1

    @property
    def random(self) -> Random:
        """This node's stream."""
        return self._random

    def now(self) -> Instant:
        """Both clocks of this node."""
        now_us = self.scheduler.now_us
        if now_us != self._now_us:
            self._now_us = now_us
            now_ms = now_us // 1000
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
        self.scheduler.soon(task.step)
        return task

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> SimTask:
        """Start a task of this node, which runs to its first await before this returns."""
        task = self._new_task(coroutine, name)
        task.step()
        return task

    def _new_task(self, coroutine: Coroutine[Any, Any, Any], name: str) -> SimTask:
        if len(self._tasks) > self._tasks_max:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._tasks_max = 2 * len(self._tasks) + _TASKS_SWEPT_AT
        task = SimTask(self, coroutine, name)
        self._tasks.append(task)
        return task

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> _NodeTimer:
        """Call back after a delay, as this node.  Cancelling works until the callback has run, also while paused."""
        timer = _NodeTimer(self, callback)
        scheduler = self.scheduler
        scheduler.post(scheduler.now_us + delay_ms * 1000, timer.due)
        return timer

    def sleep(self, delay_ms: int) -> Awaitable[None]:
        """A future that resolves after a delay."""
        future = SimFuture(self.scheduler)
        self.call_later(delay_ms, partial(future.set_result, None))
        return future

    def pause(self) -> None:
        """SIGSTOP."""
        self.paused = True

    def resume(self) -> None:
        """SIGCONT: everything held runs now, in the order it came due."""
        self.paused = False
        held, self._held = self._held, []
        for callback in held:
            self.scheduler.soon(partial(self.run, callback))

    def stop(self) -> None:
        """The process dies: nothing of it runs again."""
        self.stopped = True
        self._held.clear()
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()


class _NodeTimer(Call):
    """A timer of a node: what it calls waits while the node is paused."""

    __slots__ = ("_runtime",)

    def __init__(self, runtime: SimRuntime, callback: Callable[[], object]) -> None:
        self.callback = callback
        self._runtime = runtime

    def due(self) -> None:
        """The moment has come."""
        runtime = self._runtime
        if self.callback is not None and not runtime.stopped:
            if runtime.paused:
                runtime.run(self.due)
            else:
                callback, self.callback = self.callback, None
                callback()


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
    return task.result
