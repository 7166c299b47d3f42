"""The ports that coroutine code awaits: a clock, tasks and futures.

Client, controller and broker code is written as coroutines that await nothing but what these ports return.  Under
asyncio the ports are asyncio's; in a simulated world they are virtual.  Cancelling a task raises inside it
an exception that is not an `Exception` (asyncio's CancelledError or GeneratorExit), so `except Exception` never
swallows it; clean up with `try/finally` and await nothing there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, Protocol, TypeVar

T_contra = TypeVar("T_contra", contravariant=True)


class Instant(NamedTuple):
    """One moment on a node's two clocks.  Timers and timeouts use `mono_ms`; only timestamps use `wall_ms`."""

    mono_ms: int
    wall_ms: int


class Future(Protocol[T_contra]):
    """A value that arrives once.

    Resolving a future that is done or cancelled is an error of the caller: check `done()` first.
    """

    def set_result(self, result: T_contra, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...
    def done(self) -> bool: ...
    def __await__(self) -> Any: ...


class Task(Protocol):
    """A running coroutine."""

    def cancel(self) -> object: ...
    def done(self) -> bool: ...


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> object: ...


class Random(Protocol):
    """The random draws that protocol code may make; passed in, and seeded in the simulated world."""

    def randrange(self, start: int, stop: int, /) -> int: ...
    def random(self) -> float: ...
    def getrandbits(self, k: int, /) -> int: ...


class Runtime(Protocol):
    """Time and concurrency for coroutine code."""

    def now(self) -> Instant:
        """Both clocks, now."""
        ...

    def future(self) -> Future[Any]:
        """A fresh future."""
        ...

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> Task:
        """Start a task. An exception that escapes it stops the node with an error."""
        ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Call back once, after `delay_ms`."""
        ...

    def sleep(self, delay_ms: int) -> Awaitable[None]:
        """Wait `delay_ms`."""
        ...

    @property
    def random(self) -> Random:
        """This node's source of randomness."""
        ...
