"""An Apache Kafka 3.9 broker in ZooKeeper mode in one cluster with our brokers, on our ensemble.

Each rule is tested in both directions: our broker in one role and Kafka's in the other, and vice versa.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest

from tests.interop.mixed_cluster import (
    KAFKA,
    OFFSETS_PARTITIONS,
    OURS,
    SOCKETS_ARE_LEFT,
    MixedCluster,
    mixed_cluster,
    until,
    write,
)
from tests.interop.real_kafka import KafkaServer, verifiable_producer

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function of importlib.resources that is deprecated in Python 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions

pytestmark = [pytest.mark.long, pytest.mark.timeout(600), *SOCKETS_ARE_LEFT]

ALL_BROKERS = (*OURS, KAFKA)
THREE_WAYS = ((1, 101, 2), (101, 1, 2), (2, 101, 1))
"""Replicas of three partitions, each with a different leader."""
CONTROLLERS = pytest.mark.parametrize("controllers", [OURS, (KAFKA,)], ids=["ours commands", "Kafka's commands"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    with mixed_cluster(tmp_path_factory.mktemp("mixed")) as running:
        yield running


@pytest.fixture(autouse=True)
def all_brokers_up(cluster: MixedCluster) -> Iterator[None]:
    cluster.start_the_dead()
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def numbered(count: int, first: int = 0) -> list[str]:
    return [f"record {number}" for number in range(first, first + count)]


def test_kafka_broker_joins_zabka_without_unusual_log_lines(cluster: MixedCluster) -> None:
    kafka = cluster.nodes[KAFKA]
    assert isinstance(kafka, KafkaServer)
    assert cluster.registered == list(ALL_BROKERS)
    assert kafka.complaints() == []


@CONTROLLERS
def test_kafka_and_zabka_brokers_follow_each_others_leaders(
    cluster: MixedCluster, controllers: tuple[int, ...]
) -> None:
    cluster.make_controller(*controllers)
    topic = f"three-ways-{controllers[0]}"
    cluster.create(topic, *THREE_WAYS)
    for partition, replicas in enumerate(THREE_WAYS):
        assert cluster.state(topic, partition)["leader"] == replicas[0]
        cluster.produce(topic, numbered(100), partition)
        assert cluster.consume(topic, 100, partition) == numbered(100)
        cluster.until_logs_equal(topic, ALL_BROKERS, partition)


@CONTROLLERS
def test_topics_get_more_partitions_and_are_deleted(cluster: MixedCluster, controllers: tuple[int, ...]) -> None:
    cluster.make_controller(*controllers)
    topic = f"grows-{controllers[0]}"
    cluster.create(topic, ALL_BROKERS)
    with cluster.admin() as admin:
        admin.create_partitions({topic: NewPartitions(3, [[101, 1, 2], [2, 101, 1]])})
        cluster.until_in_sync(topic, *[ALL_BROKERS] * 3)
        admin.delete_topics([topic])
    until(lambda: cluster.zk.exists(f"/brokers/topics/{topic}") is None, f"{topic} is still there")
    logs = [cluster.nodes[broker_id].home / "logs" / f"{topic}-0" for broker_id in ALL_BROKERS]
    until(lambda: not any(log.exists() for log in logs), "a broker keeps its replica")


@CONTROLLERS
def test_replicas_move_to_the_kafka_broker_and_back(cluster: MixedCluster, controllers: tuple[int, ...]) -> None:
    cluster.make_controller(*controllers)
    topic = f"moves-{controllers[0]}"
    cluster.create(topic, (1,), (101,))
    for partition in (0, 1):
        cluster.produce(topic, numbered(500), partition)
    for target in ([101], [101, 2], [2]):
        with cluster.admin() as admin:
            admin.alter_partition_reassignments({TopicPartition(topic, 0): target, TopicPartition(topic, 1): target})
            cluster.until_in_sync(topic, target, target)
            until(lambda: not cluster.is_moving(topic), f"{topic} is still moving")
        for partition in (0, 1):
            assert cluster.state(topic, partition)["leader"] in target
            cluster.until_logs_equal(topic, target, partition)
            assert cluster.consume(topic, 500, partition) == numbered(500)
    left = cluster.nodes[KAFKA].home / "logs" / f"{topic}-0"
    until(lambda: not left.exists(), "Kafka's keeps a replica that was moved away")


@pytest.mark.parametrize(("controller", "leader", "follower"), [(2, 1, 101), (2, 101, 1), (1, 1, 101), (101, 101, 1)])
def test_leader_shrinks_and_expands_the_isr(cluster: MixedCluster, controller: int, leader: int, follower: int) -> None:
    """A leader that shrinks and expands its ISR changes only the partition epoch.

    It uses AlterPartition, which causes no election.
    """
    cluster.make_controller(controller)
    topic = f"shrinks-{controller}-{leader}"
    cluster.create(topic, (leader, follower), min_insync_replicas="1")
    # Kafka's broker sends requests to the last controller that it knows until that controller rejects one. The ISR
    # change caused by this restart makes it send a request.
    cluster.nodes[follower].stop()
    cluster.start(follower)
    cluster.until_in_sync(topic, (leader, follower))
    epoch = cluster.state(topic)["leader_epoch"]
    with cluster.producer() as producer:
        # Write once before the pause. Then the producer knows the leader, and does not request metadata from the frozen
        # broker.
        write(producer, topic, numbered(10))
        cluster.until_logs_equal(topic, (leader, follower))
        with cluster.paused(follower):
            write(producer, topic, numbered(10, 10))
            assert cluster.state(topic)["isr"] == [leader]
            assert cluster.state(topic)["leader_epoch"] == epoch
    cluster.until_in_sync(topic, (leader, follower))
    cluster.until_logs_equal(topic, (leader, follower))


@pytest.mark.parametrize(("leader", "follower"), [(1, 101), (101, 1)])
def test_killed_leader_is_replaced_and_catches_up(cluster: MixedCluster, leader: int, follower: int) -> None:
    cluster.make_controller(2)
    topic = f"killed-{leader}"
    cluster.create(topic, (leader, follower))
    cluster.produce(topic, numbered(50))
    cluster.kill(leader)
    cluster.until_led(follower, topic)
    assert cluster.state(topic)["leader_epoch"] == 1
    cluster.produce(topic, numbered(50, 50))
    cluster.start(leader)
    cluster.until_in_sync(topic, (leader, follower))
    assert cluster.consume(topic, 100) == numbered(100)
    cluster.until_logs_equal(topic, (leader, follower))


@pytest.mark.parametrize(("controller", "others"), [((101,), OURS), ((1,), (101,))])
def test_killed_controller_is_replaced_by_other_implementation(
    cluster: MixedCluster, controller: tuple[int, ...], others: tuple[int, ...]
) -> None:
    """After the controller was killed, a broker of the other implementation becomes controller.

    The killed broker also led a partition. The next controller removes it from the ISR and then elects another leader,
    which increases the leader epoch twice.
    """
    cluster.make_controller(*controller)
    dying = controller[0]
    topic = f"controller term-{dying}"
    cluster.create(topic, (dying, others[0]))
    epoch = cluster.controller_epoch
    candidates = [broker_id for broker_id in cluster.registered if broker_id not in (dying, *others)]
    cluster.nodes[dying].kill()
    with cluster.paused(*candidates):
        until(lambda: cluster.controller in others, f"none of {others} was elected")
    cluster.until_led(others[0], topic)
    assert cluster.state(topic)["leader_epoch"] == 2
    assert cluster.controller_epoch > epoch
    cluster.produce(topic, numbered(20))
    cluster.start(dying)
    cluster.until_in_sync(topic, (dying, others[0]))
    cluster.until_logs_equal(topic, (dying, others[0]))


@CONTROLLERS
@pytest.mark.parametrize(("leaving", "staying"), [(101, 1), (1, 101)])
def test_controlled_shutdown_moves_leadership_to_other_broker(
    cluster: MixedCluster, controllers: tuple[int, ...], leaving: int, staying: int
) -> None:
    """A broker hands its partition leaderships over in a controlled shutdown, even if it is the controller.

    A controller handles its own shutdown request, and then resigns.
    """
    cluster.make_controller(*controllers)
    topic = f"leaves-{leaving}-{controllers[0]}"
    cluster.create(topic, (leaving, staying), (staying, leaving))
    epochs = [cluster.state(topic, partition)["leader_epoch"] for partition in (0, 1)]
    cluster.nodes[leaving].stop()
    for partition in (0, 1):
        state = cluster.state(topic, partition)
        assert (state["leader"], state["isr"]) == (staying, [staying])
        assert state["leader_epoch"] == epochs[partition] + 1
    assert leaving not in cluster.registered
    cluster.produce(topic, numbered(20))
    cluster.start(leaving)
    cluster.until_in_sync(topic, (leaving, staying), (leaving, staying))
    with cluster.admin() as admin:
        admin.elect_leaders(0, {topic: [0]})
    cluster.until_led(leaving, topic)
    cluster.until_logs_equal(topic, (leaving, staying))


@pytest.mark.parametrize(("last", "out_of_sync"), [(1, 101), (101, 1)])
def test_unclean_election_truncates_the_log_of_the_other_broker(
    cluster: MixedCluster, last: int, out_of_sync: int
) -> None:
    cluster.make_controller(2)
    topic = f"unclean-{last}"
    cluster.create(topic, (last, out_of_sync), min_insync_replicas="1")
    cluster.produce(topic, numbered(10))
    cluster.until_logs_equal(topic, (last, out_of_sync))
    cluster.kill(out_of_sync)
    cluster.until_in_sync(topic, (last,))
    cluster.produce(topic, ["only there"] * 5)
    cluster.kill(last)
    until(lambda: cluster.state(topic)["leader"] == -1, "the partition still has a leader")
    assert cluster.state(topic)["isr"] == [last]
    cluster.start(out_of_sync)
    unclean = {"unclean.leader.election.enable": "true"}
    with cluster.admin() as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=unclean)])
    cluster.until_led(out_of_sync, topic)
    cluster.produce(topic, numbered(10, 10))
    cluster.start(last)
    cluster.until_in_sync(topic, (last, out_of_sync))
    assert "leader_recovery_state" not in cluster.state(topic)
    assert cluster.consume(topic, 20) == numbered(20)
    cluster.until_logs_equal(topic, (last, out_of_sync))


@pytest.mark.parametrize(("first", "second"), [(KAFKA, 1), (1, KAFKA)])
def test_group_continues_when_kafka_and_zabka_coordinators_swap(cluster: MixedCluster, first: int, second: int) -> None:
    """A group continues from its committed offsets when a broker of the other implementation becomes coordinator.

    Each broker reads the records that the other has written to __consumer_offsets.
    """
    topic, group = f"grouped-{first}", f"readers-{first}"
    cluster.create(topic, ALL_BROKERS)
    cluster.produce(topic, numbered(100))
    assert read_in_group(cluster, topic, group, 40) == numbered(40)
    partition = group_partition(group)
    cluster.until_in_sync("__consumer_offsets", *[ALL_BROKERS] * OFFSETS_PARTITIONS)
    cluster.lead(first, "__consumer_offsets", partition)
    assert read_in_group(cluster, topic, group, 30) == numbered(30, 40)
    cluster.lead(second, "__consumer_offsets", partition)
    assert read_in_group(cluster, topic, group, 30) == numbered(30, 70)
    cluster.lead(first, "__consumer_offsets", partition)
    assert committed(cluster, topic, group) == 100


def committed(cluster: MixedCluster, topic: str, group: str) -> int | None:
    """Return the group's committed offset of partition 0."""
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id=group)
    try:
        offset: int | None = consumer.committed(TopicPartition(topic, 0))
        return offset
    finally:
        consumer.close()


def group_partition(group: str) -> int:
    """Return the partition of `__consumer_offsets` that stores a group.

    It is computed from Java's hash of the group name (GroupMetadataManager.partitionFor).
    """
    code = 0
    for letter in group:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return min(code, (1 << 32) - code) % OFFSETS_PARTITIONS


def read_in_group(cluster: MixedCluster, topic: str, group: str, count: int) -> list[str]:
    """Read the group's next `count` records, and commit the offset after each."""
    consumer = KafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap, group_id=group, auto_offset_reset="earliest",
        enable_auto_commit=False, consumer_timeout_ms=30_000, max_poll_records=10,
    )  # fmt: skip
    found = []
    try:
        for record in consumer:
            found.append(record.value.decode())
            if len(found) == count:
                place = TopicPartition(record.topic, record.partition)
                consumer.commit({place: OffsetAndMetadata(record.offset + 1, "", -1)})
                break
    finally:
        consumer.close()
    return found


def test_acknowledged_records_survive_a_kill_of_each_broker(cluster: MixedCluster) -> None:
    """No acknowledged record of Kafka's VerifiableProducer is lost while the three brokers are killed in turn.

    Each broker is restarted before the next one is killed.
    """
    topic = "outlives"
    cluster.create(topic, *THREE_WAYS, min_insync_replicas="2")
    with verifiable_producer(cluster.bootstrap, topic, records_per_s=200) as producer:
        for broker_id in ALL_BROKERS:
            producer.until_acknowledged(producer.acknowledged_count + 200)
            cluster.nodes[broker_id].kill()
            producer.until_acknowledged(producer.acknowledged_count + 200)
            cluster.until_gone(broker_id)
            cluster.start(broker_id)
            cluster.until_in_sync(topic, *[ALL_BROKERS] * 3)
    acknowledged = producer.acknowledged
    for partition in range(3):
        cluster.until_logs_equal(topic, ALL_BROKERS, partition)
        kept = cluster.consume(topic, cluster.end_offset(topic, partition), partition)
        for offset, value in acknowledged[partition].items():
            assert kept[offset] == value
