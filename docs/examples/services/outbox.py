"""A shop that stores an order in its own database, and publishes it to a topic.

The database is a file with one line for each change, synced before the program continues.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from typing import IO, Any, Protocol

from aiokafka import AIOKafkaProducer

ORDERS = 20


class Path(Protocol):
    """The part of `pathlib.Path` that the database uses."""

    def exists(self) -> bool: ...
    def open(self, mode: str = "r") -> IO[Any]: ...
    def read_text(self) -> str: ...


class Database:
    """Stores orders, and whether each order has been published."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.orders: list[int] = []
        self.published: set[int] = set()
        for line in path.read_text().splitlines() if path.exists() else ():
            change = json.loads(line)
            self._apply(change)

    def _apply(self, change: dict[str, int]) -> None:
        if "order" in change:
            self.orders.append(change["order"])
        else:
            self.published.add(change["published"])

    async def write(self, **change: int) -> None:
        """Append a change to the file durably."""
        await asyncio.sleep(0.01)
        with self._path.open("a") as file:
            file.write(json.dumps(change) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._apply(change)

    def unpublished(self) -> Iterator[int]:
        """Yield the orders that are still to be published."""
        yield from [order for order in self.orders if order not in self.published]


def _producer(bootstrap: str) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, linger_ms=20)


async def sell(bootstrap: str, path: Path) -> None:
    """The mistake: if the shop is killed between the two awaits, the order is stored but never published."""
    database = Database(path)
    async with _producer(bootstrap) as producer:
        for order in range(len(database.orders), ORDERS):
            await database.write(order=order)
            await producer.send_and_wait("orders", str(order).encode())
            await asyncio.sleep(0.1)


async def sell_with_outbox(bootstrap: str, path: Path) -> None:
    """The correction of `sell`: every stored order is published, if necessary after a restart.

    Some orders are published twice.
    """
    database = Database(path)
    async with _producer(bootstrap) as producer:
        while True:
            for order in database.unpublished():
                await producer.send_and_wait("orders", str(order).encode())
                await database.write(published=order)
            if len(database.orders) == ORDERS:
                return
            await database.write(order=len(database.orders))
            await asyncio.sleep(0.1)
