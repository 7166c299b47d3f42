"""A worker that bills orders, and sends an order that it cannot bill to a dead-letter topic.

`Mistake` lists its possible mistakes. Without a mistake, the worker bills each order once during its lifetime, and
loses no dead letter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from enum import Enum

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

ORDERS, DEAD_LETTERS, GROUP = "orders", "dead-letters", "billing"
COMMIT_EVERY = 5

Bill = Callable[[int], None]
"""Bills an order. Raises ValueError if it cannot."""


class Mistake(Enum):
    """The mistakes that the worker can make."""

    PLAIN_PRODUCER = "Its producer is not idempotent, so a letter whose acknowledgement is lost is stored twice."
    IMPATIENT_PRODUCER = (
        "It skips a letter that is not stored within 0.2 s, for which no leader's move is short enough."
    )
    BROAD_EXCEPT = "It takes a commit that fails for an order that cannot be billed."
    LATE_COMMIT = "It does not commit before its partitions are revoked, and bills orders again."
    SECOND_SEND = "It sends a letter again if there is no answer within 0.3 s, although the first is on its way."
    ONE_LOOK = "It looks for the dead-letter topic at its start only, and drops letters if it does not find it."
    SHORT_FLUSH = "It commits before its letters are stored, and at its end waits 0.5 s for them."


class Worker(ConsumerRebalanceListener):  # type: ignore[misc]
    """A worker, which is a member of a consumer group."""

    def __init__(self, bootstrap: str, bill: Bill, mistake: Mistake | None = None) -> None:
        """Create the worker; like aiokafka's clients, it needs a running event loop."""
        self._bill = bill
        self._mistake = mistake
        self._done: dict[TopicPartition, int] = {}
        self._handled = 0
        self._has_topic = True
        self._orders = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, client_id="worker", group_id=GROUP, auto_offset_reset="earliest",
            enable_auto_commit=False, heartbeat_interval_ms=500, session_timeout_ms=10_000,
        )  # fmt: skip
        self._letters = AIOKafkaProducer(
            bootstrap_servers=bootstrap, client_id="worker", acks="all", retry_backoff_ms=100,
            enable_idempotence=mistake not in (Mistake.PLAIN_PRODUCER, Mistake.IMPATIENT_PRODUCER),
            request_timeout_ms=200 if mistake is Mistake.IMPATIENT_PRODUCER else 40_000,
        )  # fmt: skip

    async def run(self, orders: int) -> None:
        """Bill orders; return after the given number of orders."""
        self._orders.subscribe([ORDERS], listener=self)
        await self._orders.start()
        await self._letters.start()
        try:
            if self._mistake is Mistake.ONE_LOOK:
                self._has_topic = DEAD_LETTERS in await self._orders.topics()
            while self._handled < orders:
                await self._handle(await self._orders.getone())
            await self._commit()
        finally:
            await self._stop()

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """Commit the offsets of the billed orders, before another member continues from there."""
        if self._mistake is not Mistake.LATE_COMMIT:
            await self._commit()
        self._done.clear()

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """Do nothing: by default, the consumer starts at the committed offsets."""

    async def _handle(self, order: ConsumerRecord) -> None:
        self._handled += 1
        if self._mistake is Mistake.BROAD_EXCEPT:
            try:
                self._bill(int(order.value))
                await asyncio.wait_for(self._settle(order), 1)
            except Exception:
                await self._pass_on(order.value)
            return
        try:
            self._bill(int(order.value))
        except ValueError:
            await self._pass_on(order.value)
        await self._settle(order)

    async def _settle(self, order: ConsumerRecord) -> None:
        self._done[TopicPartition(order.topic, order.partition)] = order.offset + 1
        if self._handled % COMMIT_EVERY == 0:
            await self._commit()

    async def _commit(self) -> None:
        if self._done:
            await self._orders.commit(dict(self._done))

    async def _pass_on(self, letter: bytes) -> None:
        """Send an order to the dead-letter topic."""
        if self._mistake is Mistake.ONE_LOOK and not self._has_topic:
            return
        if self._mistake is Mistake.SHORT_FLUSH:
            await self._letters.send(DEAD_LETTERS, letter)
        elif self._mistake is Mistake.IMPATIENT_PRODUCER:
            with suppress(KafkaError):
                await self._letters.send_and_wait(DEAD_LETTERS, letter)
        elif self._mistake is Mistake.SECOND_SEND:
            await self._send_again(letter)
        else:
            await self._letters.send_and_wait(DEAD_LETTERS, letter)

    async def _send_again(self, letter: bytes) -> None:
        for _ in range(3):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._letters.send_and_wait(DEAD_LETTERS, letter), 0.3)
                return

    async def _stop(self) -> None:
        if self._mistake is Mistake.SHORT_FLUSH:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._letters.stop(), 0.5)
        else:
            await self._letters.stop()
        await self._orders.stop()
