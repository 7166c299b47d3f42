"""The znodes of our brokers and of Apache Kafka 3.9: the same actions lead to the same tree."""

from __future__ import annotations

import json
import re
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from bench.free_ports import free_ports
from tests.interop.interop_brokers import BrokerServer
from tests.interop.interop_servers import running
from tests.interop.mixed_cluster import SOCKETS_ARE_LEFT
from tests.interop.real_kafka import KafkaServer
from tests.interop.znode_tree import Znode, differences, read_tree

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function of importlib.resources that is deprecated in Python 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic

pytestmark = [pytest.mark.long, pytest.mark.timeout(900), *SOCKETS_ARE_LEFT]

WITHIN_S = 60.0
SETTINGS = {
    "default_replication_factor": 2, "num_partitions": 2,
    "offsets_topic_replication_factor": 2, "offsets_topic_num_partitions": 5,
}  # fmt: skip
Node = BrokerServer | KafkaServer


def until(condition: Callable[[], object], what: str) -> None:
    """Wait until the condition is true."""
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def answers(port: int) -> bool:
    """Return whether a server listens on the port."""
    with socket.socket() as link:
        return link.connect_ex(("127.0.0.1", port)) == 0


def our_brokers(directory: Path, zookeeper: str) -> list[Node]:
    ports = free_ports(2)
    return [BrokerServer(i, ports[i - 1], directory / f"broker-{i}", zookeeper, **SETTINGS) for i in (1, 2)]


def kafka_brokers(directory: Path, zookeeper: str) -> list[Node]:
    return [KafkaServer(i, directory / f"broker-{i}", zookeeper, **SETTINGS) for i in (1, 2)]


class Actions:
    """All actions that write znodes, applied to a cluster.

    After each action, wait until the cluster has no more changes to write.
    """

    def __init__(self, zk: KazooClient, brokers: Sequence[Node]) -> None:
        self.zk = zk
        self.brokers = brokers
        self.seen: dict[str, dict[str, Znode]] = {}

    def run(self) -> dict[str, dict[str, Znode]]:
        """Run all actions. Return the tree of znodes after each action, keyed by the action's description."""
        self.brokers_start()
        self.note("the brokers have started")
        self.admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self.brokers[0].port}")
        for action in (
            self.topic_is_created, self.topic_is_created_by_hand, self.partitions_are_added,
            self.records_are_produced, self.configs_are_altered, self.group_commits, self.replica_is_moved,
            self.broker_dies, self.broker_returns, self.leader_is_elected, self.topic_is_deleted, self.broker_leaves,
        ):  # fmt: skip
            action()
            self.note(action.__name__.replace("_", " "))
        self.admin.close()
        return self.seen

    def note(self, when: str) -> None:
        self.seen[when] = read_tree(self.zk)

    def brokers_start(self) -> None:
        for broker in self.brokers:
            broker.start()
            path = f"/brokers/ids/{broker.broker_id}"
            until(lambda path=path: self.zk.exists(path), f"{path} is not there")  # type: ignore[misc]
            until(lambda: self.zk.exists("/controller"), "there is no controller")
            # Kafka's broker opens its port after it has registered.
            until(lambda port=broker.port: answers(port), f"{broker.port} is closed")  # type: ignore[misc]
        until(lambda: self.zk.exists("/feature"), "no /feature")

    def isr(self, topic: str, partition: int) -> list[int]:
        path = f"/brokers/topics/{topic}/partitions/{partition}/state"
        if self.zk.exists(path) is None:
            return []
        state = json.loads(self.zk.get(path)[0])
        return sorted(state["isr"]) if state["leader"] >= 0 else []

    def settled(self, topic: str, partitions: int, isr: Sequence[int] = (1, 2)) -> None:
        until(
            lambda: all(self.isr(topic, number) == list(isr) for number in range(partitions)),
            f"{topic} is not in sync on {isr}",
        )

    def topic_is_created(self) -> None:
        self.admin.create_topics([NewTopic("plain", 1, 2)])
        self.settled("plain", 1)

    def topic_is_created_by_hand(self) -> None:
        assigned = {0: [1, 2], 1: [2, 1]}
        configs = {"min.insync.replicas": "1", "retention.ms": "600000"}
        self.admin.create_topics([NewTopic("orders", -1, -1, replica_assignments=assigned, topic_configs=configs)])
        self.settled("orders", 2)

    def partitions_are_added(self) -> None:
        self.admin.create_partitions({"orders": NewPartitions(3, [[1, 2]])})
        self.settled("orders", 3)

    def records_are_produced(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self.admin.config["bootstrap_servers"], acks="all")
        for number in range(30):
            producer.send("orders", b"%d" % number, partition=number % 3).get(20)
        producer.close()

    def configs_are_altered(self) -> None:
        for kind, name, configs in (
            (ConfigResourceType.TOPIC, "orders", {"retention.ms": "700000"}),
            (ConfigResourceType.TOPIC, "plain", {"max.message.bytes": "2000000"}),
            (ConfigResourceType.BROKER, "1", {"log.cleaner.threads": "1"}),
        ):
            self.admin.alter_configs([ConfigResource(kind, name, configs=configs)])

    def group_commits(self) -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=self.admin.config["bootstrap_servers"],
            group_id="readers", auto_offset_reset="earliest", enable_auto_commit=False, consumer_timeout_ms=20_000,
        )  # fmt: skip
        consumer.subscribe(["orders"])
        for _, _ in zip(range(30), consumer, strict=False):
            pass
        consumer.commit()
        consumer.close()
        self.settled("__consumer_offsets", 5)

    def replica_is_moved(self) -> None:
        self.admin.alter_partition_reassignments({TopicPartition("orders", 2): [2]})
        self.settled("orders", 2)
        until(lambda: self.isr("orders", 2) == [2], "orders-2 has not moved")
        until(lambda: b'"removing_replicas":{}' in self.zk.get("/brokers/topics/orders")[0], "still moving")

    def broker_dies(self) -> None:
        self.brokers[1].kill()
        until(lambda: self.zk.exists("/brokers/ids/2") is None, "broker 2 is still registered")
        self.settled("orders", 2, (1,))
        self.settled("plain", 1, (1,))
        until(lambda: self.isr("orders", 2) == [], "orders-2 still has a leader")

    def broker_returns(self) -> None:
        self.brokers[1].start()
        self.settled("orders", 2)
        self.settled("plain", 1)
        self.settled("__consumer_offsets", 5)
        until(lambda: self.isr("orders", 2) == [2], "orders-2 is still offline")

    def leader_is_elected(self) -> None:
        self.admin.elect_leaders(0, {"orders": [1]})

    def topic_is_deleted(self) -> None:
        self.admin.delete_topics(["plain"])
        until(lambda: self.zk.exists("/admin/delete_topics/plain") is None, "plain is still being deleted")
        until(lambda: self.zk.exists("/brokers/topics/plain") is None, "plain is still there")

    def broker_leaves(self) -> None:
        self.brokers[1].stop()
        self.settled("orders", 2, (1,))


@contextmanager
def cluster(directory: Path, make: Callable[[Path, str], list[Node]]) -> Iterator[Actions]:
    """Run two brokers on one of our peers, and yield their `Actions`."""
    (directory / "peers").mkdir(parents=True)
    with ExitStack() as stack:
        ensemble = stack.enter_context(running("ours", 1, directory / "peers"))
        zk = KazooClient(ensemble.hosts)
        zk.start()
        # Close the client too: `stop` alone leaves two of kazoo's sockets open.
        stack.callback(zk.close)
        stack.callback(zk.stop)
        brokers = make(directory, ensemble.hosts)
        for broker in brokers:
            stack.callback(broker.kill)
        yield Actions(zk, brokers)


def of_zookeeper(node: Node) -> list[str]:
    """Return the log lines in which a Kafka broker reports errors of our ensemble."""
    assert isinstance(node, KafkaServer)
    return [line for line in node.complaints() if re.search(r"zookeeper|kafka\.zk", line)]


def test_same_actions_result_in_the_same_znodes_as_with_kafka(tmp_path: Path) -> None:
    trees = []
    for name, make in (("ours", our_brokers), ("kafka", kafka_brokers)):
        with cluster(tmp_path / name, make) as actions:
            trees.append(actions.run())
            if name == "kafka":
                assert [line for node in actions.brokers for line in of_zookeeper(node)] == []
                assert not re.search(r"\[(warning|error)", (tmp_path / name / "peers" / "1" / "out.log").read_text())
    ours, theirs = trees
    assert {when: differences(ours[when], theirs[when]) for when in theirs} == {when: [] for when in theirs}
