"""Tasks that go on for as long as their process does: one that ends unexpectedly is told, never missed."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from zabka.ensemble.runtime.asyncio_runtime import FailureHandler

RESTART_PAUSE_S = 1.0
"""A task that fails at once, again and again, must not take a whole processor for it."""

Told = Callable[[str, str, str], None]
"""(task, reason, traceback): a task ended, and will be begun again."""


async def kept_up(name: str, work: Callable[[], Coroutine[Any, Any, None]], told: Told) -> None:
    """Do this work until cancelled; where it ends by itself or fails, tell so and begin it again after a pause."""
    while True:
        trace = ""
        try:
            await work()
            reason = "it came to an end"
        except Exception as failure:
            reason = "; ".join(f"{type(each).__name__}: {each}" for each in _leaves(failure))
            trace = "".join(traceback.format_exception(failure))
        # Where the word of it cannot be written, the work goes on all the same.
        with contextlib.suppress(OSError):
            told(name, reason, trace)
        await asyncio.sleep(RESTART_PAUSE_S)


def _leaves(failure: BaseException) -> Iterator[BaseException]:
    if isinstance(failure, BaseExceptionGroup):
        for each in failure.exceptions:
            yield from _leaves(each)
    else:
        yield failure


class TaskEnded(Exception):
    """A task that its process cannot do without failed; its cause says of what."""


def ends_loudly(task: asyncio.Task[Any], on_failure: FailureHandler | None = None) -> None:
    """Hand an exception that escapes a task to `on_failure`, at once; without it to the loop's exception handler, as a
    TaskEnded, at which a node ends (`AsyncioRuntime`).

    asyncio itself speaks only when the last reference to a failed task goes, which may be never.
    """

    def ended(done: asyncio.Task[Any]) -> None:
        if done.cancelled() or (failure := done.exception()) is None:
            return
        if on_failure is not None:
            on_failure(done.get_name(), failure)
            return
        told = TaskEnded(f"{type(failure).__name__}: {failure}")
        told.__cause__ = failure
        done.get_loop().call_exception_handler({"message": f"{done.get_name()} failed", "exception": told})

    task.add_done_callback(ended)
