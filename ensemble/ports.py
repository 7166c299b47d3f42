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
    """One moment on a node's two clocks. Timers and timeouts use `mono_ms`; only timestamps use `wall_ms`."""

    mono_ms: int
    wall_ms: int


class Future(Protocol[T_contra]):
    """Result of an operation in progress, which is set once.

    The caller must check `done()` before it resolves a future: resolving a done or cancelled future is an error.
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
    """A scheduled call."""

    def cancel(self) -> object: ...


class Random(Protocol):
    """Random draws that protocol code may make. The source is passed in, and seeded in the simulated world."""

    def randrange(self, start: int, stop: int, /) -> int: ...
    def random(self) -> float: ...
    def getrandbits(self, k: int, /) -> int: ...


class Runtime(Protocol):
    """Time and concurrency for coroutine code."""

    def now(self) -> Instant:
        """Return the present time of both clocks."""
        ...

    def future(self) -> Future[Any]:
        """Return a new future."""
        ...

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> Task:
        """Start a task. An exception that escapes it stops the node with an error."""
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
