"""The project's small group consumer with real coordinators, on virtual time: it reads each record once and in
order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Container, Iterator, Sequence

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Channel, Cluster
from tests.broker_sim.groups.group_driver import a_cluster
from tests.kafka.produced import headers_of
from tests.virtual_time.runtime import SimRuntime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import KafkaClient
from zabka.kafka.client.consumer_protocol import (
    BadConsumerProtocol,
    assign_ranges,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from zabka.kafka.client.group_client import GroupSettings
from zabka.kafka.client.group_consumer import GroupConsumer
from zabka.kafka.ports import ChannelBroken, Endpoint, KafkaMessage
from zabka.kafka.record_batch import HEADER, Record, build_batch, with_checksum
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of

GROUP_REQUESTS = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH)
CONTROL = 0x20
PARTITIONS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


class Line(Channel):
    """Channel of a consumer. Requests with an API key in `cut` fail as if the connection were broken."""

    cut: Container[ApiKey] = ()

    def call(self, to: Endpoint, request: KafkaMessage, timeout_ms: int) -> Awaitable[KafkaMessage]:
        return self._broken() if ApiKey(api_key_of(request)) in self.cut else super().call(to, request, timeout_ms)

    async def _broken(self) -> KafkaMessage:
        raise ChannelBroken("cut")


class Reader:
    """A consumer on its own machine, and the records that it received."""

    def __init__(self, cluster: Cluster, instance_id: str | None = None, topic: str = "orders") -> None:
        self.got: list[tuple[TopicPartition, int, str]] = []
        self.runtime = SimRuntime(cluster.scheduler, cluster.runtime.random)
        self.line = Line(cluster, self.runtime)
        bootstrap = [(f"broker-{broker_id}", 9092) for broker_id in cluster.nodes]
        client = KafkaClient(self.line, self.runtime, bootstrap)
        settings = GroupSettings("readers", (topic,), instance_id, 10_000, 20_000)
        self.consumer = GroupConsumer(client, self.runtime, settings, self._take)
        self.consumer.start()

    def _take(self, topic_partition: TopicPartition, records: Sequence[Record]) -> None:
        self.got += [(topic_partition, record.offset, (record.value or b"").decode()) for record in records]

    def numbers(self) -> list[int]:
        return [int(value) for _, _, value in self.got]

    def assigned(self) -> list[TopicPartition]:
        return list(self.consumer.status().partitions)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = a_cluster(group_initial_rebalance_delay_ms="500")
    yield made
    made.stop_all()


def produce(cluster: Cluster, numbers: Sequence[int]) -> None:
    for number in numbers:
        record = Record(None, str(number).encode(), cluster.runtime.now().wall_ms)
        cluster.run(cluster.client.produce(PARTITIONS[number % 2], [record]))


def test_consumer_reads_in_order_and_resumes_at_committed_offset(cluster: Cluster) -> None:
    reader = Reader(cluster)
    produce(cluster, range(10))
    cluster.wait(3_000)
    assert sorted(reader.numbers()) == list(range(10))
    for topic_partition in PARTITIONS:
        offsets = [offset for tp, offset, _ in reader.got if tp == topic_partition]
        assert offsets == list(range(5))
    assert reader.consumer.status().lag == 0
    cluster.run(reader.consumer.stop())
    produce(cluster, range(10, 14))
    again = Reader(cluster)
    cluster.wait(4_000)
    assert sorted(again.numbers()) == [10, 11, 12, 13]


def test_rebalance_moves_partitions_without_rereading_records(cluster: Cluster) -> None:
    first = Reader(cluster)
    produce(cluster, range(4))
    cluster.wait(3_000)
    second = Reader(cluster)
    cluster.wait(8_000)
    assert sorted(first.assigned() + second.assigned()) == PARTITIONS
    produce(cluster, range(4, 10))
    cluster.wait(1_000)
    cluster.run(first.consumer.stop())
    cluster.wait(8_000)
    assert second.assigned() == PARTITIONS
    produce(cluster, range(10, 14))
    cluster.wait(1_000)
    assert sorted(first.numbers() + second.numbers()) == list(range(14))


def test_crashed_consumer_is_replaced_after_its_session_timeout(cluster: Cluster) -> None:
    first, second = Reader(cluster), Reader(cluster)
    cluster.wait(5_000)
    produce(cluster, range(10))
    cluster.wait(2_000)
    first.runtime.stop()
    cluster.wait(15_000)
    produce(cluster, range(10, 14))
    cluster.wait(2_000)
    assert second.assigned() == PARTITIONS
    assert set(first.numbers() + second.numbers()) == set(range(14))


def test_topic_unknown_to_the_group_leader_is_assigned_later(cluster: Cluster) -> None:
    # The consumer's broker has just started and knows no topics, so the group becomes stable without partitions (seed
    # 501710).
    reader = Reader(cluster, topic="later")
    cluster.wait(5_000)
    assert reader.consumer.status().generation_id > 0 and not reader.assigned()
    cluster.run(cluster.client.create_topic("later", 1, 3))
    later = TopicPartition("later", 0)
    cluster.run(cluster.client.produce(later, [Record(None, b"7", cluster.runtime.now().wall_ms)]))
    cluster.wait(10_000)
    assert reader.assigned() == [later] and reader.numbers() == [7]


def test_former_leader_fences_a_client_with_a_newer_leader_epoch(cluster: Cluster) -> None:
    # Consumers can fetch from followers, and this former leader has lost its log. If the request had no leader epoch,
    # the broker would return OFFSET_OUT_OF_RANGE, and the group would take that for the end of the log (seed 16).
    produce(cluster, [0, 2, 4])
    info = cluster.run(cluster.client.metadata(["orders"])).topics["orders"].partitions[0]
    former = cluster.nodes[info.leader]
    partition = former.broker.replicas.partitions[PARTITIONS[0]]
    partition.leader_epoch += 1
    partition.leader = None
    partition.log.truncate_to(0)
    fetch = cluster.client.fetch(PARTITIONS[0], 3, max_wait_ms=1, timeout_ms=500)
    assert cluster.refused(fetch) == (ErrorCode.fenced_leader_epoch, "FENCED_LEADER_EPOCH")
    listed = cluster.client.list_offset(PARTITIONS[0], timeout_ms=500)
    assert cluster.refused(listed) == (ErrorCode.fenced_leader_epoch, "FENCED_LEADER_EPOCH")


def test_consumers_survive_a_coordinator_failure(cluster: Cluster) -> None:
    reader = Reader(cluster)
    produce(cluster, range(4))
    cluster.wait(3_000)
    for node in list(cluster.nodes.values())[:2]:
        node.kill()
        cluster.expire(node)
        cluster.wait(3_000)
        produce(cluster, range(4, 6))
        cluster.wait(6_000)
        node.boot()
        cluster.on(node, node.broker.start())
        cluster.wait(6_000)
    assert sorted(reader.numbers()) == [0, 1, 2, 3, 4, 4, 5, 5]


def test_fenced_static_member_stops(cluster: Cluster) -> None:
    first = Reader(cluster, "a")
    cluster.wait(3_000)
    second = Reader(cluster, "a")
    cluster.wait(8_000)
    assert second.assigned() == PARTITIONS
    status = first.consumer.status()
    assert status.generation_id == -1 and status.last_error == "FENCED_INSTANCE_ID"


def test_consumer_skips_a_batch_that_contains_no_data_records(cluster: Cluster) -> None:
    # Like Kafka's Fetcher, the consumer continues at the batch's next offset: here after a transaction marker,
    # elsewhere after a compacted batch. Otherwise the group's lag would stay at one record.
    produce(cluster, [0])
    info = cluster.run(cluster.client.metadata(["orders"])).topics["orders"].partitions[0]
    leader = cluster.nodes[info.leader].broker.replicas.partitions[PARTITIONS[0]]
    data = build_batch([Record(None, b"marker", 0)])
    (header,) = headers_of(data)
    marker, header = with_checksum(header._replace(attributes=CONTROL), data[HEADER.size :])
    assert leader.log is not None
    leader.log.append_as_leader(marker, [header], info.leader_epoch)
    reader = Reader(cluster)
    cluster.wait(6_000)
    produce(cluster, [2])
    cluster.wait(1_000)
    assert reader.numbers() == [0, 2]
    leader.log.append_as_leader(marker, [header], info.leader_epoch)
    cluster.wait(4_000)
    assert leader.log.high_watermark == 4 and reader.consumer.status().lag == 0


def test_expired_consumer_does_not_reset_its_groups_offsets(cluster: Cluster) -> None:
    # Like ConsumerCoordinator, the consumer sends no commit without a generation. The coordinator of an empty group
    # would accept such a commit, as from a consumer that assigns its own partitions.
    first = Reader(cluster)
    cluster.wait(3_000)
    first.line.cut = GROUP_REQUESTS
    produce(cluster, range(4))
    cluster.wait(1_000)
    assert sorted(first.numbers()) == list(range(4)), "it keeps reading, but cannot commit"
    first.line.cut = list(ApiKey)
    cluster.wait(15_000)
    second = Reader(cluster)
    cluster.wait(3_000)
    produce(cluster, range(4, 10))
    cluster.wait(3_000)
    assert sorted(second.numbers()) == list(range(10))
    cluster.run(second.consumer.stop())
    # Make only Fetch requests fail, so that the consumer rejoins the group before it can fetch again.
    first.line.cut = [ApiKey.FETCH]
    cluster.wait(10_000)
    first.line.cut = ()
    cluster.wait(3_000)
    assert first.assigned() == PARTITIONS and first.consumer.status().lag == 0
    assert sorted(first.numbers()) == list(range(4)), "another member has read the rest"


# ---- the consumer protocol ---------------------------------------------------------------------------------------


def test_subscriptions_and_assignments_survive_a_round_trip() -> None:
    assert decode_subscription(encode_subscription(["a", "b"])) == ("a", "b")
    assert sorted(decode_assignment(encode_assignment(PARTITIONS))) == PARTITIONS
    assert decode_assignment(b"") == ()


@pytest.mark.parametrize("data", [b"\x00", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x00\x00\x00\x00\x01\x00\x09a"])
def test_invalid_subscription_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(BadConsumerProtocol):
        decode_subscription(data)
    with pytest.raises(BadConsumerProtocol):
        decode_assignment(data)


def test_range_assignor_gives_extra_partitions_to_first_members() -> None:
    subscriptions = {"b": ["t"], "a": ["t", "u"], "c": ["t"]}
    given = assign_ranges(subscriptions, {"t": 5, "u": 1})
    assert {member: [(tp.topic, tp.partition) for tp in tps] for member, tps in given.items()} == {
        "a": [("t", 0), ("t", 1), ("u", 0)],
        "b": [("t", 2), ("t", 3)],
        "c": [("t", 4)],
    }
