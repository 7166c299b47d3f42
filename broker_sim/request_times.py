"""The time of the broker's thread that requests take, for request quotas (shell).

Only the time between two waits of a request's coroutine counts. Kafka likewise counts the time of its threads, not the
time that a request waits. Measurement starts when a client first has such a quota.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from time import perf_counter_ns
from types import coroutine
from typing import Any, TypeVar

from zabka.broker_sim.quotas.client_throttling import RequestTime

T = TypeVar("T")


class ThreadClock:
    """One request's time. The clock runs from its creation."""

    __slots__ = ("_began_ns", "_spent_ns")

    def __init__(self) -> None:
        self._spent_ns = 0
        self._began_ns = perf_counter_ns()

    def spent_ns(self) -> int:
        """Return the nanoseconds measured so far. The clock may still be running."""
        return self._spent_ns + perf_counter_ns() - self._began_ns

    @coroutine
    def measure(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Run the work. The clock stops while the work waits."""
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
    """Clocks for a broker's requests, and the quotas that the measured times are charged to."""

    def __init__(self, quota: RequestTime) -> None:
        self._quota = quota

    def clock(self) -> ThreadClock | None:
        """Return a clock for a request about to be read, or None if there is no request quota."""
        return ThreadClock() if self._quota.is_used else None

    def sent(self, client: str, spent_ns: int) -> None:
        """Charge the time of writing a response."""
        self._quota.add(client, spent_ns)
