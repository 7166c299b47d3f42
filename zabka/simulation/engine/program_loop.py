"""The event loop of a test's own program: tasks and futures whose order in sets does not depend on memory addresses.

`asyncio.wait` and similar functions keep tasks in sets.  The order of a set follows from the hashes of its members, and
the hash of a plain task is its address.
"""

from __future__ import annotations

import asyncio
import site
import sysconfig
from collections.abc import Coroutine
from contextvars import Context
from types import FrameType
from typing import Any, NamedTuple

from zabka.simulation.engine.loop import ProcessLoop

LIBRARIES = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), *site.getsitepackages()})
"""The folders of Python's own modules and of installed packages."""


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


class Step(NamedTuple):
    """A turn of a program: its moment, the program, and the place in the code where it continues."""

    at_us: int
    program: str
    place: str


class ProgramLoop(ProcessLoop):
    """A process's event loop that numbers its tasks and futures."""

    _steps: list[Step] | None = None
    _program = ""

    def trace(self, program: str, steps: list[Step]) -> None:
        """Append every turn of this program to `steps`."""
        self._program, self._steps = program, steps

    def _begin_turn(self) -> None:
        super()._begin_turn()
        if self._steps is not None and self._ready:
            self._steps.append(Step(self.scheduler.now_us, self._program, _place_of(self._ready[0]._callback)))

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


def _place_of(callback: object) -> str:
    """Return the innermost place outside installed packages where a task waits, or the name of another callback."""
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return str(getattr(callback, "__qualname__", type(callback).__name__))
    frames: list[FrameType] = []
    waiting: Any = task.get_coro()
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is not None:
            frames.append(frame)
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
    own = [frame for frame in frames if not frame.f_code.co_filename.startswith(LIBRARIES)] or frames
    return f"{own[-1].f_code.co_filename}:{own[-1].f_lineno}" if own else task.get_name()
