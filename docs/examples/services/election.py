"""Workers of which only one must write at a time: the owner of the ephemeral znode /leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from zabka.ensemble.client.aio import connect
from zabka.ensemble.errors import NodeExists, ZooKeeperError

Write = Callable[[str, int], None]
"""Writes to a store in the name of a worker; its second argument is the fencing token, or 0 without one."""


async def lead(hosts: str, name: str, write: Write) -> None:
    """The mistake: after a pause, it writes although its session has expired and another worker leads."""
    await _lead(hosts, name, lambda _: write(name, 0))


async def lead_with_token(hosts: str, name: str, write: Write) -> None:
    """The correction: it passes the zxid of its znode, and the store rejects a zxid lower than the highest one so
    far.
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
