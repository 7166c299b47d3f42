"""The client for asyncio programs."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from zabka.ensemble.client.asyncio_connector import AsyncioConnector
from zabka.ensemble.client.client import Client
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime


@asynccontextmanager
async def connect(
    hosts: str,
    *,
    session_timeout_ms: int = 10_000,
    ssl_context: ssl.SSLContext | None = None,
    name: str = "",
    read_only: bool = False,
) -> AsyncIterator[Client]:
    """Yield a connected `Client` for the `async with` block; close its session at the end.

    `hosts` is "h1:2181,h2:2181/chroot". Waits for a server without a time limit: set a limit with `asyncio.timeout` if
    necessary. With `read_only`, a server without a leader is accepted for reads until a server with a leader is found.
    Raises ValueError for bad `hosts`.
    """
    connector = AsyncioConnector(ssl_context=ssl_context)
    runtime = AsyncioRuntime(asyncio.get_running_loop(), owns_loop=False)
    client = Client(
        hosts, connector, runtime, session_timeout_ms=session_timeout_ms, name=name, read_only=read_only,
        asker=connector,
    )  # fmt: skip
    try:
        await client.start()
        yield client
    finally:
        await client.close()
