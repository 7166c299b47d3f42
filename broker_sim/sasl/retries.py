"""Repeats a call that can fail for a while, as Kafka's Retry does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from zabka.ensemble.ports import Runtime

T = TypeVar("T")


class Unavailable(Exception):
    """A resource that cannot be read. The message gives the reason. With `is_final`, another try is useless."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


async def with_retries(call: Callable[[], Awaitable[T]], runtime: Runtime, backoff_ms: int, backoff_ms_max: int) -> T:
    """Return the result of a call. After a failure, wait for pauses that double, until the maximum time has passed.

    Raises Unavailable with the last reason and the number of tries.
    """
    began_ms = runtime.now().mono_ms
    tries = 0
    while True:
        tries += 1
        try:
            return await call()
        except Unavailable as failed:
            left_ms = began_ms + backoff_ms_max - runtime.now().mono_ms
            pause_ms = min(backoff_ms << (tries - 1), left_ms)
            if pause_ms <= 0 or failed.is_final:
                count = f" (tried {tries} times)" if tries > 1 else ""
                raise Unavailable(f"{failed}{count}") from None
        await runtime.sleep(pause_ms)
