"""Asynchronous variants of a live cluster's blocking calls, for tests whose clients need a running event loop.

A client of aiokafka sends its heartbeats from the test's event loop. If a blocking call stops this loop for too long,
the coordinator removes the client from its group. Run the other blocking calls, such as `cluster.brokers[1].kill()`, in
a thread with `await asyncio.to_thread(...)`.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeVar, overload

from zabka.testing.cluster import Cluster, ClusterFailed
from zabka.testing.conditions import Wait
from zabka.testing.records import IsolationLevel, Payload, Record

T = TypeVar("T")

POLL_S = 0.05


class AsyncWaits:
    """Asynchronous variant of an ensemble's `until`, which does not block the event loop."""

    @overload
    async def until(
        self, condition: Callable[[], Awaitable[T | Literal[False] | None]], timeout_s: float = ..., what: str = ...
    ) -> T: ...

    @overload
    async def until(
        self, condition: Callable[[], T | Literal[False] | None], timeout_s: float = ..., what: str = ...
    ) -> T: ...

    async def until(self, condition: Callable[[], Any], timeout_s: float = 30.0, what: str = "") -> Any:
        """Poll until the condition returns a true value, and return that value.

        A condition that is a coroutine function runs on the event loop. Any other condition runs in a thread, because
        it can block. Raises ClusterFailed after `timeout_s`, like `Cluster.until`.
        """
        wait = Wait[Any](condition, timeout_s, what)
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            with wait.evaluation() as found:
                found.append(await _evaluate(condition, left_s))
            if found:
                return found[0]
            await asyncio.sleep(POLL_S)
        raise ClusterFailed(wait.failure())


class AsyncCalls(AsyncWaits):
    """Asynchronous variants of a cluster's calls, which do not block the event loop."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def produce(
        self,
        topic: str,
        values: Sequence[Payload | Record],
        partition: int = 0,
        *,
        acks: int = -1,
        timeout_s: float = 10.0,
    ) -> int:
        """Write values or records, in one batch per partition, and return the offset of the first record."""
        return await asyncio.to_thread(self._cluster.produce, topic, values, partition, acks=acks, timeout_s=timeout_s)

    async def consume(self, topic: str, partition: int = 0, *, timeout_s: float = 10.0) -> list[str]:
        """Return every committed value of a partition as a string, in order."""
        return await asyncio.to_thread(self._cluster.consume, topic, partition, timeout_s=timeout_s)

    async def records(
        self,
        topic: str,
        partition: int | None = None,
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
        timeout_s: float = 10.0,
    ) -> list[Record]:
        """Return the committed records of a partition, or those of all partitions in partition order.

        These are the records below the high watermark or, with read_committed, below the last stable offset.
        """
        return await asyncio.to_thread(
            self._cluster.records, topic, partition, isolation_level=isolation_level, timeout_s=timeout_s
        )


async def _evaluate(condition: Callable[[], object], timeout_s: float) -> object:
    """Return the condition's value.

    If the condition is a coroutine that takes longer than `timeout_s`, raise TimeoutError. A condition that is a plain
    function runs in a thread, which is not stopped.
    """
    value = condition() if inspect.iscoroutinefunction(condition) else await asyncio.to_thread(condition)
    if not inspect.isawaitable(value):
        return value
    async with asyncio.timeout(timeout_s):
        return await value
