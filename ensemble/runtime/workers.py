"""Work that must not block the event loop, split into steps: a port, and its implementation with the host's threads.

A job is a generator. The code between two yields is one step. A job yields `WAIT` if it has nothing to do until it is
woken, or a pause in seconds if it should continue a little later. In a thread, the steps run at those times, in
parallel with the event loop. In a simulated world each step is an event, at a moment that a seed chooses.
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
    """A pause of that many seconds before the next step; if it `heeds` being woken, waking ends the pause."""

    seconds: float
    heeds: bool = False


WAIT = Pause(float("inf"), heeds=True)
"""Pause until the job is woken. A job that was woken since its last step began continues at once."""

GO_ON = Pause(0.0)
"""Let other waiting work run first; a thread continues at once."""

Job = Generator[Pause, None, None]


class Work(Protocol):
    """A running job."""

    def wake(self) -> None:
        """Notify the job of a change: it will run a step that begins after this call."""
        ...

    def is_under_way(self) -> bool:
        """Whether it has not ended."""
        ...

    def join(self, within_s: float | None = None) -> None:
        """Block until it has ended, or for that long at most."""
        ...


class Workers(Protocol):
    """Runs jobs."""

    def start(self, job: Job, name: str) -> Work:
        """Run a job. Raises RuntimeError if no worker is available."""
        ...

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Run a call without blocking the event loop; it raises the function's exception."""
        ...

    def breathe(self) -> None:
        """Let the event loop run during a long step."""
        ...

    def now_s(self) -> float:
        """A clock that only goes forward."""
        ...


BREATHE_S = 0.0005


class _Thread:
    """A thread that runs one job."""

    def __init__(self, job: Job, name: str) -> None:
        self._job = job
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_woken = False
        """Whether the queue holds a wake-up. Further wake-ups before it is read are covered by the same step."""
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
    """The host's workers: a thread for each job."""

    def start(self, job: Job, name: str) -> Work:
        """Run a job in a daemon thread."""
        return _Thread(job, name)

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Run a call in one of asyncio's threads."""
        return asyncio.to_thread(function, *args, **kwargs)

    def breathe(self) -> None:
        """Sleep for half a millisecond."""
        time.sleep(BREATHE_S)

    def now_s(self) -> float:
        """The monotonic clock."""
        return time.monotonic()


THREADS = Threads()
