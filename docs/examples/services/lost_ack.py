"""A shop that writes orders, with two reactions to a lost acknowledgement."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError


async def sell(bootstrap: str, orders: Iterable[int]) -> None:
    """The mistake: it sends an order again after two seconds, although the first attempt may have been stored."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", request_timeout_ms=2_000) as producer:
        for order in orders:
            while True:
                try:
                    await producer.send_and_wait("orders", str(order).encode())
                    break
                except KafkaError:
                    continue
            await asyncio.sleep(0.1)


async def sell_idempotently(bootstrap: str, orders: Iterable[int]) -> None:
    """Corrected version: only the producer retries, and the broker recognises its sequence numbers (KIP-98)."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True) as producer:
        for order in orders:
            await producer.send_and_wait("orders", str(order).encode())
            await asyncio.sleep(0.1)
