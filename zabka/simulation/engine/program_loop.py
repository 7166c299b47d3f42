"""The event loop of a test's own program: tasks and futures whose order in sets does not depend on memory addresses.

`asyncio.wait` and similar functions keep tasks in sets.  The order of a set follows from the hashes of its members, and
the hash of a plain task is its address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any

from zabka.simulation.engine.loop import ProcessLoop


class NumberedTask(asyncio.Task[Any]):
    """A task with a number as its hash."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **options: Any) -> None:
        # Creation already puts the task into a set.
        self.number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number


class NumberedFuture(asyncio.Future[Any]):
    """A future with a number as its hash."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self.number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class ProgramLoop(ProcessLoop):
    """A process's event loop that numbers its tasks and futures."""

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        self._task_number += 1
        return NumberedFuture(self._task_number, self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        """Start a task; a task without a name gets its number."""
        self._task_number += 1
        number = self._task_number
        task = NumberedTask(number, coro, loop=self, name=name or f"task {number}", context=context)
        self.keep(task)
        return task

    def loose_failures(self) -> list[BaseException]:
        """Return the exceptions of ended tasks that nothing has awaited."""
        # asyncio itself reports such an exception when the task is deleted; here the loop keeps it.
        loose = [task for task in self._tasks if task.done() and getattr(task, "_log_traceback", False)]
        return [failure for task in loose if (failure := task.exception()) is not None]
