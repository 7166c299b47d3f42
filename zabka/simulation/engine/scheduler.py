"""Virtual time: one queue of calls, and the only clock.

Everything that happens in a simulated world is one call of the scheduler, ordered by (time, order of scheduling);
nothing else runs.  There is no event loop, no thread and no clock but `Scheduler.now_us`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from heapq import heappop as _pop
from heapq import heappush as _push


class Deadlock(Exception):
    """The queue is empty, and the awaited condition does not hold."""


class Call:
    """One scheduled call; a cancelled call stays in the queue without effect."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Cancel the call."""
        self.callback = None

    def due(self) -> None:
        """Call, unless cancelled."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


class Suspended(ABC):
    """Something that waits for a scheduled call in order to continue, such as a task between two steps."""

    __slots__ = ()

    @abstractmethod
    def cancel(self) -> bool:
        """End the task where it is suspended; return False if it had ended already."""


class Scheduler:
    """The queue of calls, and the virtual clock."""

    __slots__ = ("_heap", "_order", "_ready", "_until_us", "now_us", "steps")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[], object]]] = []
        self._ready: deque[Callable[[], object]] = deque()
        """Calls scheduled for the present moment during that moment; they run after those on the heap."""
        self._order = 0
        self._until_us = -1
        """The end of the current `run_until`; -1 outside of it."""
        self.now_us = 0
        self.steps = 0
        """The number of calls run so far, including cancelled ones."""

    def at(self, time_us: int, callback: Callable[[], object]) -> Call:
        """Schedule a call at that moment (now, if it is past)."""
        call = Call(callback)
        self.post(time_us, call.due)
        return call

    def after(self, delay_us: int, callback: Callable[[], object]) -> Call:
        """Schedule a call after a delay, which is not negative."""
        return self.at(self.now_us + delay_us, callback)

    def post(self, time_us: int, callback: Callable[[], object]) -> None:
        """Schedule a call as `at` does, without the option to cancel it."""
        if time_us > self.now_us:
            self._order += 1
            _push(self._heap, (time_us, self._order, callback))
        else:
            self._ready.append(callback)

    def soon(self, callback: Callable[[], object]) -> None:
        """Schedule a call at the present moment, after the calls that are due already."""
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
        """Discard all scheduled calls, and cancel the tasks that wait for them."""
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
        """Move the clock to that moment for the call that is running, if no other call is due by then.

        Return False if the caller has to `post` the rest of its work instead.  The result is the same; this avoids a
        pass through the queue.
        """
        if self._ready or time_us > self._until_us or (self._heap and self._heap[0][0] <= time_us):
            return False
        self.now_us = time_us
        self.steps += 1
        return True

    def run_until(self, time_us: int) -> None:
        """Run all calls due up to and including that moment, and set the clock to it."""
        # The same as repeated `step`, but faster; simulated years pass through here.
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
