"""Work that must not block the event loop, split into steps: an interface, and its implementation with threads.

A job is a generator; the code between two yields is one step. After a step, the job yields `WAIT` if it has nothing to
do until another part of the program wakes it, or a `Pause` if it should continue after some seconds. With threads,
steps run in parallel with the event loop. In a simulated world each step is an event, at a time that depends on the
seed.
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
    """Pause of `seconds` before a job's next step. With `heeds`, a call of `wake` ends the pause early."""

    seconds: float
    heeds: bool = False


WAIT = Pause(float("inf"), heeds=True)
"""Pause until `wake` is called. If it was called after the last step began, the job continues at once."""

GO_ON = Pause(0.0)
"""Pause that allows other waiting work to run first; in a thread, the job continues at once."""

Job = Generator[Pause, None, None]


class Work(Protocol):
    """Interface of a running job."""

    def wake(self) -> None:
        """Notify the job of a change. A step that begins after this call will run."""
        ...

    def is_under_way(self) -> bool:
        """Whether the job is still running."""
        ...

    def join(self, within_s: float | None = None) -> None:
        """Block until the job has ended, or for at most `within_s` seconds."""
        ...


class Workers(Protocol):
    """Interface that runs jobs."""

    def start(self, job: Job, name: str) -> Work:
        """Run a job. Raises RuntimeError if no worker is available."""
        ...

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Call a function without blocking the event loop; the awaited result is its return value or its exception."""
        ...

    def breathe(self) -> None:
        """Pause briefly during a long step, so that the event loop can run."""
        ...

    def now_s(self) -> float:
        """Return a monotonic time in seconds."""
        ...


BREATHE_S = 0.0005


class _Thread:
    """A thread that runs one job."""

    def __init__(self, job: Job, name: str) -> None:
        self._job = job
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_woken = False
        """Whether the queue contains a wake-up.

        Until that wake-up is read, further ones are not queued, because they would lead to the same step.
        """
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
    """Runs each job in its own thread."""

    def start(self, job: Job, name: str) -> Work:
        """Run a job in a daemon thread."""
        return _Thread(job, name)

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Call a function in one of asyncio's threads."""
        return asyncio.to_thread(function, *args, **kwargs)

    def breathe(self) -> None:
        """Sleep for half a millisecond, so that the event loop's thread can run."""
        time.sleep(BREATHE_S)

    def now_s(self) -> float:
        """Return the monotonic time in seconds."""
        return time.monotonic()


THREADS = Threads()
