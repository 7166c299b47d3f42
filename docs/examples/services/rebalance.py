"""Members of a consumer group that ship orders while a partition moves from one member to another."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Protocol

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError


class Warehouse(Protocol):
    """The warehouse. Its state remains when group members stop or fail."""

    def ship(self, order: int) -> None:
        """Ship an order. A second call for the same order ships it twice."""

    def ship_once(self, order: int, partition: int, offset: int) -> None:
        """Ship an order and store its offset in one transaction; ignore an offset that is already stored."""


def member(bootstrap: str) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id="shipping",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=1_000,
    )


async def ship_by_group(bootstrap: str, warehouse: Warehouse) -> None:
    """The incorrect version, which relies on the group to deliver each order to one member only.

    If the partition moves while an order is shipped, the commit fails, and the next owner ships the order again.
    """
    async with member(bootstrap) as orders:
        async for order in orders:
            await asyncio.sleep(0.1)
            warehouse.ship(int(order.value))
            await _commit(orders)


async def ship_by_offset(bootstrap: str, warehouse: Warehouse) -> None:
    """Corrected version: ship each order only once, even if a partition moves.

    The warehouse stores the offset together with the shipment, and ignores a second attempt for the same offset.
    """
    async with member(bootstrap) as orders:
        async for order in orders:
            await asyncio.sleep(0.1)
            warehouse.ship_once(int(order.value), order.partition, order.offset)
            await _commit(orders)


async def _commit(orders: AIOKafkaConsumer) -> None:
    # If the partition has moved, its next owner begins at the last committed offset.
    with suppress(KafkaError):
        await orders.commit()
