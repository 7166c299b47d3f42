"""One node's process in virtual time: its tasks, timers and clocks (`zabka.ensemble.ports.Runtime`).

A coroutine awaits a `SimFuture`. When the future is resolved, the coroutine's next step is scheduled at the current
time, after the calls that are already due.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from random import Random
from typing import Any

from tests.virtual_time.futures import SimFuture
from zabka.ensemble.ports import Instant
from zabka.simulation.engine.scheduler import Call, Deadlock, Scheduler, Suspended

_TASKS_SWEPT_AT = 64
"""Number of tasks above which a node removes its ended tasks.

The limit is this number plus twice the number of tasks that remained after the previous removal.
"""


class SimTask(Suspended):
    """A coroutine that runs on the scheduler.

    Its steps are delayed while its node is paused, and dropped once the node is dead.
    """

    __slots__ = ("_coroutine", "_ended", "_running", "_runtime", "name", "result")

    def __init__(self, runtime: SimRuntime, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        self.name = name
        self.result: Any = None
        """The coroutine's return value, or None until it has returned."""
        self._runtime = runtime
        self._coroutine = coroutine
        self._ended = False
        self._running = False

    def step(self) -> None:
        """Run the coroutine up to its next await."""
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
            # The coroutine has called a function that cancelled the coroutine's own task.
            self._coroutine.close()
            return
        assert isinstance(awaited, SimFuture), f"{self.name} awaited something that is no port: {awaited!r}"
        awaited.add_waiter(self.step)

    def cancel(self) -> bool:
        """End the coroutine at its current await with GeneratorExit.

        This happens immediately, unless the task is running.
        """
        if self._ended:
            return False
        self._ended = True
        if not self._running:
            self._coroutine.close()
        return True

    def done(self) -> bool:
        """Return whether the task has ended."""
        return self._ended


def _crash(name: str, crash: BaseException) -> None:
    raise AssertionError(f"task {name} failed: {crash!r}") from crash


class SimRuntime:
    """`zabka.ensemble.ports.Runtime` for one node: the world's clock (with the node's clock skew) and the node's tasks.

    `stop()` ends the process: tasks end at their current await, and this node's timers and futures no longer have an
    effect. While `paused` (SIGSTOP), nothing runs on this node. `resume()` runs all calls that came due during the
    pause: first the calls for received messages, in order, then the timers.
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
        """Whether the process has ended."""
        self.paused = False
        """Whether the process is paused (SIGSTOP)."""
        self._held: list[Callable[[], object]] = []
        self._held_timers: list[Callable[[], object]] = []
        self._now = Instant(-1, -1)
        self._now_us = -1

    @property
    def random(self) -> Random:
        """Random stream of this node."""
        return self._random

    def now(self) -> Instant:
        """Return the time of both clocks of this node."""
        now_us = self.scheduler.now_us
        if now_us != self._now_us:
            self._now_us = now_us
            now_ms = now_us // 1000
            if now_ms != self._now.mono_ms:
                self._now = Instant(now_ms, self.WALL_START_MS + now_ms + self._skew_ms)
        return self._now

    def future(self) -> SimFuture:
        """Return a new future."""
        return SimFuture(self.scheduler)

    def run(self, callback: Callable[[], object]) -> None:
        """Run a callback on this node.

        It runs now, or at `resume` if the node is paused, or never if the node is dead.
        """
        if self.stopped:
            return
        if self.paused:
            self._held.append(callback)
        else:
            callback()

    def hold_timer(self, due: Callable[[], object]) -> None:
        """Hold back a timer that is due, until this paused node is resumed."""
        self._held_timers.append(due)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> SimTask:
        """Start a task on this node."""
        task = self._new_task(coroutine, name)
        self.scheduler.soon(task.step)
        return task

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> SimTask:
        """Start a task on this node. It runs up to its first await before this method returns."""
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
        """Call the callback on this node after a delay.

        The timer can be cancelled until the callback has run, even while the node is paused.
        """
        timer = _NodeTimer(self, callback)
        scheduler = self.scheduler
        scheduler.post(scheduler.now_us + delay_ms * 1000, timer.due)
        return timer

    def sleep(self, delay_ms: int) -> Awaitable[None]:
        """Return a future that is resolved after a delay."""
        future = SimFuture(self.scheduler)
        self.call_later(delay_ms, partial(future.set_result, None))
        return future

    def pause(self) -> None:
        """Pause the process (SIGSTOP)."""
        self.paused = True

    def resume(self) -> None:
        """Continue after SIGCONT: run everything that was delayed during the pause.

        SIGSTOP usually stops an event-driven process while it waits in select(). When it continues, it receives
        everything that its sockets have received, and reads the clock after that (`asyncio.BaseEventLoop._run_once`,
        libuv's `uv_run`). Therefore, after a long pause, a process replies to messages that arrived earlier before it
        can notice how late it is.
        """
        self.paused = False
        held, self._held, self._held_timers = self._held + self._held_timers, [], []
        for callback in held:
            self.scheduler.soon(partial(self.run, callback))

    def stop(self) -> None:
        """End the process: none of its code runs again."""
        self.stopped = True
        self._held.clear()
        self._held_timers.clear()
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()


class _NodeTimer(Call):
    """A timer of a node. While the node is paused, its callback is delayed."""

    __slots__ = ("_runtime",)

    def __init__(self, runtime: SimRuntime, callback: Callable[[], object]) -> None:
        self.callback = callback
        self._runtime = runtime

    def due(self) -> None:
        """Run the timer's callback, unless the timer was cancelled."""
        runtime = self._runtime
        if self.callback is not None and not runtime.stopped:
            if runtime.paused:
                runtime.hold_timer(self.due)
            else:
                callback, self.callback = self.callback, None
                callback()


def run_task(
    scheduler: Scheduler, runtime: SimRuntime, coroutine: Coroutine[Any, Any, Any], limit_ms: int = 600_000
) -> Any:
    """Run the simulation until the coroutine ends, and return its result.

    Raises Deadlock if it cannot end, or does not end within `limit_ms`.
    """
    task = runtime.spawn(coroutine, "main")
    limit_us = scheduler.now_us + limit_ms * 1000
    while not task.done():
        due = scheduler.next_time_us()
        if due is None or due > limit_us:
            raise Deadlock("the task waits for something that does not happen")
        scheduler.step()
    return task.result
