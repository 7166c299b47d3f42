"""Jobs in threads of a simulated process, in place of `zabka.ensemble.runtime.workers`.

Each step is one event, at a random time chosen by the seed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import ParamSpec, TypeVar

from zabka.ensemble.ports import Future
from zabka.ensemble.runtime.workers import GO_ON, WAIT, Job, Pause, Work
from zabka.simulation.draws import draw_below
from zabka.simulation.engine.scheduler import Call, Scheduler
from zabka.simulation.filesystem.process_files import ProcessFiles
from zabka.simulation.filesystem.volume import PowerLost

P = ParamSpec("P")
T = TypeVar("T")

STARTS_US_MAX = 200
"""Maximum time in µs for which a thread that can run waits for a CPU core."""
STEPS_MAX = 10_000_000


class SimWorkers:
    """Threads of one simulated process.

    `power_lost` is called if the power fails during a file operation of a thread's step. File operations of the event
    loop itself are not part of a step: their caller must handle `PowerLost`.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        random: Random,
        files: ProcessFiles,
        future: Callable[[], Future[object]],
        power_lost: Callable[[], None],
    ) -> None:
        self._scheduler = scheduler
        self._random = random
        self._files = files
        self._future = future
        self._power_lost = power_lost
        self._jobs: list[_SimWork] = []
        self._began_us: int | None = None
        """Time at which the current step started, or None between steps."""
        files.volume.attach(self.kill)

    def start(self, job: Job, name: str) -> Work:
        """Start a job in a simulated thread, and return a handle to it."""
        self._jobs = [work for work in self._jobs if work.is_under_way()]
        work = _SimWork(self, job, name)
        self._jobs.append(work)
        work.go_on_after(self.delay_us())
        return work

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Run one function call as a job with a single step."""
        future = self._future()

        def job() -> Job:
            try:
                result = function(*args, **kwargs)
            except Exception as failed:
                self.post(_fail, future, failed)
            else:
                self.post(_succeed, future, result)
            return
            yield GO_ON

        self.start(job(), "call")
        return future

    def breathe(self) -> None:
        """Do nothing. Real threads yield here, but a simulated step is never interrupted."""
        return

    def now_s(self) -> float:
        """Return the virtual time in seconds, including the durations of this step's operations so far."""
        return self.clock_ns() / 1e9

    def clock_ns(self) -> int:
        """Return the virtual time in ns, including the durations of this step's operations so far."""
        return (self._scheduler.now_us + (self._files.took_us if self._began_us is not None else 0)) * 1000

    def post(self, callback: Callable[..., object], *args: object) -> None:
        """Schedule a callback in the event loop.

        It is called when all operations that this step has executed so far have ended.
        """
        at_us = self._scheduler.now_us + (self._files.took_us if self._began_us is not None else 0)
        self._scheduler.post(at_us, lambda: callback(*args) if self._files.is_alive else None)

    def kill(self) -> None:
        """End the process and stop all its jobs."""
        self._files.kill()
        for work in self._jobs:
            work.stop_work()
        self._jobs.clear()

    def delay_us(self) -> int:
        """Return a random time in µs that a runnable thread waits for a CPU core."""
        return draw_below(self._random, STARTS_US_MAX + 1)

    def at(self, time_us: int, callback: Callable[[], None]) -> Call:
        """Schedule a call at that time."""
        return self._scheduler.at(time_us, callback)

    @property
    def now_us(self) -> int:
        """Virtual time in µs."""
        return self._scheduler.now_us

    def carry_out(self, job: Job) -> tuple[Pause | None, int]:
        """Run one step of a job.

        Return the pause after it (None if the job has ended), and the step's duration in µs.
        """
        outer_us, outer_took_us = self._began_us, self._files.took_us
        if outer_us is None:
            self._files.took_us = 0
        self._began_us = self._scheduler.now_us
        try:
            return next(job, None), self._files.took_us
        except PowerLost:
            if outer_us is not None:
                raise
            self._power_lost()
            return None, 0
        finally:
            self._began_us = outer_us
            if outer_us is None:
                self._files.took_us = outer_took_us


class _SimWork:
    """One job of a simulated process."""

    def __init__(self, workers: SimWorkers, job: Job, name: str) -> None:
        self.name = name
        self._workers = workers
        self._job: Job | None = job
        self._pause: Pause = GO_ON
        self._woken = False
        self._next: Call | None = None
        self._busy_until_us = 0
        """Time at which the last step ends. The effects of a step are already visible when it starts."""

    def wake(self) -> None:
        self._woken = True
        if self._job is not None and self._pause.heeds:
            self._pause = GO_ON
            self.go_on_after(self._workers.delay_us())

    def is_under_way(self) -> bool:
        return self._job is not None

    def join(self, within_s: float | None = None) -> None:
        """Run all remaining steps of the job now.

        Raises AssertionError if the job waits for an event and there is no time limit.
        """
        for _ in range(STEPS_MAX):
            if self._job is None:
                return
            if self._pause is WAIT and not self._woken:
                if within_s is not None:
                    return
                raise AssertionError(f"{self.name} is waited for, and waits itself")
            self._step()
        raise AssertionError(f"{self.name} does not end")

    def stop_work(self) -> None:
        """Stop the job, because its process has ended."""
        if self._next is not None:
            self._next.cancel()
        if (job := self._job) is not None:
            self._job = None
            with suppress(OSError, ValueError):
                job.close()

    def go_on_after(self, delay_us: int) -> None:
        """Schedule the next step of the job."""
        if self._next is not None:
            self._next.cancel()
        self._next = self._workers.at(max(self._workers.now_us, self._busy_until_us) + delay_us, self._step)

    def _step(self) -> None:
        if self._job is None:
            return
        self._woken = False
        job = self._job
        pause, took_us = self._workers.carry_out(job)
        if self._job is None:
            return
        if pause is None:
            self._job = None
            return
        self._busy_until_us = self._workers.now_us + took_us
        self._pause = GO_ON if pause.heeds and self._woken else pause
        if self._pause is not WAIT:
            self.go_on_after(round(self._pause.seconds * 1e6) + self._workers.delay_us())


def _succeed(future: Future[object], result: object) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: Future[object], failed: Exception) -> None:
    if not future.done():
        future.set_exception(failed)
