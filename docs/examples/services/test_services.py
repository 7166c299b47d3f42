"""Tests of six services, each with a classic mistake and a correction.

Some of 50 seeds find the mistake; the correction passes with all seeds. `ZABKA_MISTAKES=1 pytest` runs the mistakes:
each test then fails, with the story of its first failing seed.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import auction
import commit_order
import election
import lost_ack
import outbox
import rebalance
from aiokafka import AIOKafkaProducer

from zabka.testing import SimulatedWorld, simulated

MISTAKES = bool(os.environ.get("ZABKA_MISTAKES"))
SEEDS = int(os.environ.get("ZABKA_SEEDS", "50" if MISTAKES else "10"))
ORDERS = range(20)
ALONE: dict[str, Any] = {"seeds": SEEDS, "peers": 1, "brokers": 1, "faults_s": 8.0}

Program = Callable[[str], Awaitable[None]]


async def shop(bootstrap: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True) as producer:
        for order in ORDERS:
            await producer.send_and_wait("orders", str(order).encode(), partition=order % 2)
            await asyncio.sleep(0.1)


@simulated(**ALONE, faults="kill_program")
async def test_every_order_is_billed(world: SimulatedWorld) -> None:
    bill = commit_order.bill_after_commit if MISTAKES else commit_order.bill_before_commit
    billed: set[int] = set()

    def keep(order: int) -> None:
        billed.add(order)
        world.note("billed", order=order)

    world.topics.create("orders", partitions=2)
    world.start("billing", lambda bootstrap: bill(bootstrap, keep), restarts=True)
    world.start("shop", shop)
    await world.until(lambda: billed == set(ORDERS), within=60)


class Warehouse:
    """Counts the shipped orders; `done` contains the stored offsets."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.shipped: Counter[int] = Counter()
        self._world = world
        self._done: set[tuple[int, int]] = set()

    def ship(self, order: int) -> None:
        self.shipped[order] += 1
        self._world.note("shipped", order=order)

    def ship_once(self, order: int, partition: int, offset: int) -> None:
        if (partition, offset) not in self._done:
            self._done.add((partition, offset))
            self.ship(order)


@simulated(**ALONE, faults="pause_program,cut_program,kill_program")
async def test_every_order_is_shipped_once(world: SimulatedWorld) -> None:
    ship = rebalance.ship_by_group if MISTAKES else rebalance.ship_by_offset
    warehouse = Warehouse(world)
    world.topics.create("orders", partitions=2)
    for name in ("first", "second"):
        world.start(name, lambda bootstrap: ship(bootstrap, warehouse), restarts=True)
    world.start("shop", shop)
    await world.until(lambda: set(warehouse.shipped) == set(ORDERS), within=120)
    await asyncio.sleep(20)
    assert set(warehouse.shipped.values()) == {1}


@simulated(seeds=SEEDS, peers=1, brokers=3, faults_s=8.0, faults="crash_broker,cut_program,cut_brokers,delay_program")
async def test_every_order_is_stored_once(world: SimulatedWorld) -> None:
    sell = lost_ack.sell if MISTAKES else lost_ack.sell_idempotently
    world.topics.create("orders", config={"min.insync.replicas": "2"})
    service = world.start("shop", lambda bootstrap: sell(bootstrap, ORDERS))
    await world.until(lambda: service.has_returned, within=120)
    assert world.cluster.consume("orders") == [str(order) for order in ORDERS]


@simulated(seeds=SEEDS, peers=1, brokers=0, faults="pause_program,cut_program")
async def test_only_one_leader_writes_at_a_time(world: SimulatedWorld) -> None:
    lead = election.lead if MISTAKES else election.lead_with_token
    leaders: list[str] = []
    newest = [0]

    def write(name: str, token: int) -> None:
        if token >= newest[0]:
            newest[0] = token
            leaders.append(name)
            world.note("written", by=name, token=token)

    def terms() -> int:
        return 1 + sum(before != after for before, after in pairwise(leaders))

    hosts = world.zookeeper_connect
    for name in ("first", "second", "third"):
        world.start(name, lambda _, name=name: lead(hosts, name, write), restarts=True)  # type: ignore[misc]
    await asyncio.sleep(30)
    elected = sum(event["path"] == "/leader" for event in world.events("ephemeral_created"))
    assert terms() <= elected


@simulated(**ALONE, faults="kill_program,power_loss_program")
async def test_every_stored_order_is_published(world: SimulatedWorld) -> None:
    sell = outbox.sell if MISTAKES else outbox.sell_with_outbox
    world.topics.create("orders")
    service = world.start("shop", lambda bootstrap: sell(bootstrap, world.path("orders.jsonl")), restarts=True)
    await world.until(lambda: service.has_returned, within=60)
    assert set(map(int, world.cluster.consume("orders"))) == set(ORDERS)


@simulated(**ALONE, faults="step_clock")
async def test_bids_are_accepted_while_the_auction_is_open(world: SimulatedWorld) -> None:
    accept = auction.accept_by_clock if MISTAKES else auction.accept_by_timestamp
    accepted: list[int] = []
    sent: list[int] = []

    async def bidders(bootstrap: str) -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for bid in range(40):
                await producer.send_and_wait("bids", str(bid).encode())
                sent.append(bid)
                await asyncio.sleep(0.5)

    world.topics.create("bids", config={"message.timestamp.type": "LogAppendTime"})
    world.start("auction", lambda bootstrap: accept(bootstrap, accepted.append))
    world.start("bidders", bidders)
    await world.until(lambda: len(sent) == 40, within=60)
    await asyncio.sleep(5)
    assert 20 <= len(accepted) <= 21
