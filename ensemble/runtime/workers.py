"""Work that must not hold up the event loop, cut into steps: a port, and the host's threads behind it.

A job is a generator.  What it does between two yields is one step.  It yields `WAIT` where it has nothing to do until
it is woken, and how long to rest, in seconds, where it should go on a little later.  In a thread of its own the steps
follow one another as the yields say, beside the event loop; in a simulated world each is one event, at a moment that a
seed chooses.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from typing import NamedTuple, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Pause(NamedTuple):
    """So many seconds are to pass before the next step; if it `heeds` being woken, that ends them."""

    seconds: float
    heeds: bool = False


WAIT = Pause(float("inf"), heeds=True)
"""Until the job is woken.  A job that was woken since its last step began to run goes on at once."""

GO_ON = Pause(0.0)
"""Whatever else waits to be done may come first; a thread goes on at once."""

Job = Generator[Pause, None, None]


class Work(Protocol):
    """A job under way."""

    def wake(self) -> None:
        """Something has changed: a step that begins after this call will be taken."""
        ...

    def is_under_way(self) -> bool:
        """Whether it has not ended."""
        ...

    def join(self, within_s: float | None = None) -> None:
        """Block until it has ended, or for so long at most."""
        ...


class Workers(Protocol):
    """Whoever takes up jobs."""

    def start(self, job: Job, name: str) -> Work:
        """Have a job done.  Raises RuntimeError where nobody can be had for it."""
        ...

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Have one call done beside the event loop; it raises what the function raises."""
        ...

    def breathe(self) -> None:
        """In the midst of a long step: let the event loop run."""
        ...

    def now_s(self) -> float:
        """A clock that only goes forward."""
        ...


BREATHE_S = 0.0005


class _Thread:
    """A thread that does one job."""

    def __init__(self, job: Job, name: str) -> None:
        self._job = job
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_woken = False
        """Is there word of it in the queue?  Whatever else wakes the job until it is read, the same step sees."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._woken.put(None)

    def is_under_way(self) -> bool:
        return self._thread.is_alive()

    def join(self, within_s: float | None = None) -> None:
        self._thread.join(within_s)

    def _run(self) -> None:
        woken = self._woken
        for pause in self._job:
            if pause is GO_ON:
                continue
            if pause is WAIT:
                woken.get()
            elif pause.heeds:
                try:
                    woken.get(timeout=pause.seconds)
                except queue.Empty:
                    continue
            else:
                time.sleep(pause.seconds)
                continue
            self._is_woken = False


class Threads:
    """The host's: a thread for each job."""

    def start(self, job: Job, name: str) -> Work:
        """Have a job done in a daemon thread."""
        return _Thread(job, name)

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Have one call done in a thread of asyncio's."""
        return asyncio.to_thread(function, *args, **kwargs)

    def breathe(self) -> None:
        """Sleep for half a millisecond."""
        time.sleep(BREATHE_S)

    def now_s(self) -> float:
        """The monotonic clock."""
        return time.monotonic()


THREADS = Threads()
