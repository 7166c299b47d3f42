"""Jobs that a simulated process runs outside its event loop, in place of threads (`zabka.ensemble.runtime.workers`).

Each step of a job is one event of the world, at a randomly chosen time.  Jobs of a paused process pause, and jobs of a
killed process never continue.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from zabka.ensemble.runtime.workers import WAIT, Job, Work
from zabka.simulation.draws import draw_below

if TYPE_CHECKING:
    from zabka.simulation.engine.loop import ProcessLoop

P = ParamSpec("P")
T = TypeVar("T")
STARTS_US_MAX = 200
"""Longest time in µs that a job waits for a CPU core before a step."""


class LoopWorkers:
    """Runs the jobs of one process."""

    def __init__(self, loop: ProcessLoop, random: Random) -> None:
        self._loop = loop
        self._random = random

    def start(self, job: Job, name: str) -> Work:
        """Start a job."""
        return _LoopWork(self._loop, job, self._random)

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Run one function as a job with one step."""
        future: Future[T] = self._loop.create_future()

        def job() -> Job:
            try:
                result = function(*args, **kwargs)
            except Exception as failed:
                self._loop.call_soon(_fail, future, failed)
            else:
                self._loop.call_soon(_succeed, future, result)
            return
            yield WAIT

        self.start(job(), "call")
        return future

    def breathe(self) -> None:
        """Do nothing: on a real host, a thread lets other threads run here, but no other thread runs during a step."""

    def now_s(self) -> float:
        """Return the time of the loop's clock."""
        return self._loop.time()


class _LoopWork:
    """A job that has started and whose steps run in a process's simulated event loop."""

    def __init__(self, loop: ProcessLoop, job: Job, random: Random) -> None:
        self._loop = loop
        self._job = job
        self._random = random
        self._woken = False
        self._rests = False
        """Whether the job waits at a yield, and `wake` can continue it early."""
        self._due = 0
        """Number of the job's next step.  Scheduled calls for a lower step number do nothing."""
        self._ended = False
        self._after(0.0)

    def wake(self) -> None:
        self._woken = True
        if self._rests and not self._ended:
            self._after(0.0)

    def is_under_way(self) -> bool:
        return not self._ended

    def join(self, within_s: float | None = None) -> None:
        while not self._ended:
            assert self._woken or not self._rests, "a job that nobody wakes is waited for"
            self._step()

    def _after(self, seconds: float) -> None:
        self._rests = False
        self._due += 1
        # This method may be called by a step of the job, so add the time that the step has taken so far.
        delay_us = self._loop.busy_us() + round(seconds * 1e6) + draw_below(self._random, STARTS_US_MAX)
        self._loop.call_beside(delay_us, self._come, self._due)

    def _come(self, number: int) -> None:
        if number == self._due and not self._ended:
            self._step()

    def _step(self) -> None:
        self._due += 1
        self._woken = self._rests = False
        try:
            pause = next(self._job)
        except StopIteration:
            self._ended = True
            return
        if self._woken and pause.heeds:
            self._after(0.0)
            return
        self._rests = pause.heeds
        if pause is not WAIT:
            rests = self._rests
            self._after(pause.seconds)
            self._rests = rests


def _succeed(future: Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: Future[T], failed: Exception) -> None:
    if not future.done():
        future.set_exception(failed)
