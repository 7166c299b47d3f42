"""Worker processes that exit together with the command that started them.

On Ctrl-C, a worker first completes its current call. If the command is killed, its workers exit at once. A worker
process of concurrent.futures receives no signal if its parent is killed (`timeout`, an aborted build), and would wait
for work forever. On Ctrl-C, it would also finish all calls that are already queued for it.
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
"""Error message for BrokenProcessPool."""
_stopping: list[Flag] = []
"""In a worker process: the flag that the command sets when it exits. The list has at most one element."""


class _NotBegun(Exception):
    """The worker process did not start the call, because the command no longer needs its result."""


def results_of(calls: Iterator[Callable[[], T]], jobs: int, ahead: int, begin: Callable[[], object]) -> Generator[T]:
    """Run the calls in `jobs` processes, each of which first runs `begin`. Yield the results in order.

    `ahead` is the number of calls that are queued before the first one returns. The caller must close or exhaust the
    generator. Raises BrokenProcessPool if a process is killed.
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
                # The worker processes start at the first call. They inherit the blocked SIGINT, so Ctrl-C does not end
                # them.
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
    # No data is ever sent through this pipe. It becomes readable when every process with the other end has exited, that
    # is, when the command has exited.
    wait([listening])
    os._exit(1)


def _done(call: Callable[[], T]) -> T:
    if _stopping[0].is_set():
        raise _NotBegun
    return call()
