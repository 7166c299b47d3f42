"""Methods of a cluster for groups, leaders, quotas and sessions, and for waiting until these change.

They are tested in a simulated world and with real processes.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.free_ports import free_ports
from zabka.compose.plan import DEFAULT_KAFKA_PORT, DEFAULT_ZK_PORT
from zabka.ensemble.client.aio import connect
from zabka.ensemble.errors import SessionExpired
from zabka.testing import ClusterFailed, LiveCluster, SimulatedCluster, running_cluster, running_world
from zabka.testing.quotas import Quota


@pytest.fixture(scope="module")
def world() -> Iterator[SimulatedCluster]:
    with running_world() as made:
        yield made


# ---- in a simulated world --------------------------------------------------------------------------------------------


def test_group_is_stable_only_after_it_has_read_all_records(world: SimulatedCluster) -> None:
    world.topics.create("orders", partitions=2)
    world.produce("orders", ["a", "b"])
    member = world.consumer("orders", "billing")
    assert [m.partitions for m in world.until_stable("billing", members=1).members] == [(("orders", 0), ("orders", 1))]
    world.until_caught_up("billing")
    assert world.lag("billing") == {("orders", 0): 0, ("orders", 1): 0}
    assert world.coordinator("billing") in world.brokers.values()
    member.stop()
    world.produce("orders", ["c"], partition=1)
    assert world.lag("billing")["orders", 1] == 1
    with pytest.raises(ClusterFailed, match=r"lag: \{'orders-1': 1\}"):
        world.until_caught_up("billing", timeout_s=1.0)
    with pytest.raises(ClusterFailed, match="the group is Empty with 0 members"):
        world.until_stable("billing", timeout_s=1.0)


def test_leader_moves_to_the_named_replica(world: SimulatedCluster) -> None:
    topic = world.topics.create("moves", assignment={0: [1, 2]})
    world.move_leader("moves", 0, world.brokers[2])
    assert topic.partitions[0].leader == 2
    assert topic.partitions[0].replicas == [2, 1]
    with pytest.raises(ClusterFailed, match=r"broker 3 has no replica of moves-0: its replicas are on \[2, 1\]"):
        world.move_leader("moves", 0, 3)


def test_failed_wait_for_isr_reports_the_out_of_sync_partition(world: SimulatedCluster) -> None:
    world.topics.create("synced", assignment={0: [1, 3]})
    world.brokers[3].kill()
    world.until(lambda: world.topics["synced"].partitions[0].isr == [1])
    with pytest.raises(ClusterFailed, match=r"not in sync: \[Partition\(partition=0, leader=1"):
        world.until_in_sync("synced", timeout_s=1.0)
    world.brokers[3].start()
    world.until_in_sync("synced")
    world.until_leads(1, "synced")


def test_quotas_are_set_read_and_removed(world: SimulatedCluster) -> None:
    world.quotas.set({"producer_byte_rate": 1000.0, "consumer_byte_rate": 1.0}, user="ada", client_id="shop")
    world.quotas.set({"producer_byte_rate": 2000.0}, client_id="")
    world.quotas.set({"consumer_byte_rate": None}, user="ada", client_id="shop")
    assert sorted(world.quotas.all(), key=str) == [
        Quota("ada", "shop", None, {"producer_byte_rate": 1000.0}),
        Quota(None, "", None, {"producer_byte_rate": 2000.0}),
    ]
    with pytest.raises(ClusterFailed, match="are refused"):
        world.quotas.set({"bytes": 1.0}, client_id="shop")


# ---- with real processes ---------------------------------------------------------------------------------------------


def test_ephemerals_are_deleted_with_their_expired_session(zabka_cluster: LiveCluster) -> None:
    async def use() -> None:
        async with (
            connect(zabka_cluster.zookeeper_connect) as client,
            connect(zabka_cluster.zookeeper_connect) as other,
        ):
            await client.create("/leader", ephemeral=True)
            await asyncio.to_thread(zabka_cluster.expire_session, client.session_id)
            await other.sync("/")
            assert await other.exists("/leader") is None
            with pytest.raises(SessionExpired):
                await client.exists("/leader")

    asyncio.run(use())
    with pytest.raises(ClusterFailed, match="there is no session 0x1234"):
        zabka_cluster.expire_session(0x1234)


def test_controller_with_an_expired_session_is_replaced(zabka_cluster: LiveCluster) -> None:
    controller = zabka_cluster.until(lambda: zabka_cluster.controller)
    epoch = zabka_cluster.controller_epoch
    zabka_cluster.expire_session(controller)
    zabka_cluster.until(lambda: zabka_cluster.controller_epoch > epoch and zabka_cluster.controller)
    zabka_cluster.until(lambda: controller.registered)


def test_until_stable_recognises_a_group_of_librdkafka_clients(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("orders")
    zabka_cluster.produce("orders", ["a"])
    config = {"group.id": "billing", "auto.offset.reset": "earliest", "auto.commit.interval.ms": 100}
    consumer = Consumer(zabka_cluster.client_config("confluent") | config)
    consumer.subscribe(["orders"])
    zabka_cluster.until(lambda: (m := consumer.poll(0.1)) and not m.error())
    info = zabka_cluster.until_stable("billing", members=1)
    assert info.coordinator.broker_id == zabka_cluster.coordinator("billing").id
    zabka_cluster.until_caught_up("billing")
    consumer.close()


@contextmanager
def proxy(listening: socket.socket, upstream: str) -> Iterator[list[bytes]]:
    """Forward all connections to the address `upstream`. Yield a growing list of the bytes that clients send."""
    seen: list[bytes] = []
    host, _, port = upstream.rpartition(":")

    def forward(source: socket.socket, target: socket.socket, kept: list[bytes]) -> None:
        with suppress(OSError), closing(source), closing(target):
            while data := source.recv(65_536):
                kept.append(data)
                target.sendall(data)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.create_connection((host, int(port)))
                for ends in ((client, server, seen), (server, client, [])):
                    threading.Thread(target=forward, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with closing(listening):
        yield seen


def test_clients_connect_through_an_advertised_proxy_address() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    with (
        running_cluster(peers=1, brokers=1, advertised={1: address}) as cluster,
        proxy(listening, cluster.listeners[1]) as seen,
    ):
        assert cluster.client_config("java") == {"bootstrap.servers": address}
        cluster.topics.create("orders")
        producer = Producer(cluster.client_config("confluent"))
        producer.produce("orders", b"through the proxy")
        assert producer.flush(10) == 0
        assert any(b"through the proxy" in data for data in seen)
        assert cluster.consume("orders") == ["through the proxy"]


def test_cluster_context_returns_only_events_since_its_start() -> None:
    with running_cluster(peers=1, brokers=1) as cluster:
        assert cluster.events("node_started")


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_new_admin_client_finds_the_current_controller(zabka_cluster: LiveCluster, fault: str) -> None:
    """A new librdkafka AdminClient finds the next controller; an existing one continues to use the former one.

    The client requests metadata when it connects to a broker, which is before the next election, and then every
    `topic.metadata.refresh.interval.ms` (5 minutes). Its requests wait for the former controller until they time out.
    """
    first = zabka_cluster.until(lambda: zabka_cluster.controller)
    if fault == "kill":
        first.kill()
    else:
        first.pause()
    zabka_cluster.until(lambda: zabka_cluster.controller not in (None, first))
    admin = AdminClient(zabka_cluster.client_config("confluent"))
    admin.create_topics([NewTopic("orders", 1, 2)])["orders"].result(20)


def test_advertised_addresses_must_match_the_brokers() -> None:
    with pytest.raises(ClusterFailed, match=r"for brokers 1 to 1, not \[2\]"):
        running_cluster(peers=1, brokers=1, advertised={2: "localhost:1"}).__enter__()
    with pytest.raises(ClusterFailed, match="'9092' is not HOST:PORT"):
        running_cluster(peers=1, brokers=1, advertised={1: "9092"}).__enter__()
    with pytest.raises(ClusterFailed, match="ports is one of free, fixed, not 'some'"):
        running_cluster(peers=1, brokers=1, ports="some").__enter__()  # type: ignore[arg-type]


def test_fixed_ports_are_used_or_reported_as_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (DEFAULT_ZK_PORT, DEFAULT_KAFKA_PORT) == (2181, 9092)
    # Replace the default ports, which may be in use on this machine.
    zookeeper, kafka = free_ports(2)
    monkeypatch.setattr("zabka.testing.live.start.DEFAULT_ZK_PORT", zookeeper)
    monkeypatch.setattr("zabka.testing.live.start.DEFAULT_KAFKA_PORT", kafka)
    with running_cluster(peers=1, brokers=1, ports="fixed") as cluster:
        assert (cluster.zookeeper_connect, cluster.bootstrap) == (f"127.0.0.1:{zookeeper}", f"127.0.0.1:{kafka}")
        with pytest.raises(ClusterFailed, match=str(zookeeper)):
            running_cluster(peers=1, brokers=1, ports="fixed").__enter__()
