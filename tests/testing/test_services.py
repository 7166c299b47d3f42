"""Users' asyncio programs run unchanged in a simulated world.

The world controls their time, network, faults and randomness.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from hashlib import sha256

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Producer

from zabka.simulation.cluster.service_machine import Service
from zabka.testing import ClusterFailed, running_world
from zabka.testing.worlds.cluster import SimulatedCluster

ORDERS = 30
STARTED_S_MAX = 1.0
"""Maximum CPU time in seconds to start a world.

It takes 0.1 s, and more for the first start in a process, which also imports the servers.
"""
SPEED_MIN = 10.0
"""Minimum number of virtual seconds per CPU second.

35 to 41 were measured, and fewer if other processes use the CPU caches.
"""


async def shop(bootstrap: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True) as producer:
        for number in range(ORDERS):
            await producer.send_and_wait("orders", str(number).encode())
            await asyncio.sleep(0.1)


def billing(billed: list[int]) -> Service:
    async def run(bootstrap: str) -> None:
        settings = {"group_id": "billing", "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer("orders", bootstrap_servers=bootstrap, **settings) as consumer:
            async for record in consumer:
                billed.append(int(record.value))

    return run


def bill_through_a_kill(world: SimulatedCluster) -> list[int]:
    billed: list[int] = []
    world.topics.create("orders", partitions=1, replication_factor=3)
    world.start("billing", billing(billed))
    world.start("shop", shop)
    world.until(lambda: len(billed) > ORDERS // 3)
    world.brokers[world.topics["orders"].partitions[0].leader].kill()
    world.until(lambda: len(billed) >= ORDERS, 120)
    return billed


def test_aiokafka_clients_continue_after_the_leader_is_killed(zabka_world: SimulatedCluster) -> None:
    began = zabka_world.now_us
    assert bill_through_a_kill(zabka_world) == list(range(ORDERS))
    # The pauses between the orders take at least this long in virtual time.
    assert zabka_world.now_us - began > ORDERS * 100_000


def test_same_seed_gives_programs_the_same_history() -> None:
    hashes = set()
    for _ in range(2):
        with running_world(seed=5) as world:
            bill_through_a_kill(world)
            hashes.add(sha256(b"".join(world.world.record.lines())).hexdigest())
    assert len(hashes) == 1


async def echo(_: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"echo " + await reader.readline())
        writer.close()

    async with await asyncio.start_server(answer, "0.0.0.0", 8000) as server:
        await server.serve_forever()


def caller(answers: list[bytes]) -> Service:
    async def run(_: str) -> None:
        reader, writer = await asyncio.open_connection("echo", 8000)
        writer.write(b"hello\n")
        answers.append(await asyncio.wait_for(reader.read(), 10))

    return run


def test_programs_connect_to_each_other_by_name(zabka_world: SimulatedCluster) -> None:
    answers: list[bytes] = []
    zabka_world.start("echo", echo)
    zabka_world.let_pass(1)
    calling = zabka_world.start("caller", caller(answers))
    zabka_world.until(lambda: calling.has_returned)
    assert answers == [b"echo hello\n"]


def test_failed_program_is_restarted_on_request(zabka_world: SimulatedCluster) -> None:
    answers: list[bytes] = []
    calling = zabka_world.start("caller", caller(answers), restarts=True)
    zabka_world.until(lambda: calling.failures)
    zabka_world.start("echo", echo)
    zabka_world.until(lambda: answers)
    assert "gaierror: [Errno -2] no machine of this world has the name echo" in calling.failures[0]


def test_wait_ends_with_the_error_of_a_failed_program(zabka_world: SimulatedCluster) -> None:
    async def broken(_: str) -> None:
        await asyncio.sleep(1)
        raise LookupError("no such order")

    zabka_world.start("broken", broken)
    with pytest.raises(ClusterFailed, match=r"(?s)program broken has failed.*LookupError: no such order"):
        zabka_world.until(lambda: False)


def test_failure_of_a_task_that_is_not_awaited_is_reported(zabka_world: SimulatedCluster) -> None:
    kept: list[object] = []

    async def shelve(_: str) -> None:
        async def lose() -> None:
            raise LookupError("no such shelf")

        kept.append(asyncio.create_task(lose()))
        await asyncio.sleep(3_600)

    zabka_world.start("shelves", shelve)
    with pytest.raises(ClusterFailed, match=r"(?s)a task of the program shelves has failed.*no such shelf"):
        zabka_world.until(lambda: False, 5)


def test_cancelled_or_exited_program_counts_as_failed(zabka_world: SimulatedCluster) -> None:
    async def cancelled(_: str) -> None:
        task = asyncio.create_task(asyncio.sleep(1))
        task.cancel()
        await task

    async def leave(_: str) -> None:
        raise SystemExit(3)

    zabka_world.start("cancelled", cancelled)
    with pytest.raises(ClusterFailed, match="CancelledError"):
        zabka_world.let_pass(1)
    zabka_world.start("leave", leave)
    with pytest.raises(ClusterFailed, match="ProgramExited: exit code 3"):
        zabka_world.let_pass(1)


def test_completed_tasks_have_the_same_order_in_every_run() -> None:
    def order() -> list[str]:
        found: list[str] = []

        async def wait(_: str) -> None:
            tasks = [asyncio.create_task(asyncio.sleep(1), name=str(number)) for number in range(30)]
            done, _pending = await asyncio.wait(tasks)
            found.extend(task.get_name() for task in done)

        with running_world(seed=1) as world:
            waiting = world.start("wait", wait)
            world.until(lambda: waiting.has_returned)
        return found

    orders = []
    for size in (1, 50, 500):
        # Allocate objects, so that objects in the next run have other memory addresses.
        orders.append((order(), [object() for _ in range(size)]))
    assert orders[0][0] == orders[1][0] == orders[2][0]


def test_failing_exception_handler_is_reported_once(zabka_world: SimulatedCluster) -> None:
    turns: list[int] = []

    async def handle(_: str) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: loop.default_exception_handler(context))
        loop.call_soon(int, "x")
        await asyncio.sleep(1)
        turns.append(1)

    zabka_world.start("handle", handle)
    zabka_world.until(lambda: turns)
    assert [text for text in zabka_world.world.ground.failures if text.startswith("handle: ")]


def test_program_connects_to_its_own_server_as_localhost(zabka_world: SimulatedCluster) -> None:
    answers: list[bytes] = []

    async def both(_: str) -> None:
        serving = asyncio.create_task(echo(""))
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection("localhost", 8000)
        writer.write(b"hello\n")
        answers.append(await reader.read())
        serving.cancel()

    zabka_world.start("both", both)
    zabka_world.until(lambda: answers)
    assert answers == [b"echo hello\n"]


def test_killed_program_ends_immediately_and_can_be_restarted(zabka_world: SimulatedCluster) -> None:
    runs: list[int] = []

    async def count(_: str) -> None:
        runs.append(len(runs))
        await asyncio.sleep(3_600)

    counting = zabka_world.start("count", count)
    zabka_world.until(lambda: runs)
    counting.kill()
    assert (counting.process, counting.failures) == ("down", [])
    counting.start()
    zabka_world.until(lambda: len(runs) == 2)


def test_randomness_in_programs_is_derived_from_the_seed() -> None:
    def drawn(seed: int) -> list[object]:
        found: list[object] = []

        async def draw(_: str) -> None:
            found.extend((random.random(), uuid.uuid4(), secrets.token_hex(4), random.SystemRandom().random()))

        with running_world(seed=seed) as world:
            drawing = world.start("draw", draw)
            world.until(lambda: drawing.has_returned)
        return found

    state = random.getstate()
    assert drawn(1) == drawn(1) != drawn(2)
    assert random.getstate() == state


def start_thread() -> None:
    threading.Thread(target=print).start()


def run_command() -> None:
    import subprocess

    subprocess.run(["true"], check=False)


@pytest.mark.parametrize(
    ("call", "named", "instead"),
    [
        (start_thread, "threading.Thread.start", "asyncio tasks"),
        (run_command, "subprocess.Popen", "replace the command"),
    ],
)
def test_call_that_cannot_be_simulated_is_rejected(
    zabka_world: SimulatedCluster, call: Callable[[], None], named: str, instead: str
) -> None:
    async def calling(_: str) -> None:
        call()

    zabka_world.start("calling", calling)
    with pytest.raises(ClusterFailed, match=rf"NotSimulated: {named} at \S+:\d+ does not work.*{instead}"):
        zabka_world.let_pass(1)


def test_threads_started_in_c_are_detected(zabka_world: SimulatedCluster) -> None:
    made = []

    async def produce(_: str) -> None:
        # The class that this module has imported refuses to be used. Its base class does not.
        made.append(Producer.__mro__[1]({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}))

    zabka_world.start("produce", produce)
    with pytest.raises(RuntimeError, match="confluent-kafka"):
        zabka_world.let_pass(1)


def test_machine_name_cannot_be_used_twice(zabka_world: SimulatedCluster) -> None:
    with pytest.raises(ValueError, match="there is a machine broker-1 already"):
        zabka_world.start("broker-1", echo)


@pytest.mark.long
def test_simulated_cluster_runs_at_20_times_real_time() -> None:
    """A simulated cluster with clients runs at least SPEED_MIN times as fast as real time.

    It has three peers, three brokers, a producer, and a consumer group of two members. The CPU time is measured.
    """

    async def produce(bootstrap: str) -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True) as producer:
            while True:
                await producer.send_and_wait("orders", b"1")
                await asyncio.sleep(0.1)

    began_s = time.process_time()
    with running_world(seed=1) as world:
        assert time.process_time() - began_s < STARTED_S_MAX
        world.topics.create("orders", partitions=2)
        world.start("shop", produce)
        for name in ("first", "second"):
            world.start(name, billing([]))
        world.let_pass(5)
        began_s = time.process_time()
        world.let_pass(20)
        assert 20 / (time.process_time() - began_s) > SPEED_MIN


def test_topic_default_settings_are_passed_to_the_brokers() -> None:
    with running_world(peers=1, brokers=1, settings={"num.partitions": "2"}) as world:
        assert world.settings("broker-1")["num.partitions"] == "2"
