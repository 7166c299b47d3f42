"""Clients: the coroutine client that brokers and tools use, and the kazoo-compatible shim over it.

    async with zabka.ensemble.client.connect("127.0.0.1:2181") as client:
        data, stat = await client.get("/controller")

Importing this package loads no submodule; `connect` loads asyncio, `KazooClient` loads kazoo. Brokers, tools and tests
import it; it imports the records and `auth`, but no server code. Begin with `client` (the operations), then `session`
(one session, with reconnects to other servers). Both do no I/O of their own; `asyncio_connector` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zabka.ensemble.client.aio import connect as connect
    from zabka.ensemble.client.kazoo import KazooClient as KazooClient

__all__ = ["KazooClient", "connect"]


def __getattr__(name: str) -> object:
    if name == "connect":
        from zabka.ensemble.client.aio import connect

        return connect
    if name == "KazooClient":
        from zabka.ensemble.client.kazoo import KazooClient

        return KazooClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
