"""Transactions of librdkafka's clients with three of our broker processes."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.interop_brokers import BrokerCluster, broker_cluster
from zabka.broker_sim.groups.store import java_hash

pytestmark = pytest.mark.long

WAIT_S = 30
TIMEOUT_MS = 10_000
STATE_PARTITIONS = 4
_names = itertools.count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    settings: dict[str, object] = {
        "transaction_state_log_num_partitions": STATE_PARTITIONS,
        "offsets_topic_num_partitions": 4,
        "group_initial_rebalance_delay_ms": 0,
        "transaction_abort_timed_out_transaction_cleanup_interval_ms": 500,
    }
    with broker_cluster(tmp_path_factory.mktemp("transactions"), **settings) as running:
        yield running


@pytest.fixture
def topic(cluster: BrokerCluster) -> str:
    name = f"orders-{next(_names)}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, 2, 3)])[name].result(WAIT_S)
    return name


def a_producer(cluster: BrokerCluster, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
        }
    )
    producer.init_transactions(WAIT_S)
    return producer


def read(cluster: BrokerCluster, topic: str, isolation: str, count: int, more_s: float = 1.0) -> list[bytes]:
    """Wait for `count` values of a topic and slightly longer for more. Return all of them."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"reader-{next(_names)}",
            "isolation.level": isolation,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(2)])
    values: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        message = consumer.poll(more_s if len(values) >= count else 0.2)
        if message is not None and message.error() is None:
            values.append(message.value())
        elif message is None and len(values) >= count:
            break
    consumer.close()
    return sorted(values)


def in_transaction(producer: Producer, topic: str, values: list[bytes]) -> None:
    producer.begin_transaction()
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 2)


def test_read_committed_reads_committed_but_not_aborted_records(cluster: BrokerCluster, topic: str) -> None:
    producer = a_producer(cluster, topic)
    in_transaction(producer, topic, [b"a", b"b"])
    producer.commit_transaction(WAIT_S)
    in_transaction(producer, topic, [b"c", b"d"])
    producer.flush(WAIT_S)
    producer.abort_transaction(WAIT_S)
    in_transaction(producer, topic, [b"e"])
    producer.commit_transaction(WAIT_S)
    assert read(cluster, topic, "read_committed", 3) == [b"a", b"b", b"e"]
    assert read(cluster, topic, "read_uncommitted", 5) == [b"a", b"b", b"c", b"d", b"e"]


def test_zombie_producer_is_fenced(cluster: BrokerCluster, topic: str) -> None:
    zombie = a_producer(cluster, topic)
    in_transaction(zombie, topic, [b"zombie"])
    zombie.flush(WAIT_S)
    successor = a_producer(cluster, topic)
    in_transaction(successor, topic, [b"successor"])
    successor.commit_transaction(WAIT_S)
    with pytest.raises(KafkaException) as refused:
        zombie.commit_transaction(WAIT_S)
    assert refused.value.args[0].fatal()
    assert read(cluster, topic, "read_committed", 1) == [b"successor"]


def test_transaction_over_its_timeout_is_aborted(cluster: BrokerCluster, topic: str) -> None:
    slow = a_producer(cluster, topic, timeout_ms=1_000)
    in_transaction(slow, topic, [b"slow"])
    slow.flush(WAIT_S)
    fast = a_producer(cluster, f"{topic}-fast")
    in_transaction(fast, topic, [b"fast"])
    fast.commit_transaction(WAIT_S)
    # The open transaction holds the last stable offset back until it is aborted.
    assert read(cluster, topic, "read_committed", 1) == [b"fast"]
    with pytest.raises(KafkaException):
        slow.commit_transaction(WAIT_S)


def test_offsets_and_output_are_committed_together(cluster: BrokerCluster, topic: str) -> None:
    source = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(10):
        source.produce(topic, b"%d" % number, partition=0)
    source.flush(WAIT_S)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap, "group.id": topic, "isolation.level": "read_committed",
            "auto.offset.reset": "earliest", "enable.auto.commit": False,
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    inputs = take(consumer, 10)
    producer = a_producer(cluster, topic)
    position = [TopicPartition(topic, 0, 10)]
    in_transaction(producer, topic, [b"out" for _ in inputs])
    producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), WAIT_S)
    producer.abort_transaction(WAIT_S)
    assert consumer.committed([TopicPartition(topic, 0)], WAIT_S)[0].offset < 0
    producer.begin_transaction()
    producer.produce(topic, b"out", partition=1)
    producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), WAIT_S)
    producer.commit_transaction(WAIT_S)
    assert consumer.committed([TopicPartition(topic, 0)], WAIT_S)[0].offset == 10
    consumer.close()
    assert read(cluster, topic, "read_committed", 11).count(b"out") == 1


def take(consumer: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value())
    assert len(values) == count
    return values


def leader_of_state(cluster: BrokerCluster, transactional_id: str) -> int:
    topics = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics("__transaction_state", WAIT_S).topics
    return int(topics["__transaction_state"].partitions[java_hash(transactional_id) % STATE_PARTITIONS].leader)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_next_coordinator_completes_a_decided_transaction(cluster: BrokerCluster, topic: str) -> None:
    """The coordinator is killed immediately after its response to EndTxn. The markers may not be written by then."""
    producer = a_producer(cluster, topic, timeout_ms=60_000)
    in_transaction(producer, topic, [b"a", b"b"])
    producer.flush(WAIT_S)
    coordinator = leader_of_state(cluster, topic)
    producer.commit_transaction(WAIT_S)
    cluster.brokers[coordinator].kill()
    until(lambda: leader_of_state(cluster, topic) not in (coordinator, -1))
    assert read(cluster, topic, "read_committed", 2) == [b"a", b"b"]
    in_transaction(producer, topic, [b"c"])
    producer.commit_transaction(WAIT_S)
    assert read(cluster, topic, "read_committed", 3) == [b"a", b"b", b"c"]
    cluster.brokers[coordinator].start()
    cluster.await_ready()


def zabka(cluster: BrokerCluster, verb: str, *arguments: str, lines: str = "") -> list[str]:
    """Run a command on the cluster and return its output lines."""
    command = [Path(sys.executable).with_name("zabka"), verb, "--bootstrap-server", cluster.bootstrap, *arguments]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_console_tools_produce_list_and_abort_transactions(cluster: BrokerCluster, topic: str) -> None:
    zabka(cluster, "produce", "--topic", topic, "--transactional-id", "of-the-command", lines="a\nb\n")
    committed = ("--topic", topic, "--from-beginning", "--timeout-ms", "1000", "--isolation-level", "read_committed")
    assert sorted(zabka(cluster, "consume", *committed)) == ["a", "b"]
    (row,) = [line.split() for line in zabka(cluster, "transactions", "list") if line.startswith("of-the-command")]
    assert row[3] == "CompleteCommit"

    open_producer = a_producer(cluster, "left-open")
    open_producer.begin_transaction()
    open_producer.produce(topic, b"open", partition=0)
    open_producer.flush(WAIT_S)
    here = ("--topic", topic, "--partition", "0")
    begun = [line.split() for line in zabka(cluster, "transactions", "describe-producers", *here)[1:]]
    (start,) = [row[5] for row in begun if row[5] != "None"]
    described = zabka(cluster, "transactions", "describe", "--transactional-id", "left-open")[1].split()
    assert (described[4], described[-1]) == ("Ongoing", f"{topic}-0")
    # The coordinator still knows this transaction, so it is not hanging.
    assert zabka(cluster, "transactions", "find-hanging", "--topic", topic, "--max-transaction-timeout", "0")[1:] == []

    zabka(cluster, "transactions", "abort", *here, "--start-offset", start)

    left = [line.split()[5] for line in zabka(cluster, "transactions", "describe-producers", *here)[1:]]
    assert set(left) == {"None"}
    assert sorted(zabka(cluster, "consume", *committed)) == ["a", "b"]
