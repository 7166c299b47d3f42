"""Kafka Streams 3.9.1 with exactly_once_v2 on three of our brokers, while the application and brokers are killed.

The output must equal the result of processing the input in a single thread: no result is missing, duplicated or out of
order.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.interop_brokers import BrokerCluster, BrokerServer, broker_cluster
from tests.interop.kafka_jars import streams_classpath

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

PROGRAM = Path(__file__).parent / "kafka_jars" / "ExactlyOnceFold.java"
PARTITIONS, KEYS = 2, 7
RECORDS_PER_S = 100
WAIT_S = 120.0
OUTAGE_S = 6.0
"""Duration of an outage in seconds, longer than a broker's session timeout."""
MASK = (1 << 64) - 1


class Application:
    """Kafka Streams application in one process, which can be killed and started again."""

    def __init__(self, classes: Path, bootstrap: str, home: Path) -> None:
        self._command = [
            "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "-cp", f"{streams_classpath()}{os.pathsep}{classes}", "ExactlyOnceFold", bootstrap, "fold",
            str(home / "state"),
        ]  # fmt: skip
        self.output = home / "streams.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.output.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        """Kill the process with SIGKILL if it was started."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the compiled classes of the application."""
    folder = tmp_path_factory.mktemp("classes")
    subprocess.run(["javac", "-cp", streams_classpath(), "-d", str(folder), str(PROGRAM)], check=True, timeout=WAIT_S)
    return folder


@pytest.fixture
def cluster(classes: Path, tmp_path: Path) -> Iterator[BrokerCluster]:
    (tmp_path / "brokers").mkdir()
    settings: dict[str, object] = {
        "offsets_topic_num_partitions": 3, "transaction_state_log_num_partitions": 3,
        "group_initial_rebalance_delay_ms": 0,
        "transaction_abort_timed_out_transaction_cleanup_interval_ms": 500,
    }  # fmt: skip
    with broker_cluster(tmp_path / "brokers", **settings) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        made = admin.create_topics(
            [
                NewTopic(name, PARTITIONS, 3, config={"min.insync.replicas": "2"})
                for name in ("numbers", "folded", "summed")
            ]
        )
        for each in made.values():
            each.result(WAIT_S)
        yield running


class Input:
    """Producer of numbered records.

    `values` contains the acknowledged numbers in order, keyed by record key.
    """

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
        self.values: dict[str, list[int]] = defaultdict(list)
        self._count = 0

    def write(self, seconds: float) -> None:
        """Write records at a constant rate for `seconds`, and wait until all are acknowledged."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._count += 1
            key = f"key {self._count % KEYS}"
            self.values[key].append(self._count)
            self._producer.produce("numbers", str(self._count).encode(), key=key.encode())
            self._producer.poll(1 / RECORDS_PER_S)
        assert self._producer.flush(WAIT_S) == 0

    @property
    def count(self) -> int:
        return self._count


def folds(values: list[int]) -> list[int]:
    """Return the expected result after each value, computed with 64-bit integers as in Java."""
    fold, found = 0, []
    for value in values:
        fold = (31 * fold + value) & MASK
        found.append(fold - (1 << 64) if fold >> 63 else fold)
    return found


@contextmanager
def reading(bootstrap: str, topic: str) -> Iterator[Callable[[], dict[str, list[int]]]]:
    """Yield a function that returns all committed values of the topic so far, keyed by record key."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "reads", "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: dict[str, list[int]] = defaultdict(list)

    def read() -> dict[str, list[int]]:
        for message in consumer.consume(10_000, 0.5):
            if message.error() is None:
                found[message.key().decode()].append(int(message.value()))
        return found

    try:
        yield read
    finally:
        consumer.close()


def until(condition: Callable[[], bool], why: Callable[[], str]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, why()


def kill(broker: BrokerServer) -> Callable[[], None]:
    """Kill a broker. Return a function that starts it again."""
    broker.kill()
    return broker.start


def freeze(broker: BrokerServer) -> Callable[[], None]:
    """Freeze a broker for longer than its session timeout, so that it continues as a zombie.

    Return a function that ends the outage.
    """
    broker.stand_still()
    return lambda: broker.send(signal.SIGCONT)


@pytest.mark.parametrize("begin", [kill, freeze])
def test_streams_output_equals_the_expected_result_after_outages(
    cluster: BrokerCluster, classes: Path, tmp_path: Path, begin: Callable[[BrokerServer], Callable[[], None]]
) -> None:
    numbers = Input(cluster.bootstrap)
    application = Application(classes, cluster.bootstrap, tmp_path)
    with reading(cluster.bootstrap, "folded") as folded, reading(cluster.bootstrap, "summed") as summed:
        try:
            application.start()
            numbers.write(5)
            until(lambda: len(folded()) > 0, application.output.read_text)
            for broker_id in (1, 2, 3):
                end = begin(cluster.brokers[broker_id])
                numbers.write(OUTAGE_S)
                application.kill()
                application.start()
                numbers.write(4)
                end()
                cluster.await_ready()
                numbers.write(4)
            until(lambda: sum(map(len, folded().values())) >= numbers.count, application.output.read_text)
            until(lambda: sum(map(len, summed().values())) >= numbers.count, application.output.read_text)
        finally:
            application.kill()
        assert folded() == {key: folds(values) for key, values in numbers.values.items()}
        every = [value for values in numbers.values.values() for value in values]
        sums = {str(digit): sum(value for value in every if value % 10 == digit) for digit in range(10)}
        assert {key: values[-1] for key, values in summed().items()} == sums
        assert sum(map(len, summed().values())) == numbers.count
