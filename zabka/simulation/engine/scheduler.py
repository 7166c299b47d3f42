"""Virtual time: one queue of scheduled calls, and the only clock.

Everything that happens in a simulated world happens in a call from the scheduler.  The calls run in the order of their
times; calls for the same time run in the order in which they were scheduled.  There is no other event loop or thread,
and no clock other than `Scheduler.now_us`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from heapq import heappop as _pop
from heapq import heappush as _push


class Deadlock(Exception):
    """No more calls are scheduled, or the time limit has passed, although an awaited condition does not hold."""


class Call:
    """One scheduled call; a cancelled call stays in the queue without effect."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Cancel the call."""
        self.callback = None

    def due(self) -> None:
        """Run the callback unless the call is cancelled."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


class Suspended(ABC):
    """A suspended computation that a scheduled call will continue, such as a task between two steps."""

    __slots__ = ()

    @abstractmethod
    def cancel(self) -> bool:
        """End the task where it is suspended.  Return False if it has already ended."""


class Scheduler:
    """The queue of scheduled calls, and the virtual clock."""

    __slots__ = ("_heap", "_order", "_ready", "_until_us", "now_us", "steps")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[], object]]] = []
        self._ready: deque[Callable[[], object]] = deque()
        """Calls that were scheduled for the current time after that time had begun. They run after the calls on the
        heap.
        """
        self._order = 0
        self._until_us = -1
        """End time of the current call of `run_until`, or -1 if there is no such call."""
        self.now_us = 0
        self.steps = 0
        """Number of calls run so far, including cancelled ones."""

    def at(self, time_us: int, callback: Callable[[], object]) -> Call:
        """Schedule a call at that time, or now if that time has passed."""
        call = Call(callback)
        self.post(time_us, call.due)
        return call

    def after(self, delay_us: int, callback: Callable[[], object]) -> Call:
        """Schedule a call after a delay, which must not be negative."""
        return self.at(self.now_us + delay_us, callback)

    def post(self, time_us: int, callback: Callable[[], object]) -> None:
        """Schedule a call like `at`, but without a way to cancel it."""
        if time_us > self.now_us:
            self._order += 1
            _push(self._heap, (time_us, self._order, callback))
        else:
            self._ready.append(callback)

    def soon(self, callback: Callable[[], object]) -> None:
        """Schedule a call for the current time, after all calls that are already due."""
        self._ready.append(callback)

    def step(self) -> bool:
        """Run the next call; return False if there is none."""
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

    def cancel_all(self) -> None:
        """Discard all scheduled calls, and end the suspended tasks that they would continue."""
        waiting = [callback for _, _, callback in sorted(self._heap, key=lambda entry: entry[:2])]
        waiting += self._ready
        self._heap.clear()
        self._ready.clear()
        for callback in waiting:
            owner = getattr(callback, "__self__", None)
            if isinstance(owner, Suspended):
                owner.cancel()

    def next_time_us(self) -> int | None:
        """Return the time of the next call, or None if the queue is empty."""
        if self._ready:
            return self.now_us
        return self._heap[0][0] if self._heap else None

    def continue_at(self, time_us: int) -> bool:
        """Advance the clock to `time_us` within the running call, and return whether this is possible.

        It is not possible if another call is due by then; the caller must then `post` the rest of its work. Other calls
        run in the same order in both cases, but advancing the clock directly is faster than using the queue.
        """
        if self._ready or time_us > self._until_us or (self._heap and self._heap[0][0] <= time_us):
            return False
        self.now_us = time_us
        self.steps += 1
        return True

    def run_until(self, time_us: int) -> None:
        """Run all calls due up to and including that time, and set the clock to it."""
        # Equivalent to repeated `step`, but faster, because this loop runs simulated years.
        heap, ready = self._heap, self._ready
        outer_us, self._until_us = self._until_us, time_us
        try:
            while True:
                if heap and heap[0][0] <= (self.now_us if ready else time_us):
                    self.now_us, _, callback = _pop(heap)
                elif ready:
                    callback = ready.popleft()
                else:
                    break
                self.steps += 1
                callback()
        finally:
            self._until_us = outer_us
        self.now_us = max(self.now_us, time_us)
