"""Futures in virtual time, which coroutines can await."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from zabka.simulation.engine.scheduler import Scheduler

_PENDING = object()


class SimFuture:
    """A result that is set once, in virtual time (`zabka.ensemble.ports.Future`)."""

    __slots__ = ("_exception", "_result", "_scheduler", "_waiters")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._result: Any = _PENDING
        self._exception: BaseException | None = None
        self._waiters: tuple[Callable[[], object], ...] = ()

    def done(self) -> bool:
        """Return whether the future has a result or an exception."""
        return self._result is not _PENDING or self._exception is not None

    def set_result(self, result: Any) -> None:
        """Resolve the future with a result."""
        assert self._result is _PENDING and self._exception is None, "resolved twice"
        self._result = result
        if self._waiters:
            self._wake()

    def set_exception(self, exception: BaseException) -> None:
        """Resolve the future with an exception."""
        assert self._result is _PENDING and self._exception is None, "resolved twice"
        self._exception = exception
        if self._waiters:
            self._wake()

    def result(self) -> Any:
        """Return the result, or raise the exception, of a resolved future."""
        exception = self._exception
        if exception is None:
            assert self._result is not _PENDING, "not resolved yet"
            return self._result
        try:
            raise exception
        finally:
            # The traceback of the exception refers to this frame. Without this `del`, the two would be a reference
            # cycle.
            del exception, self

    def add_waiter(self, callback: Callable[[], object]) -> None:
        """Register a callback, which is scheduled when the future is resolved."""
        if self.done():
            self._scheduler.soon(callback)
        else:
            self._waiters += (callback,)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, ()
        for callback in waiters:
            self._scheduler.soon(callback)

    def __await__(self) -> Generator[SimFuture, None, Any]:
        if self._result is _PENDING and self._exception is None:
            yield self
        if self._exception is None:
            return self._result
        try:
            return self.result()
        finally:
            # Avoid the same reference cycle as in `result`.
            del self
