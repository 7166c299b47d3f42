"""Implements `zabka.ensemble.ports.Runtime` with asyncio or uvloop, for real client and broker processes."""

from __future__ import annotations

import asyncio
import random
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from zabka.ensemble.ports import Future, Instant, Random, Task, Timer

FailureHandler = Callable[[str, BaseException], None]
_NEVER_RETRIEVED = "Future exception was never retrieved"


def instant_now() -> Instant:
    """Return the current time of this machine's monotonic clock and wall clock."""
    # Do not call Instant's constructor: it is a slow Python function, and every turn of a peer begins with this call.
    return tuple.__new__(Instant, (time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000))


class AsyncioRuntime:
    """Time and tasks of one node.

    `on_failure(name, exception)` is called when a task or a callback of the loop fails; it must stop the node with an
    error. By default the traceback is printed and the loop is stopped. `seed` seeds the random source (for tests). Set
    `owns_loop=False` if other code owns the loop: its exception handler stays in place and, without `on_failure`,
    receives the exception of a failed task.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seed: int | None = None,
        *,
        on_failure: FailureHandler | None = None,
        owns_loop: bool = True,
    ) -> None:
        self._loop = loop
        self._random = random.Random(seed)
        self._on_failure = on_failure or (self._stop_loop if owns_loop else self._report)
        # Keep references to running tasks, because asyncio itself has only weak ones.
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._owns_loop = owns_loop
        if owns_loop:
            loop.set_exception_handler(self._on_loop_exception)

    def now(self) -> Instant:
        """Return the current time of the monotonic clock and of the wall clock."""
        return instant_now()

    def future(self) -> Future[Any]:
        """Return a new future."""
        future = self._loop.create_future()
        if not self._owns_loop:
            future.add_done_callback(_retrieve)
        return future

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> Task:
        """Start a task; if the coroutine raises an exception, pass it to `on_failure`."""
        task = self._loop.create_task(coroutine, name=name)
        self._tasks[id(task)] = task
        task.add_done_callback(self._on_task_done)
        return task

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once, after `delay_ms`."""
        return self._loop.call_later(delay_ms / 1000, callback)

    def sleep(self, delay_ms: int) -> Awaitable[None]:
        """Wait for `delay_ms` milliseconds."""
        return asyncio.sleep(delay_ms / 1000)

    @property
    def random(self) -> Random:
        """Return this node's random source."""
        return self._random

    async def finish_all(self) -> None:
        """Wait until every task has ended by itself, including tasks that are started during the wait."""
        while self._tasks:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def cancel_all(self) -> None:
        """Cancel every running task, and wait until all have ended."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(id(task), None)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._on_failure(task.get_name(), failure)

    def _on_loop_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        failure = context.get("exception")
        message = str(context.get("message", ""))
        if message == _NEVER_RETRIEVED or isinstance(failure, OSError) or failure is None:
            # Either no code awaited the result of a future, or a connection broke; the owner of the connection is
            # notified in another way.
            return
        self._on_failure(message, failure)

    def _stop_loop(self, name: str, failure: BaseException) -> None:
        sys.stderr.write(f"{name} failed\n")
        traceback.print_exception(failure)
        self._loop.stop()

    def _report(self, name: str, failure: BaseException) -> None:
        self._loop.call_exception_handler({"message": f"{name} failed", "exception": failure})


def _retrieve(future: asyncio.Future[Any]) -> None:
    """Mark the exception of a future as retrieved, so that asyncio does not log it if no code awaits the future."""
    if not future.cancelled():
        future.exception()
