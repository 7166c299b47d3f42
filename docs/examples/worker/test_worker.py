"""Each preset of request faults reveals the mistake that it is meant to find.

The corrected program passes with the preset.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
from aiokafka import AIOKafkaProducer
from candidate import Lead, stand, stand_once
from lag import Report, report, report_what_is_known
from worker import DEAD_LETTERS, ORDERS, Mistake, Worker

from zabka.testing import SimulatedWorld, simulated

SEEDS = 2
COUNT = 20
POISON = (3, 4, 18, 19)
"""The orders that cannot be billed."""


class Shop:
    """Runs a worker, and produces orders for it."""

    def __init__(self, world: SimulatedWorld, mistake: Mistake | None) -> None:
        self._world = world
        self._mistake = mistake
        self.billed: Counter[int] = Counter()
        world.topics.create(ORDERS)

    def bill(self, order: int) -> None:
        if order in POISON:
            raise ValueError(f"order {order} cannot be billed")
        self.billed[order] += 1

    async def open(self) -> None:
        """Start the worker, and wait until it has billed the first order."""
        self.worker = self._world.start("worker", self._work)
        self._world.start("shop", self._sell)
        await self._world.until(lambda: self.billed[0] == 1)

    async def _work(self, bootstrap: str) -> None:
        await Worker(bootstrap, self.bill, self._mistake).run(COUNT)

    async def _sell(self, bootstrap: str) -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
            await producer.send_and_wait(ORDERS, b"0")
            await asyncio.sleep(1)
            for order in range(1, COUNT):
                await producer.send_and_wait(ORDERS, str(order).encode())
                await asyncio.sleep(0.1)

    async def letters(self) -> list[int]:
        """Wait until the worker ends, and return the orders in the dead-letter topic (dead letters)."""
        await self._world.until(lambda: self.worker.has_returned, within=120)
        return sorted(map(int, self._world.cluster.consume(DEAD_LETTERS)))


def choice(mistake: Mistake) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mistake", [mistake, None], ids=["mistake", "corrected"])


async def opened(world: SimulatedWorld, mistake: Mistake | None) -> Shop:
    world.topics.create(DEAD_LETTERS)
    shop = Shop(world, mistake)
    await shop.open()
    return shop


Stand = Callable[[str, str, Lead], Awaitable[None]]
STAND = pytest.mark.parametrize("program", [stand, stand_once])


@choice(Mistake.PLAIN_PRODUCER)
@simulated(seeds=SEEDS, peers=1, brokers=1)
async def test_ack_lost_faults_make_worker_store_a_dead_letter_twice(
    world: SimulatedWorld, mistake: Mistake | None
) -> None:
    shop = await opened(world, mistake)
    world.faults.add_set("ack-lost", topic=DEAD_LETTERS)
    assert await shop.letters() == sorted([*POISON, 3] if mistake else POISON)


@choice(Mistake.IMPATIENT_PRODUCER)
@simulated(seeds=SEEDS, peers=1, brokers=1)
async def test_not_leader_faults_make_worker_lose_a_dead_letter(world: SimulatedWorld, mistake: Mistake | None) -> None:
    shop = await opened(world, mistake)
    world.faults.add_set("not-leader", topic=DEAD_LETTERS)
    assert (await shop.letters() == list(POISON)) is (mistake is None)


@choice(Mistake.BROAD_EXCEPT)
@simulated(seeds=SEEDS, peers=1, brokers=1)
async def test_coordinator_loading_makes_worker_reject_a_billed_order(
    world: SimulatedWorld, mistake: Mistake | None
) -> None:
    shop = await opened(world, mistake)
    world.faults.add_set("coordinator-loading")
    rejected = [order for order in await shop.letters() if shop.billed[order]]
    assert bool(rejected) is (mistake is not None)


@choice(Mistake.LATE_COMMIT)
@simulated(seeds=SEEDS, peers=1, brokers=1)
async def test_rebalance_storm_makes_faulty_worker_bill_orders_twice(
    world: SimulatedWorld, mistake: Mistake | None
) -> None:
    shop = await opened(world, mistake)
    world.faults.add_set("rebalance-storm")
    await shop.letters()
    assert any(times > 1 for times in shop.billed.values()) is (mistake is not None)


@choice(Mistake.SECOND_SEND)
@simulated(seeds=SEEDS, peers=1, brokers=1)
async def test_slow_broker_makes_worker_store_dead_letters_twice(
    world: SimulatedWorld, mistake: Mistake | None
) -> None:
    shop = await opened(world, mistake)
    world.faults.add_set("slow-broker")
    letters = await shop.letters()
    assert set(letters) == set(POISON)
    assert (len(letters) > len(POISON)) is (mistake is not None)


@choice(Mistake.ONE_LOOK)
@simulated(seeds=SEEDS, peers=1, brokers=1)
async def test_stale_metadata_makes_worker_drop_dead_letters(world: SimulatedWorld, mistake: Mistake | None) -> None:
    shop = Shop(world, mistake)
    world.faults.add_set("stale-metadata", for_ms=8_000)
    world.topics.create(DEAD_LETTERS)
    await shop.open()
    assert await shop.letters() == ([] if mistake else list(POISON))


@choice(Mistake.SHORT_FLUSH)
@simulated(seeds=SEEDS, peers=1, brokers=1)
async def test_throttled_worker_exits_before_dead_letters_are_stored(
    world: SimulatedWorld, mistake: Mistake | None
) -> None:
    shop = await opened(world, mistake)
    world.faults.add_set("throttled", topic=DEAD_LETTERS)
    assert (await shop.letters() == list(POISON)) is (mistake is None)


@pytest.mark.parametrize("program", [report, report_what_is_known])
@simulated(seeds=SEEDS, peers=1, brokers=1)
async def test_coordinator_move_makes_lag_program_report_no_commits(
    world: SimulatedWorld, program: Callable[[str, Report], Awaitable[None]]
) -> None:
    shop = await opened(world, None)
    told: list[int] = []
    world.start("lag", lambda bootstrap: program(bootstrap, told.append))
    await shop.letters()
    await world.until(lambda: COUNT in told)
    faults = world.faults.add_set("coordinator-moves", client_id="lag")
    await world.until(lambda: faults.used)
    await asyncio.sleep(2)
    assert (told == sorted(told)) is (program is report_what_is_known)
    assert told[-1] == COUNT


@STAND
@simulated(seeds=SEEDS, peers=3, brokers=0)
async def test_session_moved_error_leaves_the_election_leaderless(world: SimulatedWorld, program: Stand) -> None:
    led: list[str] = []
    world.start("first", lambda _: program(world.zookeeper_connect, "first", led.append))
    await world.until(lambda: led)
    faults = world.faults.add_set("session-moved", path="/election")
    await world.until(lambda: faults.used)
    await somebody_leads(world, program, led)


@STAND
@simulated(seeds=SEEDS, peers=3, brokers=0)
async def test_connection_loss_on_create_leaves_no_elected_leader(world: SimulatedWorld, program: Stand) -> None:
    led: list[str] = []
    faults = world.faults.add_set("connection-loss-on-create", path="/election/*")
    world.start("first", lambda _: program(world.zookeeper_connect, "first", led.append))
    await world.until(lambda: faults.used)
    await somebody_leads(world, program, led)


async def somebody_leads(world: SimulatedWorld, program: Stand, led: list[str]) -> None:
    """Start a second candidate. Check that the first one leads if the program is corrected, and that otherwise no
    candidate leads.
    """
    world.start("second", lambda _: program(world.zookeeper_connect, "second", led.append))
    await asyncio.sleep(1)
    led.clear()
    await asyncio.sleep(10)
    assert set(led) == ({"first"} if program is stand_once else set())
