"""A broker's metadata cache: for each partition, the latest state that a controller sent."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from tests.virtual_time.runtime import SimRuntime
from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.journal.events import TopicPartition
from zabka.kafka.wire.kafka_schema import ApiKey, KafkaMessage, request
from zabka.simulation.engine.scheduler import Scheduler

P0 = TopicPartition("orders", 0)
FIRST, SECOND = UUID(int=1), UUID(int=2)


@pytest.fixture
def cache() -> MetadataCache:
    return MetadataCache(SimRuntime(Scheduler(), Random(1)), "PLAINTEXT")


def update(
    leader: int, partition_epoch: int, topic_id: UUID = FIRST, partitions: int = 1, live: tuple[int, ...] = ()
) -> KafkaMessage:
    row = {
        "controller_epoch": 1,
        "leader": leader,
        "leader_epoch": 0,
        "isr": (1, 2),
        "zk_version": partition_epoch,
        "replicas": (1, 2),
        "offline_replicas": (),
    }
    rows = [{**row, "partition_index": number} for number in range(partitions)]
    topics = [{"topic_name": "orders", "topic_id": topic_id, "partition_states": rows}]
    return request(
        ApiKey.UPDATE_METADATA,
        7,
        controller_id=1,
        controller_epoch=1,
        broker_epoch=1,
        topic_states=topics,
        live_brokers=[
            {"id_": broker, "endpoints": [{"port": 9092, "host": "h", "listener": "L", "security_protocol": 0}]}
            for broker in live
        ],
    )


def leader(cache: MetadataCache) -> int | None:
    found = cache.partition(P0)
    return None if found is None else found.leader


def test_late_update_metadata_request_changes_nothing(cache: MetadataCache) -> None:
    cache.apply(update(1, 7))
    cache.apply(update(2, 8))
    cache.apply(update(1, 7))
    assert leader(cache) == 2


def test_live_brokers_in_an_older_update_metadata_are_ignored(cache: MetadataCache) -> None:
    cache.apply(update(1, 7, live=(1, 2, 3)))
    cache.apply(update(1, 8, live=(1, 2)))
    cache.apply(update(1, 7, live=(1, 2, 3)))
    assert [broker.broker_id for broker in cache.brokers()] == [1, 2]
    cache.apply(update(1, 8, live=(1, 2, 4)))
    assert [broker.broker_id for broker in cache.brokers()] == [1, 2, 4], "an unchanged state is applied, too"


def test_recreated_topic_is_cached_with_its_new_epochs(cache: MetadataCache) -> None:
    cache.apply(update(2, 8))
    cache.apply(update(1, 0, SECOND))
    assert leader(cache) == 1


def test_topic_deletion_removes_a_partition_of_any_epoch(cache: MetadataCache) -> None:
    cache.apply(update(2, 8))
    assert cache.apply(update(-2, 0)) == [P0]
    assert leader(cache) is None


def test_late_deletion_of_a_former_topic_keeps_the_current_one(cache: MetadataCache) -> None:
    cache.apply(update(2, 8))
    cache.apply(update(-2, 0))
    cache.apply(update(1, 0, SECOND))
    assert cache.apply(update(-2, 0)) == [], "otherwise newer commits of groups would be removed"
    assert (leader(cache), cache.topic_of_id(SECOND)) == (1, "orders")


@pytest.mark.parametrize("deletion_received", [False, True])
def test_late_update_for_a_former_topic_is_ignored(cache: MetadataCache, deletion_received: bool) -> None:
    cache.apply(update(2, 8))
    if deletion_received:
        cache.apply(update(-2, 0))
    cache.apply(update(1, 0, SECOND))
    cache.apply(update(2, 9))
    assert (leader(cache), cache.topic_id("orders")) == (1, SECOND)


def test_late_update_does_not_restore_a_deleted_topic(cache: MetadataCache) -> None:
    cache.apply(update(2, 8))
    cache.apply(update(-2, 0))
    cache.apply(update(2, 8))
    assert leader(cache) is None
    cache.apply(update(-2, 0, SECOND))
    cache.apply(update(2, 8, SECOND))
    assert leader(cache) is None, "nor a topic whose deletion arrives first"


def test_recreated_topic_has_only_its_own_partitions(cache: MetadataCache) -> None:
    cache.apply(update(2, 8, partitions=4))
    cache.apply(update(1, 0, SECOND, partitions=2))
    assert [partition.partition for partition in cache.partitions("orders")] == [0, 1]
    assert cache.topic_of_id(FIRST) is None


def test_deletion_of_a_newer_topic_removes_the_former_one(cache: MetadataCache) -> None:
    # The controller failed before it announced the first topic's deletion. This broker was unreachable while a second
    # topic with the same name was created.
    cache.apply(update(1, 7, partitions=3))
    assert cache.apply(update(-2, 0, SECOND, partitions=2)) == [P0, TopicPartition("orders", 1)]
    assert "orders" not in cache and cache.topic_id("orders") is None
    for late in (update(1, 8), update(1, 0, SECOND)):
        cache.apply(late)
        assert "orders" not in cache


@pytest.mark.parametrize("version", range(9))
def test_update_metadata_of_any_version_sets_leader_and_endpoint(version: int) -> None:
    """UpdateMetadata of any version sets the leader and the broker endpoints.

    Versions 0 to 4 do not group partitions by topic. Version 0 has one plaintext endpoint per broker.
    """
    state = {"partition_index": 0, "leader": 3, "leader_epoch": 5, "isr": [3], "replicas": [3, 4], "zk_version": 1}
    endpoint = {"host": "h", "port": 9092, "listener": "PLAINTEXT", "security_protocol": 0}
    message = request(
        ApiKey.UPDATE_METADATA,
        version,
        controller_id=3,
        controller_epoch=1,
        ungrouped_partition_states=[{"topic_name": "orders", **state}],
        topic_states=[{"topic_name": "orders", "partition_states": [state]}],
        live_brokers=[{"id_": 3, "v0_host": "h", "v0_port": 9092, "endpoints": [endpoint]}],
    )
    cache = MetadataCache(SimRuntime(Scheduler(), Random(1)), "PLAINTEXT")
    cache.apply(message)
    partition = cache.partition(TopicPartition("orders", 0))
    assert partition is not None
    assert (partition.leader, partition.leader_epoch, partition.replicas) == (3, 5, (3, 4))
    found = cache.endpoint(3, "PLAINTEXT")
    assert found is not None and (found.host, found.port) == ("h", 9092)
