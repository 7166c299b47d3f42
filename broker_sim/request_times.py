"""How long the broker's thread works on a request: what quotas of time are held against (shell).

The time between two waits of the request's coroutine, as Kafka counts what its threads spend on a request and not what
the request waits for.  Nothing is measured until a client has such a quota.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from time import perf_counter_ns
from types import coroutine
from typing import Any, TypeVar

from zabka.broker_sim.quotas.client_throttling import RequestTime

T = TypeVar("T")


class ThreadClock:
    """One request's time.  It runs from the beginning."""

    __slots__ = ("_began_ns", "_spent_ns")

    def __init__(self) -> None:
        self._spent_ns = 0
        self._began_ns = perf_counter_ns()

    def spent_ns(self) -> int:
        """Nanoseconds so far.  To be asked while it runs."""
        return self._spent_ns + perf_counter_ns() - self._began_ns

    @coroutine
    def measure(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Do the work; the clock stands while that waits."""
        step, argument = work.send, None
        while True:
            try:
                awaited = step(argument)
            except StopIteration as ended:
                result: T = ended.value
                return result
            self._spent_ns = self.spent_ns()
            try:
                argument, step = (yield awaited), work.send
            except BaseException as thrown:
                argument, step = thrown, work.throw
            self._began_ns = perf_counter_ns()


class RequestTimes:
    """Clocks for the requests of a broker, and where their times go."""

    def __init__(self, quota: RequestTime) -> None:
        self._quota = quota

    def clock(self) -> ThreadClock | None:
        """A clock for a request that is about to be read; None where nobody has a quota."""
        return ThreadClock() if self._quota.is_used else None

    def sent(self, client: str, spent_ns: int) -> None:
        """The answer was written in that time."""
        self._quota.add(client, spent_ns)
