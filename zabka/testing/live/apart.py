"""Runs coroutines in a separate thread, even if the calling thread runs an event loop.

pytest sets a fixture up in the thread of its test. An event loop can already run there, started by Playwright's
synchronous API or by a plugin for asynchronous tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in another thread, and return its result."""
    with ThreadPoolExecutor(1, thread_name_prefix="zabka-test") as threads:
        return threads.submit(lambda: asyncio.run(work())).result()
