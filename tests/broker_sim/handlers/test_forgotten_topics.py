"""A broker releases the memory of a topic when the topic is deleted."""

from __future__ import annotations

from random import Random
from typing import Any, cast
from uuid import UUID

from tests.broker_sim.replication.replication_cluster import TP, Cluster, at_once
from tests.virtual_time.runtime import SimRuntime
from zabka.broker_sim.handlers.metadata import MetadataHandlers
from zabka.broker_sim.metadata_cache import LEADER_DURING_DELETE, MetadataCache
from zabka.broker_sim.request_context import RequestContext
from zabka.journal.events import TopicPartition
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.simulation.engine.scheduler import Scheduler


def update(number: int, leader: int) -> Any:
    row = {
        "partition_index": 0,
        "controller_epoch": 1,
        "leader": leader,
        "leader_epoch": 0,
        "isr": (1,),
        "zk_version": 0,
        "replicas": (1,),
        "offline_replicas": (),
    }
    topics = [{"topic_name": f"t{number}", "topic_id": UUID(int=number), "partition_states": [row]}]
    outer = {"controller_id": 1, "controller_epoch": 1, "broker_epoch": 1, "live_brokers": []}
    return request(ApiKey.UPDATE_METADATA, 7, topic_states=topics, **outer)


def test_metadata_cache_frees_the_names_of_deleted_topics() -> None:
    cache = MetadataCache(SimRuntime(Scheduler(), Random(1)), "PLAINTEXT")
    handlers = MetadataHandlers(cache, cast(Any, None), lambda: "cluster")
    everything = request(ApiKey.METADATA, 12, topics=None)
    for number in range(1, 11):
        cache.apply(update(number, 1))
        answer: Any = at_once(handlers.metadata(everything, RequestContext("", "PLAINTEXT")))
        assert [topic.name for topic in answer.topics] == [f"t{number}"]
        assert list(handlers._rows) == [f"t{number}"]
        cache.apply(update(number, LEADER_DURING_DELETE))


def test_follower_frees_names_of_topics_it_no_longer_hosts() -> None:
    cluster = Cluster(2)
    cluster.create([1, 2])
    for number in range(1, 11):
        cluster.topic_id = UUID(int=100 + number)
        other = TopicPartition(f"other-{number}", 0)
        cluster.create([1, 2], other)
        cluster.run(20)
        cluster[2].manager._fetchers.remove(other)
        del cluster.states[other]
    (fetcher,) = cluster[2].manager._fetchers._fetchers.values()
    cluster.run(2_000)
    assert len(fetcher._names) <= 3
    cluster.produce(1, "a")
    cluster.settle()
    assert cluster[2].partition.topic_partition == TP
