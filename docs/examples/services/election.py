"""Workers that take turns: only the worker that has created the ephemeral znode /leader is allowed to write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from zabka.ensemble.client.aio import connect
from zabka.ensemble.errors import NodeExists, ZooKeeperError

Write = Callable[[str, int], None]
"""Function that writes to a store.

Its arguments are a worker's name and the worker's fencing token (0 if it has none).
"""


async def lead(hosts: str, name: str, write: Write) -> None:
    """The mistake: after a pause, the worker writes although its session has expired and another worker leads."""
    await _lead(hosts, name, lambda _: write(name, 0))


async def lead_with_token(hosts: str, name: str, write: Write) -> None:
    """Corrected version: the worker sends the zxid of its znode with each write, as a fencing token.

    The store rejects a write whose zxid is lower than the highest one so far.
    """
    await _lead(hosts, name, lambda token: write(name, token))


async def _lead(hosts: str, name: str, write: Callable[[int], None]) -> None:
    async with connect(hosts, session_timeout_ms=4_000, name=name) as client:
        while True:
            try:
                await client.create("/leader", name.encode(), ephemeral=True)
            except NodeExists:
                await asyncio.sleep(0.5)
                continue
            token = int((await client.get("/leader"))[1].czxid)
            for _ in range(20):
                if await client.exists("/leader") is None:
                    break
                # Simulate work whose last step is a write to the store.
                await asyncio.sleep(0.2)
                write(token)
            with suppress(ZooKeeperError):
                await client.delete("/leader")
