"""Machines that run a test's own asyncio programs, unmodified, next to the peers and brokers of a world."""

from __future__ import annotations

import asyncio
import signal
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from zabka.journal.cause import Cause
from zabka.journal.events import Event, NodeStarted, NodeStopped
from zabka.simulation.engine.loop import WALL_START_US
from zabka.simulation.engine.machine import Ground, Machine, SimProcess
from zabka.simulation.engine.program_loop import ProgramLoop
from zabka.simulation.record import Record

Service = Callable[[str], Awaitable[None]]
"""A test's own program: a coroutine function whose argument is the brokers' bootstrap string, `host:port,…`."""

RESTART_US = 1_000_000
"""Time from the end of a program to its restart, in µs."""

TERMINATED = 128 + signal.SIGTERM
"""Exit code of a program that SIGTERM ends."""


class ProgramExited(Exception):
    """A program called sys.exit with a code other than 0."""


class ProgramFailure(NamedTuple):
    """The exception that ended a program: its traceback, its type, and its stack frames."""

    text: str
    kind: str
    frames: Sequence[traceback.FrameSummary]


class ServiceMachine(Machine):
    """A computer that runs one program of a test.  With `restarts`, the program is restarted after a failure."""

    loop_class = ProgramLoop

    def __init__(
        self, ground: Ground, name: str, address: str, service: Service, bootstrap: str, *,
        record: Record, restarts: bool,
    ) -> None:  # fmt: skip
        super().__init__(ground, name, address, self._run, on_exit=self._ended)
        self.failures: list[str] = []
        """Tracebacks of the program's runs that ended with an exception."""
        self.has_returned = False
        """Whether the last run ended without an exception."""
        self.takes_faults = True
        """Whether randomly chosen faults are applied to this machine."""
        self.restarts = restarts
        """Whether the program is started again after a failure."""
        self._service = service
        self._bootstrap = bootstrap
        self._record = record
        self._is_cancelled = False
        self._is_terminated = False
        self._unreported: ProgramFailure | None = None

    def take_failure(self) -> ProgramFailure | None:
        """Return the failure after which the program was not restarted.

        Only the first call after the failure returns it. Later calls return None.
        """
        failure, self._unreported = self._unreported, None
        return failure

    def loose_failures(self) -> list[str]:
        """Return the tracebacks of failed tasks that the program did not await."""
        loop = None if self.process is None else self.process.loop
        return [_text(failure) for failure in loop.loose_failures()] if isinstance(loop, ProgramLoop) else []

    def start(self) -> None:
        """Run the program unless it is running."""
        if self.process is None:
            self.has_returned, self._unreported, self._is_terminated = False, None, False
        super().start()

    def terminate(self) -> bool:
        """Send SIGTERM; return False if the program has no handler for it."""
        self._is_terminated = True
        handled = self.process is not None and signal.SIGTERM in self.process.loop.signals
        if handled and self.process is not None:
            self.process.loop.terminate()
        return handled

    def step_clock(self, by_us: int) -> None:
        """Set the machine's wall clock forward by `by_us`, or back if it is negative."""
        self.skew_us += by_us
        if self.process is not None:
            self.process.loop.step_clock(by_us)

    def cancel(self) -> None:
        """Cancel the program's task, as asyncio does on Ctrl-C, and do not restart it."""
        self.restarts, self._is_cancelled = False, True
        if self.process is not None and self.process.main is not None:
            self.process.loop.call_soon(self.process.main.cancel)

    async def _run(self, process: SimProcess) -> None:
        assert self.ground.isolation is not None, "the world isolates the programs of tests"
        loop, isolation = process.loop, self.ground.isolation
        assert isinstance(loop, ProgramLoop), "the loop class of this machine"
        isolation.loops[loop] = self.name
        loop.trace(self.name, isolation.steps)
        self.write(NodeStarted("program", 0, {}))
        try:
            await self._service(self._bootstrap)
        except SystemExit as left:
            if left.code and not (self._is_terminated and left.code == TERMINATED):
                raise ProgramExited(f"exit code {left.code}") from left
        finally:
            await loop.cancel_all_but(process.main)
            del isolation.loops[loop]

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if self._is_cancelled:
            return
        failure = asyncio.CancelledError() if task.cancelled() else task.exception()
        self.has_returned = failure is None
        self.write(NodeStopped("returned" if failure is None else repr(failure)))
        if failure is None:
            return
        self.failures.append(_text(failure))
        if self.restarts:
            self.ground.scheduler.after(RESTART_US, self._start_again)
        else:
            frames = traceback.extract_tb(failure.__traceback__)
            self._unreported = ProgramFailure(self.failures[-1], type(failure).__name__, frames)

    def _start_again(self) -> None:
        # After the exit and before this call, the machine may have lost power, or the program may have been started or
        # cancelled.
        if self.restarts and self.kernel.has_power:
            self.start()

    def write(self, event: Event) -> Cause:
        """Write an event of this program to the journal, and return a reference that later events can cite as cause."""
        wall_us = WALL_START_US + self.skew_us + self.ground.scheduler.now_us
        return self._record.write(self.name, wall_us // 1000, event)


def _text(failure: BaseException) -> str:
    return "".join(traceback.format_exception(failure))
