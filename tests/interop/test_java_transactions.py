"""Java's transactional clients with three of our brokers, while brokers and clients are killed.

Kafka's own system tests run the same program, TransactionalMessageCopier (transactions_test.py). It copies a topic in
transactions, together with its group's offsets, and aborts some transactions at random.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.interop_brokers import BrokerCluster, broker_cluster
from tests.interop.kafka_jars import classpath

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

PARTITIONS, RECORDS, TRANSACTION_SIZE = 2, 10_000, 100
COPIERS = ("first", "second")
WAIT_S = 120.0


class Copier:
    """One process of the copier program, with its own transactional id.

    With `in_group`, the consumer group assigns its partitions.
    """

    def __init__(self, bootstrap: str, name: str, partition: int, in_group: bool, home: Path) -> None:
        self._command = [
            "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath(),
            "org.apache.kafka.tools.TransactionalMessageCopier", "--broker-list", bootstrap,
            "--input-topic", "input", "--output-topic", "output", "--input-partition", str(partition),
            "--transaction-size", str(TRANSACTION_SIZE), "--transaction-timeout", "10000",
            "--transactional-id", f"copier-{name}", "--consumer-group", "copiers" if in_group else f"copiers-{name}",
            "--enable-random-aborts", *(["--group-mode", "--use-group-metadata"] if in_group else []),
        ]  # fmt: skip
        self.output = home / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.output.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    @property
    def is_running(self) -> bool:
        """Return whether the process is running."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kill the process with SIGKILL if it was started."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokerCluster]:
    (tmp_path / "brokers").mkdir()
    settings: dict[str, object] = {
        "offsets_topic_num_partitions": 3, "transaction_state_log_num_partitions": 3,
        "group_initial_rebalance_delay_ms": 0,
        "transaction_abort_timed_out_transaction_cleanup_interval_ms": 500,
    }  # fmt: skip
    with broker_cluster(tmp_path / "brokers", **settings) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        topics = [NewTopic(name, PARTITIONS, 3, config={"min.insync.replicas": "2"}) for name in ("input", "output")]
        for made in admin.create_topics(topics).values():
            made.result(WAIT_S)
        yield running


def fill(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": RECORDS * PARTITIONS})
    for number in range(RECORDS):
        for partition in range(PARTITIONS):
            producer.produce("input", b"%d" % number, partition=partition)
    assert producer.flush(WAIT_S) == 0


class Output:
    """Read_committed consumer that collects the values of the output topic."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap, "group.id": "reads", "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )  # fmt: skip
        self._consumer.assign([TopicPartition("output", partition, 0) for partition in range(PARTITIONS)])
        self.values: list[int] = []

    def until(self, count: int, copiers: list[Copier]) -> None:
        """Read until `count` values have been received. Restart every copier that has ended."""
        deadline = time.monotonic() + WAIT_S
        while len(self.values) < count:
            assert time.monotonic() < deadline, [copier.output.read_text()[-2000:] for copier in copiers]
            for copier in copiers:
                if not copier.is_running:
                    copier.start()
            self.read()

    def read(self) -> None:
        """Read the values that are available now."""
        messages = self._consumer.consume(10_000, 0.5)
        self.values += [int(message.value()) for message in messages if message.error() is None]

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.parametrize("in_group", [False, True], ids=["own partitions", "group"])
def test_each_record_is_copied_once_despite_kills(cluster: BrokerCluster, tmp_path: Path, in_group: bool) -> None:
    """Each record is copied exactly once, although copiers and brokers are killed.

    With fixed partitions, the test covers KIP-98. With partitions from a consumer group, it covers KIP-447.
    """
    fill(cluster.bootstrap)
    copiers = [Copier(cluster.bootstrap, name, number, in_group, tmp_path) for number, name in enumerate(COPIERS)]
    output = Output(cluster.bootstrap)
    try:
        for copier in copiers:
            copier.start()
        for step, broker_id in enumerate((1, 2, 3)):
            output.until((step + 1) * RECORDS * PARTITIONS // 6, copiers)
            copiers[step % len(copiers)].kill()
            cluster.brokers[broker_id].kill()
            output.until(len(output.values) + TRANSACTION_SIZE, copiers)
            cluster.brokers[broker_id].start()
            cluster.await_ready()
        output.until(RECORDS * PARTITIONS, copiers)
        output.read()
        assert sorted(output.values) == sorted([*range(RECORDS)] * PARTITIONS)
    finally:
        output.close()
        for copier in copiers:
            copier.kill()
