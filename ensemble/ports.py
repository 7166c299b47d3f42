"""Interfaces (ports) that coroutine code uses: a clock, tasks and futures.

Client, controller and broker code is written as coroutines that await only what these ports return. In a real process
asyncio implements the ports; in a simulated world they are virtual. Cancelling a task raises an exception inside it
that is not an `Exception` (asyncio's CancelledError or GeneratorExit), so `except Exception` never catches it; clean
up with `try/finally`, and await nothing in the `finally`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, Protocol, TypeVar

T_contra = TypeVar("T_contra", contravariant=True)


class Instant(NamedTuple):
    """One moment on a node's two clocks, monotonic and wall clock.

    Timers and timeouts use `mono_ms`; only timestamps use `wall_ms`.
    """

    mono_ms: int
    wall_ms: int


class Future(Protocol[T_contra]):
    """Result of an operation in progress; it can be set only once.

    Code that sets the result must check `done()` first: setting the result of a done or cancelled future is an error.
    """

    def set_result(self, result: T_contra, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...
    def done(self) -> bool: ...
    def __await__(self) -> Any: ...


class Task(Protocol):
    """Interface of a running coroutine."""

    def cancel(self) -> object: ...
    def done(self) -> bool: ...


class Timer(Protocol):
    """A scheduled call, which can be cancelled."""

    def cancel(self) -> object: ...


class Random(Protocol):
    """Random source for protocol code. The caller passes it in; in the simulated world it is seeded."""

    def randrange(self, start: int, stop: int, /) -> int: ...
    def random(self) -> float: ...
    def getrandbits(self, k: int, /) -> int: ...


class Runtime(Protocol):
    """Interface for time and concurrency: clocks, timers, futures and tasks."""

    def now(self) -> Instant:
        """Return the current time of the monotonic clock and of the wall clock."""
        ...

    def future(self) -> Future[Any]:
        """Return a new future."""
        ...

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> Task:
        """Start a task. If the coroutine raises an exception, the node stops with that error."""
        ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once, after `delay_ms`."""
        ...

    def sleep(self, delay_ms: int) -> Awaitable[None]:
        """Wait for `delay_ms` milliseconds."""
        ...

    @property
    def random(self) -> Random:
        """Return this node's random source."""
        ...
