"""What a broker believes of partitions it does not host: the last that a controller told it."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.journal.events import TopicPartition
from zabka.kafka.wire.kafka_schema import ApiKey, KafkaMessage, request
from zabka.simulation.kernel.runtime import SimRuntime
from zabka.simulation.kernel.scheduler import Scheduler

P0 = TopicPartition("orders", 0)
FIRST, SECOND = UUID(int=1), UUID(int=2)


@pytest.fixture
def cache() -> MetadataCache:
    return MetadataCache(SimRuntime(Scheduler(), Random(1)), "PLAINTEXT")


def told(
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


def test_a_request_that_arrives_behind_its_successors_changes_nothing(cache: MetadataCache) -> None:
    cache.apply(told(1, 7))
    cache.apply(told(2, 8))
    cache.apply(told(1, 7))
    assert leader(cache) == 2


def test_who_lives_is_not_taken_from_a_request_that_names_an_older_state(cache: MetadataCache) -> None:
    cache.apply(told(1, 7, live=(1, 2, 3)))
    cache.apply(told(1, 8, live=(1, 2)))
    cache.apply(told(1, 7, live=(1, 2, 3)))
    assert [broker.broker_id for broker in cache.brokers()] == [1, 2]
    cache.apply(told(1, 8, live=(1, 2, 4)))
    assert [broker.broker_id for broker in cache.brokers()] == [1, 2, 4], "what is as it was is told again, too"


def test_a_topic_made_again_under_the_same_name_begins_anew(cache: MetadataCache) -> None:
    cache.apply(told(2, 8))
    cache.apply(told(1, 0, SECOND))
    assert leader(cache) == 1


def test_a_deletion_removes_a_partition_whatever_epoch_is_known(cache: MetadataCache) -> None:
    cache.apply(told(2, 8))
    assert cache.apply(told(-2, 0)) == [P0]
    assert leader(cache) is None


def test_a_deletion_of_the_former_topic_that_comes_late_harms_the_present_one_nothing(cache: MetadataCache) -> None:
    cache.apply(told(2, 8))
    cache.apply(told(-2, 0))
    cache.apply(told(1, 0, SECOND))
    assert cache.apply(told(-2, 0)) == [], "or what groups have committed since would be forgotten"
    assert (leader(cache), cache.topic_of_id(SECOND)) == (1, "orders")


@pytest.mark.parametrize("heard_of_deletion", [False, True])
def test_what_comes_late_of_a_former_topic_does_not_take_the_present_ones_place(
    cache: MetadataCache, heard_of_deletion: bool
) -> None:
    cache.apply(told(2, 8))
    if heard_of_deletion:
        cache.apply(told(-2, 0))
    cache.apply(told(1, 0, SECOND))
    cache.apply(told(2, 9))
    assert (leader(cache), cache.topic_id("orders")) == (1, SECOND)


def test_a_topic_that_was_deleted_is_not_brought_back_by_what_comes_late(cache: MetadataCache) -> None:
    cache.apply(told(2, 8))
    cache.apply(told(-2, 0))
    cache.apply(told(2, 8))
    assert leader(cache) is None
    cache.apply(told(-2, 0, SECOND))
    cache.apply(told(2, 8, SECOND))
    assert leader(cache) is None, "nor one of which it hears by its deletion first"


def test_a_topic_made_anew_has_none_of_the_former_ones_partitions(cache: MetadataCache) -> None:
    cache.apply(told(2, 8, partitions=4))
    cache.apply(told(1, 0, SECOND, partitions=2))
    assert [partition.partition for partition in cache.partitions("orders")] == [0, 1]
    assert cache.topic_of_id(FIRST) is None


def test_a_topic_of_which_the_end_was_never_told_ends_with_the_next_one_of_its_name(cache: MetadataCache) -> None:
    # Its controller died with the word, and this broker was out of reach while the next one of that name was made.
    cache.apply(told(1, 7, partitions=3))
    assert cache.apply(told(-2, 0, SECOND, partitions=2)) == [P0, TopicPartition("orders", 1)]
    assert "orders" not in cache and cache.topic_id("orders") is None
    for late in (told(1, 8), told(1, 0, SECOND)):
        cache.apply(late)
        assert "orders" not in cache


@pytest.mark.parametrize("version", range(9))
def test_update_metadata_of_every_version_names_leader_and_endpoint(version: int) -> None:
    """Versions 0 to 4 list partitions without their topics, and version 0 has one plaintext endpoint per broker."""
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
