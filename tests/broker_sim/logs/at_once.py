"""Helping hands that do each call at once, for tests in which no event loop of asyncio's runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from zabka.ensemble.runtime.workers import Threads

P = ParamSpec("P")
T = TypeVar("T")


class AtOnce(Threads):
    """As the host's threads, but for calls."""

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do it now."""
        return function(*args, **kwargs)


AT_ONCE = AtOnce()
