"""Worker processes that end with the command: on Ctrl-C after their current call, at once if the command is killed.

Without this, an executor's process waits for work for ever after its parent was killed (`timeout`, an aborted build),
because it receives no signal. On Ctrl-C an executor would also finish all calls that its processes have taken.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from itertools import islice
from multiprocessing import Event, Pipe
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event as Flag

T = TypeVar("T")

KILLED = "a worker process of this command was killed before it had finished. The machine may be out of memory"
"""The error message for BrokenProcessPool."""
_stopping: list[Flag] = []
"""Flag, used in a worker process, that the command sets when it ends."""


class _NotBegun(Exception):
    """The call was not started, because its result is no longer needed."""


def results_of(calls: Iterator[Callable[[], T]], jobs: int, ahead: int, begin: Callable[[], object]) -> Generator[T]:
    """Yield the results of the calls in order, from `jobs` processes, each of which first runs `begin`.

    `ahead` is the number of calls that are queued before the first has returned. The generator must be closed or
    exhausted. Raises BrokenProcessPool if a process was killed.
    """
    listening, held = Pipe(duplex=False)
    stopping = Event()
    waiting: deque[Future[T]] = deque()
    with (
        listening,
        held,
        ProcessPoolExecutor(jobs, initializer=_begin_worker, initargs=(listening, held, stopping, begin)) as pool,
    ):
        try:
            while True:
                # The worker processes start at the first call. They inherit the blocked SIGINT, because Ctrl-C would
                # otherwise end them as well.
                with _deaf_to_interrupts():
                    waiting.extend(pool.submit(_done, call) for call in islice(calls, ahead - len(waiting)))
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            stopping.set()


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker(listening: Connection, held: Connection, stopping: Flag, begin: Callable[[], object]) -> None:
    held.close()
    threading.Thread(target=_end_with_the_command, args=(listening,), name="end", daemon=True).start()
    _stopping.append(stopping)
    begin()


def _end_with_the_command(listening: Connection) -> None:
    # No data is ever sent on this pipe. It becomes readable when the last process with the other end has exited,
    # that is, when the command has ended.
    wait([listening])
    os._exit(1)


def _done(call: Callable[[], T]) -> T:
    if _stopping[0].is_set():
        raise _NotBegun
    return call()
