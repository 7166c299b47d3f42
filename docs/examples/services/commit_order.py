"""A consumer that bills orders, and commits its offset either before or after the billing.

The ledger survives the program, like a database or another service.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiokafka import AIOKafkaConsumer


def consumer(bootstrap: str) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6_000,
    )


async def bill_after_commit(bootstrap: str, bill: Callable[[int], None]) -> None:
    """The mistake: it commits before the billing, so an order whose billing is interrupted is never read again."""
    async with consumer(bootstrap) as orders:
        async for order in orders:
            await orders.commit()
            await asyncio.sleep(0.05)
            bill(int(order.value))


async def bill_before_commit(bootstrap: str, bill: Callable[[int], None]) -> None:
    """Corrected variant: orders whose processing was interrupted are read again.

    `bill` must therefore accept an order twice.
    """
    async with consumer(bootstrap) as orders:
        async for order in orders:
            await asyncio.sleep(0.05)
            bill(int(order.value))
            await orders.commit()
