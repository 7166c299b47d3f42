"""ZooKeeper-based consumers on virtual time: leader and offsets in ZooKeeper, and partitions owned through
ephemerals.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest

from tests.broker_sim.broker_world import Channel, Cluster
from tests.broker_sim.groups.group_driver import a_cluster
from tests.controller.fake_ensemble import FakeSession
from tests.virtual_time.runtime import SimRuntime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.zookeeper_consumer import ZookeeperConsumer
from zabka.kafka.record_batch import Record
from zabka.kafka.zk.consumer_znodes import decode_member, decode_offset, encode_member

PARTITIONS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


class Reader:
    """A consumer on a separate machine, and the records that it received."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.got: list[tuple[TopicPartition, int, str]] = []
        self.runtime = SimRuntime(cluster.scheduler, cluster.runtime.random)
        self.session = FakeSession(cluster.ensemble, self.runtime)
        channel = Channel(cluster, self.runtime)
        self.consumer = ZookeeperConsumer(
            coordination=self.session,
            channel=channel,
            runtime=self.runtime,
            group_id="readers",
            consumer_id=name,
            topics=["orders"],
            take=self._take,
        )
        self.consumer.start()

    def _take(self, topic_partition: TopicPartition, records: Sequence[Record]) -> None:
        self.got += [(topic_partition, record.offset, (record.value or b"").decode()) for record in records]

    def numbers(self) -> list[int]:
        return [int(value) for _, _, value in self.got]

    def owned(self) -> list[TopicPartition]:
        return list(self.consumer.status().partitions)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = a_cluster()
    yield made
    made.stop_all()


def produce(cluster: Cluster, numbers: Sequence[int]) -> None:
    for number in numbers:
        record = Record(None, str(number).encode(), cluster.runtime.now().wall_ms)
        cluster.run(cluster.client.produce(PARTITIONS[number % 2], [record]))


def data(cluster: Cluster, path: str) -> bytes | None:
    node = cluster.ensemble.nodes.get(path)
    return None if node is None else node.data


def test_zookeeper_consumer_claims_partitions_and_stores_offsets(
    cluster: Cluster,
) -> None:
    reader = Reader(cluster, "c1")
    produce(cluster, range(5))
    cluster.wait(3_000)
    assert sorted(reader.numbers()) == list(range(5))
    member = json.loads(data(cluster, "/consumers/readers/ids/c1") or b"")
    assert member["subscription"] == {"orders": 1} and member["version"] == 1
    assert cluster.ensemble.nodes["/consumers/readers/ids/c1"].owner == reader.session.session_id
    assert data(cluster, "/consumers/readers/owners/orders/0") == b"c1-0"
    assert data(cluster, "/consumers/readers/offsets/orders/0") == b"3"
    assert data(cluster, "/consumers/readers/offsets/orders/1") == b"2"
    assert reader.consumer.status().lag == 0


def test_next_consumer_continues_from_the_committed_offsets(cluster: Cluster) -> None:
    reader = Reader(cluster, "c1")
    produce(cluster, range(4))
    cluster.wait(3_000)
    cluster.run(reader.consumer.stop())
    assert data(cluster, "/consumers/readers/ids/c1") is None
    assert data(cluster, "/consumers/readers/owners/orders/0") is None
    produce(cluster, [4])
    again = Reader(cluster, "c2")
    cluster.wait(3_000)
    assert again.numbers() == [4]


def test_members_share_the_partitions_and_hand_them_over(cluster: Cluster) -> None:
    first = Reader(cluster, "c1")
    produce(cluster, range(4))
    cluster.wait(3_000)
    assert first.owned() == PARTITIONS
    second = Reader(cluster, "c2")
    cluster.wait(3_000)
    assert (first.owned(), second.owned()) == ([PARTITIONS[0]], [PARTITIONS[1]])
    assert data(cluster, "/consumers/readers/owners/orders/1") == b"c2-0"
    produce(cluster, range(4, 8))
    cluster.wait(2_000)
    cluster.run(first.consumer.stop())
    cluster.wait(3_000)
    assert second.owned() == [PARTITIONS[1], PARTITIONS[0]]
    produce(cluster, range(8, 10))
    cluster.wait(2_000)
    assert sorted(first.numbers() + second.numbers()) == list(range(10))


def test_consumer_waits_for_a_partition_another_member_owns(cluster: Cluster) -> None:
    cluster.ensemble.put("/consumers/readers/owners/orders/1", b"zombie-0")
    reader = Reader(cluster, "c1")
    produce(cluster, range(4))
    cluster.wait(3_000)
    assert PARTITIONS[1] not in reader.owned()
    cluster.ensemble.delete("/consumers/readers/owners/orders/1")
    cluster.wait(3_000)
    assert reader.owned() == PARTITIONS and sorted(reader.numbers()) == list(range(4))


def test_zookeeper_consumer_finds_a_new_leader_in_zookeeper(cluster: Cluster) -> None:
    reader = Reader(cluster, "c1")
    produce(cluster, range(4))
    cluster.wait(3_000)
    info = cluster.run(cluster.client.metadata(["orders"]))
    leader = cluster.nodes[info.topics["orders"].partitions[0].leader]
    leader.kill()
    cluster.expire(leader)
    cluster.wait(3_000)
    produce(cluster, range(4, 8))
    cluster.wait(3_000)
    assert sorted(reader.numbers()) == list(range(8))


def test_expired_consumer_registers_and_claims_partitions_again(cluster: Cluster) -> None:
    reader = Reader(cluster, "c1")
    produce(cluster, range(4))
    cluster.wait(3_000)
    before = reader.session.session_id
    cluster.ensemble.end_session(before)
    cluster.wait(3_000)
    produce(cluster, range(4, 6))
    cluster.wait(2_000)
    assert cluster.ensemble.nodes["/consumers/readers/owners/orders/0"].owner == reader.session.session_id != before
    assert sorted(reader.numbers()) == list(range(6))


@pytest.mark.parametrize("text", [b"", b"[]", b'{"subscription":[]}', b"\xff"])
def test_znode_that_does_not_describe_a_member_is_skipped(text: bytes) -> None:
    assert decode_member(text) is None
    assert decode_member(encode_member({"t": 2}, 5)) == {"t": 2}


@pytest.mark.parametrize(
    ("text", "offset"), [(b"12", 12), (b" -1\n", -1), (b"", None), (b"x", None), (b"9" * 30, None), (None, None)]
)
def test_zookeeper_offset_is_a_decimal_string(text: bytes | None, offset: int | None) -> None:
    assert decode_offset(text) == offset
