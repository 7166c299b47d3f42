"""Transactions in a cluster of our brokers and a Kafka 3.9 broker, each as coordinator and as leader.

Each rule is tested in both orders: first with our coordinator and then with Kafka's, and the other way round. The
partitions of each topic have three different leaders: two of our brokers and Apache Kafka's broker.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.interop.mixed_cluster import (
    KAFKA,
    OFFSETS_PARTITIONS,
    OURS,
    SOCKETS_ARE_LEFT,
    WITHIN_S,
    MixedCluster,
    mixed_cluster,
    until,
)
from zabka.broker_sim.groups.store import java_hash

pytestmark = [pytest.mark.long, pytest.mark.timeout(600), *SOCKETS_ARE_LEFT]

ALL_BROKERS = (*OURS, KAFKA)
THREE_WAYS = ((1, 101, 2), (101, 1, 2), (2, 101, 1))
STATE = "__transaction_state"
COORDINATORS = pytest.mark.parametrize(("first", "second"), [(KAFKA, 1), (1, KAFKA)], ids=["to ours", "to Kafka's"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    with mixed_cluster(tmp_path_factory.mktemp("mixed-transactions")) as running:
        a_producer(running, "creates the topic of transactions")
        running.until_in_sync(STATE, *[ALL_BROKERS] * OFFSETS_PARTITIONS)
        yield running


@pytest.fixture(autouse=True)
def all_brokers_up(cluster: MixedCluster) -> None:
    cluster.start_the_dead()
    cluster.until_in_sync(STATE, *[ALL_BROKERS] * OFFSETS_PARTITIONS)


def a_producer(cluster: MixedCluster, transactional_id: str, timeout_ms: int = 60_000) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": ",".join(cluster.bootstrap),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
        }
    )
    producer.init_transactions(WITHIN_S)
    return producer


def begin(producer: Producer, topic: str, value: str) -> None:
    """Begin a transaction, and write a record to each partition of the topic in it."""
    producer.begin_transaction()
    for partition in range(3):
        producer.produce(topic, value.encode(), partition=partition)
    assert producer.flush(WITHIN_S) == 0


def committed(cluster: MixedCluster, topic: str) -> list[list[str]]:
    """Return the committed records of each partition, up to the last stable offset."""
    settings = {
        "bootstrap.servers": ",".join(cluster.bootstrap), "group.id": "reads", "isolation.level": "read_committed",
        "enable.auto.commit": False, "enable.partition.eof": True,
    }  # fmt: skip
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
    found: list[list[str]] = [[], [], []]
    ended: set[int] = set()
    while len(ended) < 3:
        message = consumer.poll(WITHIN_S)
        assert message is not None, f"no end of {topic}"
        if message.error() is None:
            found[message.partition()].append(message.value().decode())
        else:
            ended.add(message.partition())
    consumer.close()
    return found


def until_committed(cluster: MixedCluster, topic: str, *values: str) -> None:
    until(lambda: committed(cluster, topic) == [list(values)] * 3, f"{topic} has not {values}")


def coordinate(cluster: MixedCluster, leader: int, transactional_id: str) -> None:
    """Make a broker the coordinator of a transactional id, by making it the leader of the id's partition."""
    cluster.lead(leader, STATE, java_hash(transactional_id) % OFFSETS_PARTITIONS)


def described(cluster: MixedCluster, transactional_id: str) -> list[str]:
    """Return the coordinator, the state and the partitions of a transactional id, as kafka-transactions prints them."""
    command = [
        Path(sys.executable).with_name("zabka"), "transactions", "--bootstrap-server", ",".join(cluster.bootstrap),
        "describe", "--transactional-id", transactional_id,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr
    row = done.stdout.splitlines()[1].split()
    # Sort the partitions, because Kafka's broker takes them from a hash set.
    return [row[0], row[4], *sorted(row[-1].split(","))]


@COORDINATORS
def test_producer_moves_between_kafka_and_zabka_coordinators(cluster: MixedCluster, first: int, second: int) -> None:
    """A producer continues its transactions when a broker of the other implementation becomes the coordinator.

    Each coordinator handles a commit and an abort. The second coordinator loads the transactional id from the log that
    the first coordinator has written.
    """
    topic = producer_id = f"continues-{first}"
    cluster.create(topic, *THREE_WAYS)
    coordinate(cluster, first, producer_id)
    producer = a_producer(cluster, producer_id)
    begin(producer, topic, "a")
    producer.commit_transaction(WITHIN_S)
    begin(producer, topic, "aborted by the first")
    producer.abort_transaction(WITHIN_S)
    coordinate(cluster, second, producer_id)
    begin(producer, topic, "b")
    producer.commit_transaction(WITHIN_S)
    begin(producer, topic, "aborted by the second")
    producer.abort_transaction(WITHIN_S)
    until_committed(cluster, topic, "a", "b")
    for partition in range(3):
        cluster.until_logs_equal(topic, ALL_BROKERS, partition)
        cluster.until_logs_equal(STATE, ALL_BROKERS, partition)


@COORDINATORS
@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_open_transaction_moves_between_kafka_and_zabka(
    cluster: MixedCluster, first: int, second: int, commits: bool
) -> None:
    topic = producer_id = f"open-{first}-{commits}"
    cluster.create(topic, *THREE_WAYS)
    coordinate(cluster, first, producer_id)
    producer = a_producer(cluster, producer_id)
    begin(producer, topic, "a")
    partitions = [f"{topic}-{number}" for number in range(3)]
    assert described(cluster, producer_id) == [str(first), "Ongoing", *partitions]
    coordinate(cluster, second, producer_id)
    until(
        lambda: described(cluster, producer_id) == [str(second), "Ongoing", *partitions],
        f"broker {second} does not know the transaction",
    )
    if commits:
        producer.commit_transaction(WITHIN_S)
    else:
        producer.abort_transaction(WITHIN_S)
    begin(producer, topic, "b")
    producer.commit_transaction(WITHIN_S)
    until_committed(cluster, topic, *(["a"] if commits else []), "b")


@COORDINATORS
def test_second_coordinator_writes_markers_after_first_is_killed(
    cluster: MixedCluster, first: int, second: int
) -> None:
    """If the coordinator is killed right after its response to EndTxn, the next coordinator writes the markers.

    The first coordinator may not have written the markers by then.
    """
    topic = producer_id = f"killed-{first}"
    # If Kafka's broker is the one that is killed, it must not host a partition of the topic.
    leaders = (1, 2, 1) if first == KAFKA else (2, 101, 2)
    cluster.create(topic, *[[leader] for leader in leaders])
    coordinate(cluster, first, producer_id)
    producer = a_producer(cluster, producer_id)
    begin(producer, topic, "a")
    producer.commit_transaction(WITHIN_S)
    cluster.kill(first)
    until_committed(cluster, topic, "a")
    begin(producer, topic, "b")
    producer.commit_transaction(WITHIN_S)
    until_committed(cluster, topic, "a", "b")
    assert described(cluster, producer_id)[0] != str(first)


@COORDINATORS
def test_producer_of_the_first_coordinator_is_fenced(cluster: MixedCluster, first: int, second: int) -> None:
    topic = producer_id = f"fenced-{first}"
    cluster.create(topic, *THREE_WAYS)
    coordinate(cluster, first, producer_id)
    zombie = a_producer(cluster, producer_id)
    begin(zombie, topic, "zombie")
    coordinate(cluster, second, producer_id)
    successor = a_producer(cluster, producer_id)
    with pytest.raises(KafkaException) as refused:
        zombie.commit_transaction(WITHIN_S)
    assert refused.value.args[0].fatal()
    begin(successor, topic, "successor")
    successor.commit_transaction(WITHIN_S)
    until_committed(cluster, topic, "successor")


@COORDINATORS
def test_second_coordinator_aborts_a_transaction_at_its_timeout(cluster: MixedCluster, first: int, second: int) -> None:
    topic = producer_id = f"times-out-{first}"
    cluster.create(topic, *THREE_WAYS)
    coordinate(cluster, first, producer_id)
    slow = a_producer(cluster, producer_id, timeout_ms=20_000)
    begin(slow, topic, "slow")
    coordinate(cluster, second, producer_id)
    until(lambda: described(cluster, producer_id)[1] == "CompleteAbort", "the transaction is not aborted")
    with pytest.raises(KafkaException):
        slow.commit_transaction(WITHIN_S)
    assert committed(cluster, topic) == [[]] * 3


@COORDINATORS
def test_offsets_of_a_transaction_move_with_its_output(cluster: MixedCluster, first: int, second: int) -> None:
    """The offsets and the output of a transaction are committed together.

    The group coordinator and the transaction coordinator are brokers of different implementations.
    """
    topic = producer_id = group = f"offsets-{first}"
    cluster.create(topic, *THREE_WAYS)
    coordinate(cluster, first, producer_id)
    settings = {"bootstrap.servers": ",".join(cluster.bootstrap), "group.id": group, "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    until(lambda: consumer.poll(0.5) is None and len(consumer.assignment()) == 3, "the group has no assignment")
    cluster.until_in_sync("__consumer_offsets", *[ALL_BROKERS] * OFFSETS_PARTITIONS)
    cluster.lead(second, "__consumer_offsets", java_hash(group) % OFFSETS_PARTITIONS)
    producer = a_producer(cluster, producer_id)
    for commits, offset in ((False, 7), (True, 3)):
        begin(producer, topic, f"out {offset}")
        position = [TopicPartition(topic, 0, offset)]
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), WITHIN_S)
        if commits:
            producer.commit_transaction(WITHIN_S)
        else:
            producer.abort_transaction(WITHIN_S)
    until(lambda: group_offset(consumer, topic) == 3, "the group has another offset")
    consumer.close()
    until_committed(cluster, topic, "out 3")


def group_offset(consumer: Consumer, topic: str) -> int | None:
    """Return the group's committed offset of partition 0.

    Return None while the client still sends requests to the former coordinator.
    """
    try:
        return int(consumer.committed([TopicPartition(topic, 0)], WITHIN_S)[0].offset)
    except KafkaException:
        return None
