"""Jobs of a storage that is waited for: they are done when somebody says so, in the order in which they were begun."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from zabka.ensemble.runtime.workers import Job, Pause, Work

P = ParamSpec("P")
T = TypeVar("T")


class Hands:
    """Takes up jobs, and does nothing before `work` is called.  Its clock stands still: every pause is over at once."""

    def __init__(self) -> None:
        self._under_way: list[_Held] = []

    def start(self, job: Job, name: str) -> Work:
        """Have a job done."""
        held = _Held(job, name)
        self._under_way.append(held)
        return held

    def work(self) -> None:
        """Take step after step, until every job has ended or waits to be woken."""
        while any(held.go_on() for held in self._under_way):
            self._under_way = [held for held in self._under_way if held.is_under_way()]

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """There is no event loop here that could wait for it.  Raises AssertionError."""
        raise AssertionError("nothing runs beside these jobs")

    def breathe(self) -> None:
        """Nobody waits beside a step."""

    def now_s(self) -> float:
        """Always the same."""
        return 0.0


class _Held:
    """A job under way."""

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
        """One step, if it does not wait; was there one?"""
        if self._job is None or not self._woken:
            return False
        self._woken = False
        pause: Pause | None = next(self._job, None)
        if pause is None:
            self._job = None
        elif pause.seconds != float("inf"):
            self._woken = True
        return True
