"""Replaces Python's `time` functions for simulated processes: they return the world's clock plus the machine's skew.

Production code reads the monotonic clock and the wall clock directly from `time`.  During a turn, these functions
return the time of the process that is running; between turns they return the host's time.
"""

from __future__ import annotations

import asyncio
import time
from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Protocol


class Clocked(Protocol):
    """The clocks of the process that is running its turn."""

    def mono_ns(self) -> int:
        """Return the process's monotonic clock in nanoseconds."""
        ...

    def wall_ns(self) -> int:
        """Return the process's wall clock in nanoseconds."""
        ...

    def spend(self, duration_us: int) -> None:
        """Add `duration_us` to the time that the process spends in its turn."""
        ...


class Turn:
    """Holds the process whose turn is running in a world; None between turns."""

    def __init__(self) -> None:
        self.taker: Clocked | None = None

    @contextmanager
    def handed_over(self) -> Iterator[None]:
        """Let other processes run while this process waits within its own turn, as in a blocking call."""
        taker, loop = self.taker, _get_running_loop()
        task = None if loop is None else asyncio.current_task(loop)
        if loop is not None and task is not None:
            asyncio.tasks._leave_task(loop, task)
        _set_running_loop(None)
        try:
            yield
        finally:
            _set_running_loop(loop)
            if loop is not None and task is not None:
                asyncio.tasks._enter_task(loop, task)
            self.taker = taker


@contextmanager
def virtual_time(turn: Turn) -> Iterator[None]:
    """Make `time` return virtual time to the process that is running its turn, on the thread that runs the world.

    Other threads of the host's process (such as Spark's in a test run) get the host's time and do not advance virtual
    time.  The thread's current event loop is restored at the end.
    """
    player, hosts_loop = get_ident(), _get_running_loop()
    _set_running_loop(None)
    host = time.monotonic, time.monotonic_ns, time.time, time.time_ns, time.sleep
    monotonic, monotonic_ns, wall, wall_ns, sleep = host

    def now() -> float:
        taker = turn.taker
        return monotonic() if taker is None or get_ident() != player else taker.mono_ns() / 1e9

    def now_ns() -> int:
        taker = turn.taker
        return monotonic_ns() if taker is None or get_ident() != player else taker.mono_ns()

    def now_wall() -> float:
        taker = turn.taker
        return wall() if taker is None or get_ident() != player else taker.wall_ns() / 1e9

    def now_wall_ns() -> int:
        taker = turn.taker
        return wall_ns() if taker is None or get_ident() != player else taker.wall_ns()

    def rest(seconds: float, /) -> None:
        taker = turn.taker
        if taker is None or get_ident() != player:
            sleep(seconds)
        else:
            taker.spend(round(seconds * 1e6))

    time.monotonic, time.monotonic_ns, time.time, time.time_ns = now, now_ns, now_wall, now_wall_ns
    time.sleep = rest  # type: ignore[assignment]
    try:
        yield
    finally:
        time.monotonic, time.monotonic_ns, time.time, time.time_ns, time.sleep = host
        _set_running_loop(hosts_loop)
