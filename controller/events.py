"""The controller's only event queue. Events are processed one after another (kafka.controller.ControllerEventManager).

Watches, requests and timers only queue events. Every decision of the controller is made while it processes an event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from zabka.ensemble.ports import Future, Runtime, Task
from zabka.journal.cause import Cause

Process = Callable[[], Awaitable[None]]


class ControllerEvent:
    """A queued event and its cause.

    If the queue is cleared before the event is processed, `preempt` is called instead.
    """

    __slots__ = ("_waiters", "caused_by", "done", "name", "preempt", "process", "put_ms")

    def __init__(
        self, name: str, process: Process, caused_by: Cause, preempt: Callable[[], None] | None = None
    ) -> None:
        self.name = name
        self.process = process
        self.caused_by = caused_by
        self.preempt = preempt
        self.done = False
        self.put_ms = 0
        """Time at which the event was queued, on the monotonic clock."""
        self._waiters: list[Future[None]] = []

    def finished(self) -> None:
        """Resolve the futures passed to `add_waiter`, because the event has been processed or preempted."""
        self.done = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def add_waiter(self, waiter: Future[None]) -> None:
        """Resolve this future once the event has been processed or preempted."""
        self._waiters.append(waiter)


class EventQueue:
    """First-in, first-out queue of controller events.

    `handler` processes an event and raises no exception except a cancellation.
    """

    def __init__(self, runtime: Runtime, handler: Callable[[ControllerEvent], Awaitable[None]]) -> None:
        self._runtime = runtime
        self._handler = handler
        self._queue: deque[ControllerEvent] = deque()
        self._wake: Future[Any] | None = None
        self._task: Task | None = None
        self._current: ControllerEvent | None = None

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def running(self) -> bool:
        """Whether the queue processes events."""
        return self._task is not None

    def start(self, name: str) -> None:
        """Start the task that processes events."""
        assert self._task is None, "started twice"
        self._task = self._runtime.spawn(self._run(), name)

    def stop(self) -> None:
        """Preempt the waiting events and cancel the current one."""
        self.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        current, self._current = self._current, None
        if current is not None:
            if current.preempt is not None:
                current.preempt()
            current.finished()

    def put(self, event: ControllerEvent) -> None:
        """Append an event to the queue."""
        event.put_ms = self._runtime.now().mono_ms
        self._queue.append(event)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def clear_and_put(self, event: ControllerEvent) -> None:
        """Preempt all waiting events, then queue this one."""
        self.clear()
        self.put(event)

    def clear(self) -> None:
        """Preempt all waiting events. The current event continues."""
        preempted, self._queue = self._queue, deque()
        for event in preempted:
            if event.preempt is not None:
                event.preempt()
            event.finished()

    async def wait(self, event: ControllerEvent, timeout_ms: int | None = None) -> bool:
        """Wait until the event has been processed or preempted. Return False on timeout."""
        if event.done:
            return True
        waiter = self._runtime.future()
        event.add_waiter(waiter)
        if timeout_ms is not None:

            def give_up() -> None:
                if not waiter.done():
                    waiter.set_result(None)

            timer = self._runtime.call_later(timeout_ms, give_up)
            await waiter
            timer.cancel()
        else:
            await waiter
        return event.done

    async def _run(self) -> None:
        while True:
            while not self._queue:
                self._wake = self._runtime.future()
                await self._wake
            event = self._current = self._queue.popleft()
            await self._handler(event)
            self._current = None
            event.finished()
