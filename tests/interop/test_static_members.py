"""Static members whose coordinator dies while the application does not poll for longer than the session timeout.

Each member is the only one of its group. The same test runs with three of our brokers and with three Apache Kafka
brokers. Every client must have the same outcome on both.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic

from bench.free_ports import free_ports
from tests.interop.interop_brokers import BrokerServer
from tests.interop.interop_servers import running
from tests.interop.kafka_jars import classpath
from tests.interop.outage_session import Program
from tests.interop.real_kafka import KafkaServer
from zabka.broker_sim.groups.store import java_hash

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

BROKERS = 3
TOPIC = "work"
OFFSETS_PARTITIONS = 5
CLIENT_SESSION_MS = 6_000
SETTINGS = {
    "zookeeper_session_timeout_ms": 18_000,
    "offsets_topic_num_partitions": OFFSETS_PARTITIONS,
    "offsets_topic_replication_factor": BROKERS,
    "default_replication_factor": BROKERS,
    "group_initial_rebalance_delay_ms": 0,
}
"""Broker settings with which the session of a killed broker expires after 12 to 18 s.

Until then, the broker's groups have no coordinator.
"""
PROGRAM = Path(__file__).with_name("static_members.py")
JAVA_PROGRAM = Path(__file__).parent / "kafka_jars" / "StaticMembers.java"
CLIENTS = ("confluent-kafka", "kafka-python", "java")
EARLY_MS = (8_000, 8_500, 9_000, 9_500, 10_000)
"""Busy times in ms that end before the group has a new coordinator, but after the member's session timeout."""
LATE_MS = (26_000, 27_000, 28_000, 29_000, 30_000)
"""Times in ms for which a member is busy, for cases in which it resumes late.

They end several seconds or more after the group has a new coordinator.
"""
WITHIN_S = 90.0


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


class Brokers:
    """Three brokers of one implementation, with the topic and `__consumer_offsets`."""

    def __init__(self, nodes: Mapping[int, BrokerServer | KafkaServer]) -> None:
        self.nodes = nodes
        self.bootstrap = ",".join(f"127.0.0.1:{node.port}" for node in nodes.values())
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def metadata(self) -> ClusterMetadata:
        try:
            return self._admin.list_topics(timeout=5)
        except KafkaException:
            return ClusterMetadata()

    def prepare(self) -> None:
        until(lambda: len(self.metadata().brokers) == BROKERS, "the brokers do not start")
        self._admin.create_topics([NewTopic(TOPIC, 1, BROKERS)])[TOPIC].result(30)

        def found() -> bool:
            try:
                self._admin.describe_consumer_groups(["any"])["any"].result(5)
            except (KafkaException, TimeoutError):
                # Not yet: the brokers are still creating `__consumer_offsets`.
                return False
            return True

        until(found, "no coordinator")
        until(self._in_sync, "the ISRs are not full")

    def _in_sync(self) -> bool:
        topics = self.metadata().topics
        rows = [partition for name in topics for partition in topics[name].partitions.values()]
        return len(rows) == 1 + OFFSETS_PARTITIONS and all(len(row.isrs) == BROKERS and row.leader > 0 for row in rows)

    def groups_of_one(self, count: int) -> tuple[int, list[str]]:
        """Return a broker that does not lead the topic, and `count` group names of which it is the coordinator."""
        topics = self.metadata().topics
        leaders = {number: row.leader for number, row in topics["__consumer_offsets"].partitions.items()}
        victim = next(leader for leader in leaders.values() if leader != topics[TOPIC].partitions[0].leader)
        names = (f"group-{number}" for number in range(10_000))
        mine = (name for name in names if leaders[java_hash(name) % OFFSETS_PARTITIONS] == victim)
        return victim, [next(mine) for _ in range(count)]


@contextmanager
def brokers(kind: str, directory: Path) -> Iterator[Brokers]:
    (directory / "peers").mkdir()
    with running("ours", 1, directory / "peers", maxSessionTimeout="40000") as ensemble:
        nodes: dict[int, BrokerServer | KafkaServer] = {}
        for number, port in enumerate(free_ports(BROKERS), 1):
            home = directory / f"broker-{number}"
            nodes[number] = (
                BrokerServer(number, port, home, ensemble.hosts, **SETTINGS)
                if kind == "zabka"
                else KafkaServer(number, home, ensemble.hosts, **SETTINGS)
            )
        try:
            for node in nodes.values():
                node.start()
            made = Brokers(nodes)
            made.prepare()
            yield made
        finally:
            for node in nodes.values():
                node.kill()


@contextmanager
def produced(bootstrap: str) -> Iterator[None]:
    """Produce ten records a second during the `with` block."""
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 120_000, "log_level": 0})
    stop = threading.Event()

    def produce() -> None:
        while not stop.wait(0.1):
            producer.produce(TOPIC, b"record")
            producer.poll(0)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def command(client: str) -> list[str]:
    if client != "java":
        return [sys.executable, str(PROGRAM), client]
    return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath(), str(JAVA_PROGRAM)]


@pytest.mark.parametrize("kind", ["zabka", "kafka"])
def test_static_members_except_librdkafka_survive_a_failover(kind: str, tmp_path: Path) -> None:
    """Static members of all clients except librdkafka continue after a failover of the coordinator.

    When its session times out, librdkafka discards its member id, and sends heartbeats without it until the application
    polls. Both implementations of the coordinator fence such a heartbeat (librdkafka issue 3437).
    """
    classpath()
    busy = (*EARLY_MS, *LATE_MS)
    with brokers(kind, tmp_path) as cluster, produced(cluster.bootstrap):
        victim, names = cluster.groups_of_one(len(CLIENTS) * len(busy))
        groups = {client: dict(zip(names[n :: len(CLIENTS)], busy, strict=True)) for n, client in enumerate(CLIENTS)}
        programs = {
            client: Program(
                [*command(client), cluster.bootstrap, TOPIC, str(CLIENT_SESSION_MS)]
                + [f"{group}={busy_ms}" for group, busy_ms in groups[client].items()],
                tmp_path / f"{client}.errors",
                subprocess.PIPE,
            )
            for client in CLIENTS
        }
        try:
            for client, program in programs.items():
                until(lambda p=program: len(p.lines) == len(busy), f"not every group reads: {client}")  # type: ignore[misc]
            # Wait for different times, so that the kill interrupts commits and heartbeats in every phase.
            time.sleep(3)
            for program in programs.values():
                assert program.process.stdin is not None
                program.process.stdin.write("\n")
                program.process.stdin.flush()
            cluster.nodes[victim].kill()
            outcomes = {}
            for client, program in programs.items():
                program.wait(LATE_MS[-1] / 1000 + 90)
                ended = dict(line.split(" ", 1) for _, line in program.lines[len(busy) :])
                outcomes[client] = {busy_ms: ended.get(group) for group, busy_ms in groups[client].items()}
        finally:
            for program in programs.values():
                program.kill()
    sys.stdout.write(f"{kind}: {outcomes}\n")
    all_resumed = dict.fromkeys(busy, "resumed")
    fenced = {**all_resumed, **dict.fromkeys(LATE_MS, "FENCED_INSTANCE_ID")}
    assert outcomes == {"confluent-kafka": fenced, "kafka-python": all_resumed, "java": all_resumed}
