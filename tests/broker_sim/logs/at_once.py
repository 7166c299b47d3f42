"""Replacement for worker threads that runs each call immediately, for tests without an asyncio event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from zabka.ensemble.runtime.workers import Threads

P = ParamSpec("P")
T = TypeVar("T")


class AtOnce(Threads):
    """Replacement for worker threads: `call` runs the function in the calling thread."""

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function in the calling thread."""
        return function(*args, **kwargs)


AT_ONCE = AtOnce()
