"""Our brokers and Apache Kafka brokers in one cluster, on an ensemble of our peers."""

from __future__ import annotations

import json
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from bench.free_ports import free_ports
from tests.interop.interop_brokers import BrokerServer
from tests.interop.interop_servers import Ensemble, Server, running
from tests.interop.real_kafka import KafkaServer

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function of importlib.resources that is deprecated in Python 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import KafkaAdminClient, NewTopic

WITHIN_S = 60.0
OURS = (1, 2)
KAFKA = 101
OFFSETS_PARTITIONS = 3
SETTINGS = {
    "offsets_topic_num_partitions": OFFSETS_PARTITIONS,
    "offsets_topic_replication_factor": 3,
    "default_replication_factor": 3,
    "transaction_state_log_num_partitions": OFFSETS_PARTITIONS,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 500,
}
SESSION_MS = 8000
SEGMENT = "00000000000000000000.log"
SOCKETS_ARE_LEFT = (
    pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
)
"""pytest marks for tests with kafka-python, which leaves sockets open when a broker dies."""


def until(condition: Callable[[], object], what: str, within_s: float = WITHIN_S) -> None:
    """Wait until the condition is true."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def write(producer: KafkaProducer, topic: str, values: Sequence[str], partition: int = 0) -> None:
    """Produce these values, and wait until all are acknowledged."""
    sent = [producer.send(topic, value.encode(), partition=partition) for value in values]
    producer.flush(WITHIN_S)
    for future in sent:
        future.get(1)


class MixedCluster:
    """Broker processes, keyed by id. Our brokers have small ids; the ids of Apache Kafka's brokers start at 101."""

    def __init__(
        self,
        ensemble: Ensemble,
        zk: KazooClient,
        nodes: dict[int, BrokerServer | KafkaServer],
        client: Mapping[str, str],
    ) -> None:
        self.client = client
        """Additional settings of librdkafka clients."""
        self.ensemble = ensemble
        self.zk = zk
        self.nodes = nodes
        self._paused: set[int] = set()

    # ---- processes ----------------------------------------------------------------------------------------

    @property
    def registered(self) -> list[int]:
        return sorted(int(name) for name in self.zk.retry(self.zk.get_children, "/brokers/ids"))

    @property
    def lives(self) -> dict[int, int]:
        """Return the broker epoch of each registered broker. The epoch changes at every restart and with every new
        session.
        """
        paths = {broker_id: f"/brokers/ids/{broker_id}" for broker_id in self.registered}
        return {broker_id: self.zk.retry(self.zk.get, path)[1].czxid for broker_id, path in paths.items()}

    @property
    def bootstrap(self) -> list[str]:
        """Return the addresses of all brokers that accept connections."""
        return [f"127.0.0.1:{self.nodes[b].port}" for b in self.registered if b not in self._paused]

    def start(self, *broker_ids: int) -> None:
        """Start these brokers, and wait until they are registered and know all other brokers."""
        for broker_id in broker_ids:
            self.nodes[broker_id].start()
        for broker_id in broker_ids:
            until(lambda b=broker_id: self.serves(b), f"broker {broker_id} does not come")  # type: ignore[misc]

    def serves(self, broker_id: int) -> bool:
        """Return whether the broker is registered and knows all other brokers."""
        if broker_id not in self.registered:
            return False
        return sorted(self._metadata(broker_id).brokers) == self.registered

    def _metadata(self, broker_id: int) -> ClusterMetadata:
        """Return the metadata from that broker's response, or empty metadata if it does not respond."""
        address = f"127.0.0.1:{self.nodes[broker_id].port}"
        client = AdminClient({"bootstrap.servers": address, "log_level": 0, **self.client})
        try:
            return client.list_topics(timeout=2)
        except KafkaException:
            return ClusterMetadata()

    def start_the_dead(self) -> None:
        """Start every broker whose process has ended."""
        self.start(*(broker_id for broker_id, node in self.nodes.items() if not node.is_running))

    def kill(self, broker_id: int) -> None:
        """Send SIGKILL to the broker, and wait until its session has expired."""
        self.nodes[broker_id].kill()
        self.until_gone(broker_id)

    def until_gone(self, broker_id: int) -> None:
        until(lambda: broker_id not in self.registered, f"broker {broker_id} is still registered")

    @contextmanager
    def paused(self, *broker_ids: int) -> Iterator[None]:
        """Freeze the processes of these brokers for the duration of the block."""
        for broker_id in broker_ids:
            self.nodes[broker_id].stand_still()
        self._paused |= set(broker_ids)
        try:
            yield
        finally:
            self._paused -= set(broker_ids)
            for broker_id in broker_ids:
                self.nodes[broker_id].send(signal.SIGCONT)

    # ---- the ensemble -------------------------------------------------------------------------------------

    def zab_leader(self) -> Server:
        """Wait for a ZAB leader and return it."""
        until(lambda: any(peer.mode() == "leader" for peer in self.ensemble.servers), "no peer leads")
        return next(peer for peer in self.ensemble.servers if peer.mode() == "leader")

    # ---- the controller -----------------------------------------------------------------------------------

    @property
    def controller(self) -> int:
        """Return the broker id in /controller, or -1 if the znode does not exist."""
        try:
            return int(json.loads(self.zk.retry(self.zk.get, "/controller")[0])["brokerid"])
        except NoNodeError:
            return -1

    @property
    def controller_epoch(self) -> int:
        return int(self.zk.retry(self.zk.get, "/controller_epoch")[0])

    def make_controller(self, *candidates: int) -> None:
        """Make one of these brokers the controller: delete /controller while all other brokers are frozen."""
        if self.controller in candidates:
            return
        with self.paused(*(broker_id for broker_id in self.registered if broker_id not in candidates)):
            self.zk.delete("/controller")
            until(lambda: self.controller in candidates, f"{candidates} was not elected", SESSION_MS / 2000)
        until(
            lambda: all(self._believed(b) in candidates for b in self.registered),
            "some broker does not know the controller",
        )

    def _believed(self, broker_id: int) -> int:
        return int(self._metadata(broker_id).controller_id)

    # ---- topics -------------------------------------------------------------------------------------------

    @contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        """Yield an admin client of kafka-python."""
        client = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            yield client
        finally:
            client.close()

    def create(self, topic: str, *assigned: Sequence[int], **configs: str) -> None:
        """Create a topic with one list of replicas per partition, and wait until all replicas are in sync."""
        rows = {number: list(replicas) for number, replicas in enumerate(assigned)}
        with self.admin() as admin:
            settings = {name.replace("_", "."): value for name, value in configs.items()}
            admin.create_topics([NewTopic(topic, -1, -1, replica_assignments=rows, topic_configs=settings)])
        self.until_in_sync(topic, *assigned)

    def state(self, topic: str, partition: int = 0) -> dict[str, Any]:
        """Return the content of a partition's state znode, or an empty dictionary if it does not exist."""
        try:
            data, _ = self.zk.retry(self.zk.get, f"/brokers/topics/{topic}/partitions/{partition}/state")
        except NoNodeError:
            return {}
        state: dict[str, Any] = json.loads(data)
        return state

    def until_in_sync(self, topic: str, *isrs: Sequence[int]) -> None:
        """Wait until partitions 0, 1, ... have a leader and these in-sync replicas, in any order."""
        for number, isr in enumerate(isrs):
            until(
                lambda n=number, isr=isr: (  # type: ignore[misc]
                    sorted(self.state(topic, n).get("isr", ())) == sorted(isr) and self.state(topic, n)["leader"] >= 0
                ),
                f"{topic}-{number} is not in sync on {isr}",
            )

    def is_moving(self, topic: str) -> bool:
        """Return whether a reassignment of the topic's partitions is still in progress."""
        data, _ = self.zk.get(f"/brokers/topics/{topic}")
        return b'"adding_replicas":{}' not in data or b'"removing_replicas":{}' not in data

    def lead(self, leader: int, topic: str, partition: int = 0) -> None:
        """Make a broker the leader of a partition that all brokers host.

        Put it first in the assignment, and elect the preferred leader if necessary.
        """
        with self.admin() as admin:
            replicas = [leader, *(broker_id for broker_id in self.nodes if broker_id != leader)]
            admin.alter_partition_reassignments({TopicPartition(topic, partition): replicas})
            until(lambda: not self.is_moving(topic), f"{topic} is still moving")
            if self.state(topic, partition)["leader"] != leader:
                admin.elect_leaders(0, {topic: [partition]})
        self.until_led(leader, topic, partition)

    def until_led(self, leader: int, topic: str, partition: int = 0) -> None:
        until(
            lambda: self.state(topic, partition).get("leader") == leader,
            f"{topic}-{partition} is not led by {leader}",
        )

    def log(self, broker_id: int, topic: str, partition: int = 0) -> bytes:
        """Return the bytes of a replica's first segment.

        If it does not exist, return bytes that are unique to this broker.
        """
        segment = self.nodes[broker_id].home / "logs" / f"{topic}-{partition}" / SEGMENT
        return segment.read_bytes() if segment.exists() else b"none at %d" % broker_id

    def until_logs_equal(self, topic: str, replicas: Sequence[int], partition: int = 0) -> None:
        """Wait until the first segments of these replicas have the same bytes."""
        until(
            lambda: len({self.log(broker_id, topic, partition).rstrip(b"\0") for broker_id in replicas}) == 1,
            f"the replicas of {topic}-{partition} differ",
        )

    # ---- records ------------------------------------------------------------------------------------------

    @contextmanager
    def producer(self) -> Iterator[KafkaProducer]:
        """Yield an idempotent producer with acks=all."""
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all")
        try:
            yield producer
        finally:
            producer.close(1)

    def produce(self, topic: str, values: Sequence[str], partition: int = 0) -> None:
        """Produce these values with acks=all, and wait until all are acknowledged."""
        with self.producer() as producer:
            write(producer, topic, values, partition)

    def consume(self, topic: str, count: int, partition: int = 0) -> list[str]:
        """Return the first `count` records of a partition, in order."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap, group_id=None, auto_offset_reset="earliest", consumer_timeout_ms=20_000
        )
        consumer.assign([TopicPartition(topic, partition)])
        try:
            return [record.value.decode() for _, record in zip(range(count), consumer, strict=False)]
        finally:
            consumer.close()

    def end_offset(self, topic: str, partition: int = 0) -> int:
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, group_id=None)
        try:
            ends = consumer.end_offsets([TopicPartition(topic, partition)])
            return int(ends[TopicPartition(topic, partition)])
        finally:
            consumer.close()


@contextmanager
def mixed_cluster(
    directory: Path,
    ours: Sequence[int] = OURS,
    kafka: Sequence[int] = (KAFKA,),
    peers: int = 1,
    *,
    client: Mapping[str, str] = MappingProxyType({}),
    prepare: Callable[[Ensemble], object] = lambda ensemble: None,
    **more: object,
) -> Iterator[MixedCluster]:
    """Run a cluster of our brokers with ids `ours` and Apache Kafka brokers with ids `kafka`, on `peers` of our
    peers.

    `prepare` is called before the brokers start. `more` has additional settings of the brokers, and `client` those of
    librdkafka clients.
    """
    (directory / "peers").mkdir(parents=True)
    settings: dict[str, object] = {**SETTINGS, "zookeeper_session_timeout_ms": SESSION_MS, **more}
    with ExitStack() as stack:
        ensemble = stack.enter_context(running("ours", peers, directory / "peers"))
        prepare(ensemble)
        # The client retries each read for as long as the ensemble has no leader.
        zk = KazooClient(ensemble.hosts, command_retry={"max_tries": -1, "backoff": 1, "delay": 0.2})
        zk.start()
        # Close the client too: `stop` alone leaves two of kazoo's sockets open.
        stack.callback(zk.close)
        stack.callback(zk.stop)
        nodes: dict[int, BrokerServer | KafkaServer] = {}
        for broker_id, port in zip(ours, free_ports(len(ours)), strict=True):
            nodes[broker_id] = BrokerServer(broker_id, port, directory / str(broker_id), ensemble.hosts, **settings)
        for broker_id in kafka:
            nodes[broker_id] = KafkaServer(broker_id, directory / str(broker_id), ensemble.hosts, **settings)
        for node in nodes.values():
            stack.callback(node.kill)
        cluster = MixedCluster(ensemble, zk, nodes, client)
        for node in nodes.values():
            node.start()
        until(lambda: zk.exists("/brokers/ids") and cluster.registered == sorted(nodes), "some broker did not register")
        until(lambda: all(cluster.serves(b) for b in nodes), "some broker does not know all others")
        yield cluster
