"""Fetch and produce requests that wait for very many partitions.

When one partition changes, the broker does not check the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import thread_time

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from tests.broker_sim.replication.replication_cluster import batch
from tests.virtual_time.futures import SimFuture
from zabka.broker_sim.ports import FetchParams, FetchPartition
from zabka.broker_sim.replication.follower_state import FollowerState
from zabka.broker_sim.replication.replica_manager import ReplicaManager
from zabka.journal.events import TopicPartition

PARTITIONS = [TopicPartition("orders", number) for number in range(1_500)]
ONE = batch("v" * 100)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster(1).start()
    made.run(made.client.create_topic("orders", len(PARTITIONS), 1))
    made.wait(3_000)
    yield made
    made.stop_all()


@pytest.fixture
def replicas(cluster: Cluster) -> ReplicaManager:
    return cluster.controller.broker.replicas


def fetch(replicas: ReplicaManager, min_bytes: int) -> SimFuture:
    """Send a consumer's fetch that starts at the log end of every partition."""
    params = FetchParams(replica_id=-1, max_wait_ms=60_000, min_bytes=min_bytes, max_bytes=50_000_000)
    ends = [replicas.partitions[each].log.end_offset for each in PARTITIONS]
    requested = [FetchPartition(each, end, -1, -1, 1_000_000, -1) for each, end in zip(PARTITIONS, ends, strict=True)]
    answer = replicas.fetch(params, requested)
    assert isinstance(answer, SimFuture)
    return answer


def produce(replicas: ReplicaManager, *partitions: TopicPartition) -> None:
    replicas.produce([(each, ONE) for each in partitions], 1, 1_000)


def test_waiting_fetch_counts_new_bytes_of_a_partition_once(replicas: ReplicaManager) -> None:
    answer = fetch(replicas, min_bytes=4 * len(ONE))
    produce(replicas, PARTITIONS[0])
    produce(replicas, PARTITIONS[0], PARTITIONS[1])
    assert not answer.done()
    produce(replicas, PARTITIONS[2])
    assert sum(len(row.records) for row in answer.result()) == 4 * len(ONE)


def test_waiting_fetch_ignores_bytes_above_the_high_watermark(replicas: ReplicaManager) -> None:
    """A waiting fetch does not count bytes that the consumer cannot read.

    Such bytes exist if the consumer reads from a follower whose high watermark decreases under a new leader.
    """
    answer = fetch(replicas, min_bytes=4 * len(ONE))
    first = replicas.partitions[PARTITIONS[0]]
    before = first.log.high_watermark
    for _ in range(2):
        produce(replicas, PARTITIONS[0])
    first.log.high_watermark, mark = before, first.log.high_watermark
    first.host.wake(PARTITIONS[0])
    for _ in range(2):
        produce(replicas, PARTITIONS[1])
    assert not answer.done()
    first.log.high_watermark = mark
    first.host.wake(PARTITIONS[0])
    assert sum(len(row.records) for row in answer.result()) == 4 * len(ONE)


def test_large_fetch_does_not_slow_produce_to_many_partitions(
    replicas: ReplicaManager,
) -> None:
    answer = fetch(replicas, min_bytes=(len(PARTITIONS) + 1) * len(ONE))
    began_s = thread_time()
    produce(replicas, *PARTITIONS)
    assert thread_time() - began_s < 1.5 and not answer.done()
    produce(replicas, PARTITIONS[7])
    assert answer.done()


def test_waiting_delete_records_checks_only_changed_partitions(
    replicas: ReplicaManager,
) -> None:
    produce(replicas, *PARTITIONS)
    for each in PARTITIONS:
        partition = replicas.partitions[each]
        follower = FollowerState(partition.host.broker_id)
        follower.start_offset = 0
        partition.followers = {follower.broker_id: follower}
    deleted = replicas.delete_records(dict.fromkeys(PARTITIONS, 1), 60_000)
    assert isinstance(deleted, SimFuture)
    began_s = thread_time()
    for each in PARTITIONS:
        assert not deleted.done()
        partition = replicas.partitions[each]
        partition.followers[partition.host.broker_id].start_offset = 1
        partition.host.wake(each)
    assert deleted.result() == dict.fromkeys(PARTITIONS, (ErrorCode.none, 1))
    assert thread_time() - began_s < 0.5
