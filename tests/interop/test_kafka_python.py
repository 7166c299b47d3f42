from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from tests.interop.interop_brokers import BrokerCluster, broker_cluster

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function of importlib.resources that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic
    from kafka.errors import (
        InvalidConfigurationError,
        InvalidReplicationFactorError,
        TopicAlreadyExistsError,
        UnknownTopicOrPartitionError,
    )

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    with broker_cluster(tmp_path_factory.mktemp("kafka-python")) as running:
        yield running


@pytest.fixture
def admin(cluster: BrokerCluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    yield client
    client.close()


def consume(cluster: BrokerCluster, topic: str, partitions: int, count: int) -> list[tuple[int, int, bytes, bytes]]:
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap, group_id=None, auto_offset_reset="earliest", consumer_timeout_ms=15_000
    )
    consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
    found = []
    for message in consumer:
        found.append((message.partition, message.offset, message.key, message.value))
        if len(found) == count:
            break
    consumer.close()
    return found


def test_records_of_a_default_producer_are_read_without_a_group(
    cluster: BrokerCluster, admin: KafkaAdminClient
) -> None:
    admin.create_topics([NewTopic("orders", 3, 3)])
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    sent = [producer.send("orders", key=b"k%d" % n, value=b"v%d" % n) for n in range(1500)]
    producer.flush(20)
    stored = {(m.partition, m.offset) for m in (future.get(10) for future in sent)}
    producer.close()
    assert len(stored) == 1500
    found = consume(cluster, "orders", 3, 1500)
    assert {(partition, offset) for partition, offset, _, _ in found} == stored
    assert sorted(value for *_, value in found) == sorted(b"v%d" % n for n in range(1500))


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_are_produced_with_every_acks_value(
    cluster: BrokerCluster, admin: KafkaAdminClient, acks: int | str
) -> None:
    topic = f"acks-{acks}"
    admin.create_topics([NewTopic(topic, 1, 3)])
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks=acks, enable_idempotence=False)
    for number in range(100):
        producer.send(topic, b"%d" % number)
    producer.flush(20)
    producer.close()
    assert [int(value) for *_, value in consume(cluster, topic, 1, 100)] == list(range(100))


def test_offsets_are_found_by_timestamp(cluster: BrokerCluster, admin: KafkaAdminClient) -> None:
    admin.create_topics([NewTopic("timed", 1, 3)])
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, linger_ms=0)
    for timestamp in (1_000, 2_000, 3_000):
        producer.send("timed", b"x", timestamp_ms=timestamp).get(10)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id=None)
    partition = TopicPartition("timed", 0)
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 3}
    assert consumer.offsets_for_times({partition: 1_500})[partition].offset == 1
    consumer.close()


def all_know(cluster: BrokerCluster, topic: str, partitions: int) -> bool:
    """Return whether every broker's metadata contains that many partitions of the topic."""
    for broker in cluster.brokers.values():
        client = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{broker.port}")
        try:
            described = client.describe_topics([topic])
        finally:
            client.close()
        if [len(row["partitions"]) for row in described] != [partitions]:
            return False
    return True


def test_topics_are_created_and_administered(cluster: BrokerCluster, admin: KafkaAdminClient) -> None:
    admin.create_topics([NewTopic("admin", 2, 2, topic_configs={"min.insync.replicas": "2"})])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic("admin", 2, 2)])
    with pytest.raises(InvalidReplicationFactorError):
        admin.create_topics([NewTopic("admin2", 1, 9)])
    with pytest.raises(InvalidConfigurationError):
        admin.create_topics([NewTopic("admin2", 1, 1, topic_configs={"no.such.key": "1"})])
    admin.create_partitions({"admin": NewPartitions(total_count=4)})

    # The controller does not update all brokers at once, and the client asks any of them, so retry.
    def replicas() -> list[int]:
        (described,) = admin.describe_topics(["admin"])
        return [len(row["replica_nodes"]) for row in described["partitions"]]

    cluster.until(lambda: replicas() == [2] * 4 and all_know(cluster, "admin", 4))
    resource = ConfigResource(ConfigResourceType.TOPIC, "admin")
    assert admin.describe_configs([resource])["topic"]["admin"]["min.insync.replicas"]["value"] == "2"
    changed = ConfigResource(ConfigResourceType.TOPIC, "admin", configs={"retention.ms": "1000"})
    admin.alter_configs([changed])
    assert admin.describe_configs([resource])["topic"]["admin"]["retention.ms"]["value"] == "1000"
    admin.delete_topics(["admin"])
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics(["never-was"])
    cluster.until(lambda: "admin" not in admin.list_topics())


def test_cluster_is_described(cluster: BrokerCluster, admin: KafkaAdminClient) -> None:
    described = admin.describe_cluster()
    assert sorted(broker["broker_id"] for broker in described["brokers"]) == [1, 2, 3]
    assert described["controller_id"] == cluster.controller().broker_id
