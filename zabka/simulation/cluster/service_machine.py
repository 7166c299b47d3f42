"""Machines that run a test's own asyncio programs, unmodified, beside the peers and brokers of a world."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from zabka.simulation.engine.machine import Ground, Machine, SimProcess

Service = Callable[[str], Awaitable[None]]
"""A coroutine function; its argument is the brokers' bootstrap string, `host:port,…`."""

RESTART_US = 1_000_000
"""Time from the end of a program until it is started again, in µs."""


class ServiceMachine(Machine):
    """A computer that runs one program.  With `restarts`, the program is started again after it has failed."""

    def __init__(
        self, ground: Ground, name: str, address: str, service: Service, bootstrap: str, *, restarts: bool
    ) -> None:
        super().__init__(ground, name, address, self._run, on_exit=self._ended)
        self.failures: list[str] = []
        """The traceback of each run that ended with an exception."""
        self.has_returned = False
        """Whether the last run ended by itself, without an exception."""
        self._service = service
        self._bootstrap = bootstrap
        self._restarts = restarts

    @property
    def failure(self) -> str | None:
        """The traceback of the failure that ended the program, unless it is started again."""
        return self.failures[-1] if self.failures and not self._restarts else None

    def cancel(self) -> None:
        """Cancel the program's task, as asyncio does on Ctrl-C; do not start it again."""
        self._restarts = False
        if self.process is not None and self.process.main is not None:
            self.process.loop.call_soon(self.process.main.cancel)

    async def _run(self, process: SimProcess) -> None:
        assert self.ground.isolation is not None, "the world isolates the programs of tests"
        self.ground.isolation.loops.append(process.loop)
        self.has_returned = False
        await self._service(self._bootstrap)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        failure = None if task.cancelled() else task.exception()
        self.has_returned = failure is None
        if failure is None:
            return
        self.failures.append("".join(traceback.format_exception(failure)))
        if self._restarts:
            self.ground.scheduler.after(RESTART_US, self._start_again)

    def _start_again(self) -> None:
        # It may have lost power, have been started or cancelled, in the meantime.
        if self._restarts and self.kernel.has_power:
            self.start()
