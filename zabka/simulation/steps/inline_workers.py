"""Runs a storage's jobs in the calling thread: only when `work` is called, in the order in which they were started."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from zabka.ensemble.runtime.workers import Job, Pause, Work

P = ParamSpec("P")
T = TypeVar("T")


class InlineWorkers:
    """Queues jobs, and runs them only in `work`.  Its clock does not advance, so every pause of a job ends at once."""

    def __init__(self) -> None:
        self._under_way: list[_Held] = []

    def start(self, job: Job, name: str) -> Work:
        """Queue a job."""
        held = _Held(job, name)
        self._under_way.append(held)
        return held

    def work(self) -> None:
        """Run steps of the jobs until every job has ended or waits for `wake`."""
        while any(held.go_on() for held in self._under_way):
            self._under_way = [held for held in self._under_way if held.is_under_way()]

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Raise AssertionError, because there is no event loop to await the result."""
        raise AssertionError("nothing runs beside these jobs")

    def breathe(self) -> None:
        """Do nothing: on a real host, the event loop gets time here, but no event loop runs during this step."""

    def now_s(self) -> float:
        """Return 0, because the clock does not advance."""
        return 0.0


class _Held:
    """A job that has been started and may still have steps to run."""

    def __init__(self, job: Job, name: str) -> None:
        self._job: Job | None = job
        self._name = name
        self._woken = True

    def wake(self) -> None:
        self._woken = True

    def is_under_way(self) -> bool:
        return self._job is not None

    def join(self, within_s: float | None = None) -> None:
        while self.go_on():
            pass
        assert self._job is None, f"{self._name} is waited for, and waits itself"

    def go_on(self) -> bool:
        """Run one step of the job. Return False if the job has ended or waits for `wake`."""
        if self._job is None or not self._woken:
            return False
        self._woken = False
        pause: Pause | None = next(self._job, None)
        if pause is None:
            self._job = None
        elif pause.seconds != float("inf"):
            self._woken = True
        return True
