"""Supervises tasks that run as long as their process, and reports a task that ends unexpectedly."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from zabka.ensemble.runtime.asyncio_runtime import FailureHandler

RESTART_PAUSE_S = 1.0
"""Pause before a restart. It limits the CPU time used by a task that fails repeatedly right after its start."""

Report = Callable[[str, str, str], None]
"""Callback (task, reason, traceback): the task ended, and will be restarted."""


async def kept_up(name: str, work: Callable[[], Coroutine[Any, Any, None]], report: Report) -> None:
    """Run `work` until cancelled. Whenever it ends or fails, report this, pause, and run it again."""
    while True:
        trace = ""
        try:
            await work()
            reason = "it came to an end"
        except Exception as failure:
            reason = "; ".join(f"{type(each).__name__}: {each}" for each in _leaves(failure))
            trace = "".join(traceback.format_exception(failure))
        # Restart the work even if the report cannot be written.
        with contextlib.suppress(OSError):
            report(name, reason, trace)
        await asyncio.sleep(RESTART_PAUSE_S)


def _leaves(failure: BaseException) -> Iterator[BaseException]:
    if isinstance(failure, BaseExceptionGroup):
        for each in failure.exceptions:
            yield from _leaves(each)
    else:
        yield failure


class TaskEnded(Exception):
    """A task that its process requires has failed; the exception's cause is the task's exception."""


def report_task_failure(task: asyncio.Task[Any], on_failure: FailureHandler | None = None) -> None:
    """Pass the exception of a failed task to `on_failure` at once.

    Without `on_failure`, the loop's exception handler receives it as a TaskEnded, which stops a node
    (`AsyncioRuntime`). asyncio itself reports a failed task only when the last reference to it is dropped, which may
    never happen.
    """

    def ended(done: asyncio.Task[Any]) -> None:
        if done.cancelled() or (failure := done.exception()) is None:
            return
        if on_failure is not None:
            on_failure(done.get_name(), failure)
            return
        error = TaskEnded(f"{type(failure).__name__}: {failure}")
        error.__cause__ = failure
        done.get_loop().call_exception_handler({"message": f"{done.get_name()} failed", "exception": error})

    task.add_done_callback(ended)
