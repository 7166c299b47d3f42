"""Faults of links between clients and nodes, with real clients: confluent-kafka, aiokafka and kazoo."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException, Producer
from kazoo.client import KazooClient, KazooState

from zabka.testing import LiveCluster, SimulatedCluster, running_world
from zabka.testing.live.faults import end_of

TOPIC = "orders"


@pytest.fixture
def cluster(zabka_cluster: LiveCluster) -> LiveCluster:
    zabka_cluster.topics.create(TOPIC, partitions=1, replication_factor=3)
    return zabka_cluster


@pytest.fixture
def zookeeper(zabka_cluster: LiveCluster) -> Iterator[KazooClient]:
    client = KazooClient(zabka_cluster.zookeeper_connect, timeout=2)
    client.start()
    yield client
    zabka_cluster.faults.heal()
    client.stop()
    client.close()


def producer(cluster: LiveCluster, client_id: str) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap, "client.id": client_id, "log_level": 0})


def test_client_sends_nothing_until_its_link_cut_is_healed(cluster: LiveCluster) -> None:
    shop, other = producer(cluster, "shop-1"), producer(cluster, "other")
    link = cluster.faults.cut("client:shop-*")
    for made, value in ((shop, b"late"), (other, b"early")):
        made.produce(TOPIC, value)
    assert other.flush(30) == 0
    assert shop.flush(1) == 1
    assert cluster.consume(TOPIC) == ["early"]
    link.heal()
    assert shop.flush(30) == 0
    assert cluster.consume(TOPIC) == ["early", "late"]
    applied = cluster.events("link_fault_applied")
    assert {event["client"] for event in applied} == {"shop-1"}
    assert {event["caused_by"] for event in applied} == {f"fault {link.id}"}


def test_clients_without_a_matching_link_fault_can_connect(cluster: LiveCluster) -> None:
    for end in ("client:shop-*", "session:0x77", "10.0.0.9"):
        cluster.faults.cut(end)
    other = producer(cluster, "other")
    for _ in range(3):
        other.produce(TOPIC, b"early")
        assert other.flush(30) == 0
    client = KazooClient(cluster.zookeeper_connect, timeout=2)
    client.start()
    try:
        assert all(client.exists(f"/brokers/topics/{TOPIC}") for _ in range(3))
    finally:
        client.stop()
        client.close()


def test_client_link_cut_lasts_across_a_broker_restart(cluster: LiveCluster) -> None:
    link = cluster.faults.cut("client:shop-*", "broker-2")
    cluster.brokers[2].restart()
    cluster.until_ready()
    alone = Producer({"bootstrap.servers": cluster.bootstrap.split(",")[1], "client.id": "shop-1", "log_level": 0})
    with pytest.raises(KafkaException):
        alone.list_topics(timeout=1)
    link.heal()
    assert TOPIC in alone.list_topics(timeout=20).topics


def test_aiokafka_tolerates_slow_responses(cluster: LiveCluster) -> None:
    async def send() -> float:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, client_id="shop-1") as made:
            await made.send_and_wait(TOPIC, b"a")
            cluster_fault = await asyncio.to_thread(cluster.faults.delay, "*", "client:shop-*", 300, both_ways=False)
            began = time.monotonic()
            await made.send_and_wait(TOPIC, b"b")
            await asyncio.to_thread(cluster_fault.heal)
            return time.monotonic() - began

    assert asyncio.run(send()) >= 0.3


def test_bandwidth_fault_slows_a_producer(cluster: LiveCluster) -> None:
    shop = producer(cluster, "shop-1")
    shop.produce(TOPIC, b"a")
    assert shop.flush(30) == 0
    cluster.faults.limit("client:shop-1", "*", 20_000)
    began = time.monotonic()
    shop.produce(TOPIC, bytes(20_000))
    assert shop.flush(30) == 0
    assert time.monotonic() - began >= 0.9


def test_session_of_an_isolated_zookeeper_client_expires(zabka_cluster: LiveCluster, zookeeper: KazooClient) -> None:
    states: list[KazooState] = []
    zookeeper.add_listener(states.append)
    session_id = zookeeper.client_id[0]
    link = zabka_cluster.faults.cut(zookeeper.client_id)
    zabka_cluster.until(lambda: KazooState.SUSPENDED in states, 20)

    def expired() -> list[dict[str, Any]]:
        events = zabka_cluster.events("session_expired")
        return [event for event in events if event["session_id"] & (1 << 64) - 1 == session_id & (1 << 64) - 1]

    (event,) = zabka_cluster.until(expired, 20)
    chain = zabka_cluster.get(f"/api/v1/runs/live/why?seq={event['seq']}")
    assert [step["event"]["type"] for step in chain] == [
        "session_expired",
        "link_fault_applied",
        "fault_injected",
    ]
    link.heal()
    zabka_cluster.until(lambda: KazooState.LOST in states and zookeeper.connected, 20)


def test_zookeeper_client_link_is_cut_by_its_ip_address(zabka_cluster: LiveCluster, zookeeper: KazooClient) -> None:
    host, port = zookeeper._connection._socket.getsockname()[:2]
    with_other_port = KazooClient(zabka_cluster.zookeeper_connect, timeout=5)
    with_other_port.start()
    states: list[KazooState] = []
    zookeeper.add_listener(states.append)
    zabka_cluster.faults.cut(f"{host}:{port}")
    # The client loses this connection, and connects again from another port.
    zabka_cluster.until(lambda: states[:2] == [KazooState.SUSPENDED, KazooState.CONNECTED], 20)
    assert with_other_port.exists("/brokers")
    with_other_port.stop()
    with_other_port.close()


# ---- a simulated world --------------------------------------------------------------------------------------------


async def shop(bootstrap: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, client_id="shop-1") as made:
        for number in range(1_000):
            await made.send_and_wait(TOPIC, str(number).encode())
            await asyncio.sleep(0.1)


def acknowledged(world: SimulatedCluster) -> int:
    return len(world.consume(TOPIC))


@pytest.mark.parametrize("end", ["client:shop-*", "shop"])
def test_link_of_a_simulated_client_is_cut_and_healed(end: str) -> None:
    with running_world(seed=3, peers=1, brokers=1) as world:
        world.topics.create(TOPIC, partitions=1, replication_factor=1)
        world.start("shop", shop)
        world.until(lambda: acknowledged(world) > 2)
        link = world.faults.cut(end, "broker-1")
        world.let_pass(1)
        before = acknowledged(world)
        world.let_pass(5)
        assert acknowledged(world) == before
        link.heal()
        world.until(lambda: acknowledged(world) > before, 60)


def test_simulated_broker_link_can_have_a_bandwidth_limit() -> None:
    with running_world(seed=3, peers=1, brokers=2) as world:
        world.topics.create(TOPIC, partitions=1, replication_factor=2)
        world.produce(TOPIC, "a")
        world.faults.limit("broker-1", "broker-2", 5_000)
        began = world.now_us
        world.produce(TOPIC, "b" * 10_000)
        assert world.now_us - began >= 1_500_000
        assert world.events("fault_injected")[-1]["kind"] == "bandwidth 5000 bytes/s"


def test_kazoo_session_id_is_accepted_as_a_link_end() -> None:
    assert [end_of(end) for end in (0xAB, (0xAB, b"password"), "session:0xab")] == ["session:0xab"] * 3
