"""Measures the time that requests take in the broker's thread, for request quotas. Reads a real clock.

Only the time between two waits of a request's coroutine counts. Kafka likewise counts the time of its threads, not the
time that a request waits. Measurement starts when a client first has a request quota.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from time import perf_counter_ns
from types import coroutine
from typing import Any, TypeVar

from zabka.broker_sim.quotas.client_meters import ANONYMOUS_USER
from zabka.broker_sim.quotas.client_throttling import RequestTime

T = TypeVar("T")


class ThreadClock:
    """Measures the time of one request, from the clock's creation on."""

    __slots__ = ("_began_ns", "_spent_ns")

    def __init__(self) -> None:
        self._spent_ns = 0
        self._began_ns = perf_counter_ns()

    def spent_ns(self) -> int:
        """Return the nanoseconds measured so far. The clock may still be running."""
        return self._spent_ns + perf_counter_ns() - self._began_ns

    @coroutine
    def measure(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Run the work. The clock stops while the work is suspended."""
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
    """Creates the clocks of a broker's requests, and charges the measured times to the quotas."""

    def __init__(self, quota: RequestTime) -> None:
        self._quota = quota

    def clock(self) -> ThreadClock | None:
        """Return a clock for the next request, or None if no client has a request quota."""
        return ThreadClock() if self._quota.is_used else None

    def sent(self, client: str, spent_ns: int, user: str = ANONYMOUS_USER) -> None:
        """Charge the time of writing a response to its client."""
        self._quota.add(client, spent_ns, user)
