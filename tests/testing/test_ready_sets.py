"""Ready-made sets of request faults, each with a real client that observes the outage.

The clients are confluent-kafka, aiokafka and kazoo.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionLoss, NoAuthError

from zabka.testing import LiveCluster

TOPIC = "orders"


@pytest.fixture
def cluster(zabka_cluster: LiveCluster) -> LiveCluster:
    zabka_cluster.topics.create(TOPIC, partitions=1, replication_factor=3)
    return zabka_cluster


def producer(cluster: LiveCluster, **config: Any) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "shop", "log_level": 0, **config})


def send(made: Producer, value: bytes) -> list[KafkaError | None]:
    """Produce a record. Return a list with the error of its delivery, or None if it was delivered."""
    errors: list[KafkaError | None] = []
    made.produce(TOPIC, value, on_delivery=lambda error, message: errors.append(error))
    assert made.flush(30) == 0
    return errors


def joined(cluster: LiveCluster, group: str, rebalances: list[str] | None = None, **config: Any) -> Consumer:
    """Return a consumer that has joined the group and has its partitions. It notes when it loses them."""
    noted = [] if rebalances is None else rebalances
    made = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 200,
            "session.timeout.ms": 6_000,
            "log_level": 0,
            **config,
        }
    )
    made.subscribe([TOPIC], on_revoke=lambda _, partitions: noted.append("revoked"))
    polled(made, lambda: bool(made.assignment()))
    return made


def polled(consumer: Consumer, condition: Callable[[], bool], limit_s: float = 30.0) -> list[bytes]:
    """Poll a consumer until the condition is true. Return the values of the records received."""
    values, end = [], time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value())
    return values


@pytest.mark.parametrize(("idempotent", "stored"), [(False, ["a", "a"]), (True, ["a"])])
def test_ack_lost_fault_set_duplicates_non_idempotent_records(
    cluster: LiveCluster, idempotent: bool, stored: list[str]
) -> None:
    made = producer(cluster, **{"enable.idempotence": idempotent})
    faults = cluster.faults.add_set("ack-lost", topic=TOPIC)
    assert send(made, b"a") == [None]
    assert (cluster.consume(TOPIC), faults.used) == (stored, 1)


def test_not_leader_fault_set_makes_clients_refresh_the_leader(cluster: LiveCluster) -> None:
    made = producer(cluster)
    faults = cluster.faults.add_set("not-leader", topic=TOPIC)
    assert send(made, b"a") == [None]
    assert (cluster.consume(TOPIC), faults.used >= 3) == (["a"], True)


def test_coordinator_loading_fault_set_delays_a_consumer(cluster: LiveCluster) -> None:
    faults = cluster.faults.add_set("coordinator-loading", group="loading", for_ms=1_500)
    began = time.monotonic()
    consumer = joined(cluster, "loading")
    assert time.monotonic() - began >= 1.5 and faults.used >= 1
    consumer.close()


def test_coordinator_moves_fault_set_keeps_the_group_member(cluster: LiveCluster) -> None:
    # The consumer commits nothing: librdkafka can retry a commit in step with its search for the coordinator, which
    # closes the connection each time, until its session has ended.
    rebalances: list[str] = []
    consumer = joined(cluster, "moving", rebalances, **{"enable.auto.commit": False})
    faults = cluster.faults.add_set("coordinator-moves", group="moving")
    polled(consumer, lambda: faults.used >= 1)
    send(producer(cluster), b"a")
    assert polled(consumer, lambda: consumer.position(consumer.assignment())[0].offset == 1) == [b"a"]
    assert rebalances == []
    consumer.close()


def test_rebalance_storm_fault_set_makes_a_member_rejoin(cluster: LiveCluster) -> None:
    rebalances: list[str] = []
    consumer = joined(cluster, "storm", rebalances)
    faults = cluster.faults.add_set("rebalance-storm", group="storm")
    polled(consumer, lambda: faults.used >= 2)
    assert rebalances
    consumer.close()


def test_slow_broker_fault_set_delays_every_response(cluster: LiveCluster) -> None:
    made = producer(cluster)
    send(made, b"a")
    faults = cluster.faults.add_set("slow-broker", client_id="shop", delay_ms=700)
    began = time.monotonic()
    assert send(made, b"b") == [None]
    assert time.monotonic() - began >= 0.7 and faults.used >= 1
    assert cluster.consume(TOPIC) == ["a", "b"]


def test_stale_metadata_fault_set_directs_clients_to_old_leader(cluster: LiveCluster) -> None:
    made = producer(cluster, **{"topic.metadata.refresh.interval.ms": 500, "retry.backoff.ms": 100})
    send(made, b"a")
    leader = cluster.topics[TOPIC].partitions[0].leader
    faults = cluster.faults.add_set("stale-metadata", topic=TOPIC, for_ms=4_000)
    cluster.brokers[leader].kill()
    cluster.until(lambda: cluster.topics[TOPIC].partitions[0].leader not in (-1, leader))
    began = time.monotonic()
    assert send(made, b"b") == [None]
    assert faults.used >= 1 and time.monotonic() - began > 0
    assert cluster.consume(TOPIC) == ["a", "b"]


def test_throttled_producer_fault_set_delays_but_loses_no_record(cluster: LiveCluster) -> None:
    throttles: list[int] = []

    async def run() -> None:
        made = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
        await made.start()
        try:
            await made.send_and_wait(TOPIC, b"a")
            faults = cluster.faults.add_set("throttled", topic=TOPIC, throttle_ms=600, times=1)
            began = time.monotonic()
            for value in (b"b", b"c"):
                await made.send_and_wait(TOPIC, value)
            throttles.extend([faults.used, int((time.monotonic() - began) * 1000)])
        finally:
            await made.stop()

    asyncio.run(run())
    used, took_ms = throttles
    assert used == 1 and took_ms >= 600
    assert cluster.consume(TOPIC) == ["a", "b", "c"]


def test_aiokafka_finds_its_coordinator_after_a_move(cluster: LiveCluster) -> None:
    async def run() -> int:
        consumer = AIOKafkaConsumer(
            TOPIC, bootstrap_servers=cluster.bootstrap, group_id="moving-2", heartbeat_interval_ms=200
        )
        await consumer.start()
        try:
            faults = cluster.faults.add_set("coordinator-moves", group="moving-2", times=1)
            for _ in range(100):
                await consumer.getmany(timeout_ms=100)
                if faults.used:
                    break
            return faults.used
        finally:
            await consumer.stop()

    assert asyncio.run(run()) >= 1


# ---- ZooKeeper ----------------------------------------------------------------------------------------------------


@pytest.fixture
def zookeeper(zabka_cluster: LiveCluster) -> Iterator[KazooClient]:
    client = KazooClient(hosts=zabka_cluster.zookeeper_connect, timeout=10)
    client.start()
    yield client
    client.stop()
    client.close()


def test_create_with_lost_connection_fault_still_creates_znode(
    zabka_cluster: LiveCluster, zookeeper: KazooClient
) -> None:
    """With the fault set "connection loss on create", the znode is created, but the client gets ConnectionLoss.

    This is a classic problem of ZooKeeper: the lock znode exists, but the client does not know it.
    """
    zookeeper.ensure_path("/locks")
    faults = zabka_cluster.faults.add_set("connection-loss-on-create", path="/locks/*")
    with pytest.raises(ConnectionLoss):
        zookeeper.create("/locks/lock-", sequence=True, ephemeral=True)
    names = zookeeper.retry(zookeeper.get_children, "/locks")
    assert (len(names), faults.used) == (1, 1)
    assert zookeeper.retry(zookeeper.create, "/locks/lock-", sequence=True).endswith("1")


def test_session_moved_error_does_not_end_the_session(zabka_cluster: LiveCluster, zookeeper: KazooClient) -> None:
    states: list[str] = []
    zookeeper.add_listener(states.append)
    zookeeper.create("/mine", ephemeral=True)
    session = zookeeper.client_id
    faults = zabka_cluster.faults.add_set("session-moved", path="/mine")
    with pytest.raises(ConnectionLoss):
        zookeeper.set("/mine", b"2")
    assert zookeeper.retry(zookeeper.get, "/mine")[0] == b""
    assert (zookeeper.client_id, faults.used) == (session, 1)
    assert KazooState.LOST not in states


def test_kazoo_raises_the_error_injected_for_a_path(zabka_cluster: LiveCluster, zookeeper: KazooClient) -> None:
    zookeeper.ensure_path("/locks")
    zabka_cluster.faults.on_request("getData", path="/locks").error("NO_AUTH").once()
    with pytest.raises(NoAuthError):
        zookeeper.get("/locks")
    assert zookeeper.get("/locks")[0] == b""
