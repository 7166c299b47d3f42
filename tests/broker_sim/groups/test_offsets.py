"""Committed offsets: which commits the coordinator accepts, what it returns, and where and how long it stores them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from tests.broker_sim.groups.group_driver import OFFSETS_PARTITIONS, P0, Members, a_cluster, find
from zabka.broker_sim.groups.store import java_hash
from zabka.journal.events import TopicPartition
from zabka.kafka.record_batch import Record, build_batch
from zabka.kafka.wire.kafka_schema import ApiKey, request

NONE = ErrorCode.none
P1 = TopicPartition("orders", 1)
DAY_MS = 24 * 60 * 60_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = a_cluster(offset_metadata_max_bytes="10")
    yield made
    made.stop_all()


@pytest.fixture
def members(cluster: Cluster, request: pytest.FixtureRequest) -> Members:
    return Members(cluster, request.node.name)


def commit_error(answer: object) -> ErrorCode:
    return ErrorCode(answer.topics[0].partitions[0].error_code)  # type: ignore[attr-defined]


# ---- commits and their generation ------------------------------------------------------------------------------


def test_simple_consumer_can_store_offsets_without_a_group(members: Members) -> None:
    assert members.committed().committed_offset == -1
    assert commit_error(members.commit(7, metadata="note").answer) is NONE
    row = members.committed()
    assert (row.committed_offset, row.committed_leader_epoch, row.metadata) == (7, 0, "note")
    assert members.committed(P1).committed_offset == -1
    assert members.state() == "Empty"


def test_member_can_commit_only_in_the_current_generation(members: Members) -> None:
    assert commit_error(members.commit(1, "m", 3).answer) is ErrorCode.illegal_generation
    (member,), generation = members.stable()
    assert commit_error(members.commit(5, member, generation).answer) is NONE
    assert commit_error(members.commit(6, member, generation - 1).answer) is ErrorCode.illegal_generation
    assert commit_error(members.commit(6, "nobody", generation).answer) is ErrorCode.unknown_member_id
    # While the group has members, a commit without a member id is rejected.
    assert commit_error(members.commit(6).answer) is ErrorCode.unknown_member_id
    assert members.committed().committed_offset == 5


def test_member_of_old_generation_can_commit_while_others_rejoin(members: Members) -> None:
    (member,), generation = members.stable()
    members.new_member()
    assert commit_error(members.commit(5, member, generation).answer) is NONE
    members.join(member)
    assert members.state() == "CompletingRebalance"
    assert commit_error(members.commit(6, member, generation + 1).answer) is ErrorCode.rebalance_in_progress
    assert members.committed().committed_offset == 5


def test_offset_commit_counts_as_a_heartbeat(members: Members) -> None:
    (member,), generation = members.stable()
    for offset in range(4):
        members.cluster.wait(8_000)
        assert commit_error(members.commit(offset, member, generation).answer) is NONE


def test_offset_commit_rejects_only_its_unknown_partitions(members: Members) -> None:
    rows = [{"partition_index": n, "committed_offset": 4, "committed_metadata": None} for n in (0, 9)]
    topics = [{"name": "orders", "partitions": rows}, {"name": "none", "partitions": rows[:1]}]
    answer = members.ask(ApiKey.OFFSET_COMMIT, 8, member_id="", topics=topics).answer
    errors = {(t.name, p.partition_index): ErrorCode(p.error_code) for t in answer.topics for p in t.partitions}
    unknown = ErrorCode.unknown_topic_or_partition
    assert errors == {("orders", 0): NONE, ("orders", 9): unknown, ("none", 0): unknown}
    assert members.committed().committed_offset == 4


def test_too_long_offset_metadata_is_rejected(members: Members) -> None:
    assert commit_error(members.commit(1, metadata="x" * 11).answer) is ErrorCode.offset_metadata_too_large
    assert members.committed().committed_offset == -1


@pytest.mark.parametrize("version", [0, 9])
def test_offset_metadata_length_is_counted_in_utf16_units(members: Members, version: int) -> None:
    # Kafka's limit counts UTF-16 code units (String.length in GroupMetadataManager.validateOffsetMetadataLength).
    # Characters above U+FFFF count as two.
    assert commit_error(members.commit(1, metadata="\U0001f600" * 5, version=version).answer) is NONE
    refused = members.commit(2, metadata="\U0001f600" * 5 + "x", version=version).answer
    assert commit_error(refused) is ErrorCode.offset_metadata_too_large


# ---- responses -------------------------------------------------------------------------------------------------


def test_offset_commit_response_waits_for_the_isr(members: Members) -> None:
    members.commit(3)
    coordinator = members.coordinator
    others = [node for node in members.cluster.nodes.values() if node is not coordinator]
    for node in others:
        node.runtime.pause()
    try:
        asked = members.commit(4)
        assert asked.answer is None
        assert members.committed().committed_offset == 3
        assert members.committed(stable=True).error_code == ErrorCode.unstable_offset_commit
    finally:
        for node in others:
            node.runtime.resume()
    members.cluster.wait(2_000)
    assert commit_error(asked.answer) is NONE
    assert members.committed(stable=True).committed_offset == 4


def test_offset_commit_in_progress_succeeds_if_a_later_one_fails(members: Members) -> None:
    members.commit(3)
    coordinator = members.coordinator
    number = java_hash(members.group_id) % OFFSETS_PARTITIONS
    partition = coordinator.broker.replicas.partitions[TopicPartition("__consumer_offsets", number)]
    settings = partition.settings
    others = [node for node in members.cluster.nodes.values() if node is not coordinator]
    for node in others:
        node.runtime.pause()
    try:
        waiting = members.commit(4)
        partition.settings = replace(settings, records=settings.records._replace(max_message_bytes=10))
        assert commit_error(members.commit(5).answer) is ErrorCode.invalid_commit_offset_size
        partition.settings = settings
        assert members.committed(stable=True).error_code == ErrorCode.unstable_offset_commit
    finally:
        for node in others:
            node.runtime.resume()
    members.cluster.wait(2_000)
    assert commit_error(waiting.answer) is NONE
    assert members.committed(stable=True).committed_offset == 4


def test_offset_fetch_returns_all_partitions_of_several_groups(members: Members) -> None:
    members.commit(4)
    members.commit(9, partition=P1)
    groups = [{"group_id": members.group_id, "topics": None}, {"group_id": members.group_id, "topics": []}]
    answer = members.ask(ApiKey.OFFSET_FETCH, 8, groups=groups).answer
    rows = {(t.name, p.partition_index): p.committed_offset for t in answer.groups[0].topics for p in t.partitions}
    assert rows == {("orders", 0): 4, ("orders", 1): 9}
    assert list(answer.groups[1].topics) == []


def test_offset_fetch_before_v2_returns_errors_per_partition(members: Members) -> None:
    topics = [{"name": "orders", "partition_indexes": [0]}]
    other = next(node for node in members.cluster.nodes.values() if node is not members.coordinator)
    old = members.ask(ApiKey.OFFSET_FETCH, 1, other, topics=topics).answer
    assert old.topics[0].partitions[0].error_code == ErrorCode.not_coordinator
    newer = members.ask(ApiKey.OFFSET_FETCH, 2, other, topics=topics).answer
    assert newer.error_code == ErrorCode.not_coordinator and not newer.topics


# ---- version 0: offsets in ZooKeeper ---------------------------------------------------------------------------


def test_version_0_of_offset_commit_writes_only_to_zookeeper(members: Members) -> None:
    node = next(iter(members.cluster.nodes.values()))
    path = f"/consumers/{members.group_id}/offsets/orders/0"
    rows = [{"partition_index": 0, "committed_offset": 12, "committed_metadata": ""}]
    asked = members.ask(ApiKey.OFFSET_COMMIT, 0, node, topics=[{"name": "orders", "partitions": rows}])
    assert commit_error(asked.answer) is NONE
    assert members.cluster.ensemble.nodes[path].data == b"12"
    requested = [{"name": "orders", "partition_indexes": [0, 1]}]
    fetched = members.ask(ApiKey.OFFSET_FETCH, 0, node, topics=requested).answer.topics[0].partitions
    assert [(row.committed_offset, row.error_code) for row in fetched] == [
        (12, NONE),
        (-1, ErrorCode.unknown_topic_or_partition),
    ]
    # The group coordinator has no committed offset, because OffsetCommit version 0 writes only to ZooKeeper.
    assert members.committed().committed_offset == -1


# ---- deletion and expiry ---------------------------------------------------------------------------------------


def test_offsets_are_deletable_only_for_unsubscribed_topics(members: Members) -> None:
    def delete() -> object:
        topics = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
        return members.ask(ApiKey.OFFSET_DELETE, 0, topics=topics).answer

    assert delete().error_code == ErrorCode.group_id_not_found  # type: ignore[attr-defined]
    (member,), generation = members.stable()
    members.commit(5, member, generation)
    assert commit_error(delete()) is ErrorCode.group_subscribed_to_topic
    members.leave((member, None))
    assert commit_error(delete()) is NONE
    assert members.committed().committed_offset == -1


def test_offsets_of_a_deleted_topic_are_removed(members: Members) -> None:
    cluster = members.cluster
    cluster.run(cluster.client.create_topic("gone", 1, 3))
    gone = TopicPartition("gone", 0)
    members.commit(5, partition=gone)
    members.commit(6)
    cluster.run(cluster.client.delete_topic("gone"))
    cluster.wait(3_000)
    assert members.coordinator.broker.groups.store.groups[members.group_id].offsets.partitions() == [P0]


@pytest.fixture
def short_retention() -> Iterator[Members]:
    made = a_cluster(1, offsets_retention_minutes="60", offsets_retention_check_interval_ms="60000")
    yield Members(made)
    made.stop_all()


def test_offsets_and_empty_group_expire_after_the_retention_time(short_retention: Members) -> None:
    members = short_retention
    (member,), generation = members.stable()
    members.commit(5, member, generation)
    for _ in range(70):
        for _ in range(10):
            members.cluster.wait(6_000)
            assert members.heartbeat(member, generation) is NONE
    assert members.committed().committed_offset == 5
    members.leave((member, None))
    members.cluster.wait(58 * 60_000)
    assert members.committed().committed_offset == 5
    members.cluster.wait(3 * 60_000)
    assert members.committed().committed_offset == -1
    assert members.state() == "Dead"


def test_offset_commit_up_to_v4_can_set_its_retention_time(short_retention: Members) -> None:
    members = short_retention
    assert commit_error(members.commit(5, version=4, retention_time=600_000).answer) is NONE
    members.cluster.wait(8 * 60_000)
    assert members.committed().committed_offset == 5
    members.cluster.wait(4 * 60_000)
    assert members.committed().committed_offset == -1


def test_simple_consumer_offset_expires_by_its_commit_time(short_retention: Members) -> None:
    members = short_retention
    members.commit(5)
    members.cluster.wait(40 * 60_000)
    members.commit(6, partition=P1)
    members.cluster.wait(25 * 60_000)
    assert members.committed().committed_offset == -1
    assert members.committed(P1).committed_offset == 6


# ---- finding the coordinator -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    # Computed with Java's Utils.abs("...".hashCode()).
    [("", 0), ("payments", 1382682413), ("console-consumer-1", 35782224), ("\U0001f600", 1772899)],
)
def test_group_hash_equals_java_string_hash(text: str, code: int) -> None:
    assert java_hash(text) == code


def test_coordinator_is_the_leader_of_the_group_partition(members: Members) -> None:
    for node in members.cluster.nodes.values():
        (row,) = find(node, members.group_id)
        assert row.error_code == NONE and row.node_id == members.coordinator.broker_id
        assert (row.host, row.port) == (f"broker-{row.node_id}", 9092)
    node = members.coordinator
    asked = request(ApiKey.FIND_COORDINATOR, 3, key=members.group_id, key_type=0)
    old = members.cluster.on(node, node.broker.handle(asked))
    assert (old.node_id, old.error_message) == (node.broker_id, "NONE")


def coordinator_of(members: Members, version: int, kind: int) -> tuple[ErrorCode, str | None, int]:
    """Find the coordinator of a key of type `kind`. Return the error code, error message and broker id."""
    node = members.coordinator
    asked = request(ApiKey.FIND_COORDINATOR, version, key="t", key_type=kind, coordinator_keys=["t"])
    answer = members.cluster.on(node, node.broker.handle(asked))
    row = answer.coordinators[0] if version >= 4 else answer
    return ErrorCode(row.error_code), getattr(row, "error_message", None), row.node_id


def test_find_coordinator_rejects_share_groups_and_unknown_types(members: Members) -> None:
    malformed = coordinator_of(members, 3, 7)
    assert malformed[0] is ErrorCode.invalid_request and str(malformed[1]).startswith("This most likely occurs because")
    assert coordinator_of(members, 6, 7) == malformed
    assert coordinator_of(members, 6, 2) == (ErrorCode.coordinator_not_available, "", -1)
    assert coordinator_of(members, 5, 2) == (ErrorCode.invalid_request, "", -1)


def test_offsets_topic_is_created_on_demand_if_brokers_suffice() -> None:
    cluster = Cluster(3, offsets_topic_num_partitions="3").start(1, 2)
    node = cluster.nodes[1]
    assert find(node, "g")[0].error_code == ErrorCode.coordinator_not_available
    cluster.wait(2_000)
    assert "__consumer_offsets" not in node.broker.metadata
    cluster.start(3)
    cluster.wait(2_000)
    assert find(node, "g")[0].error_code == ErrorCode.coordinator_not_available
    cluster.wait(2_000)
    assert find(node, "g")[0].error_code == NONE
    info = cluster.run(cluster.client.metadata(["__consumer_offsets"])).topics["__consumer_offsets"]
    assert [len(partition.replicas) for partition in info.partitions] == [3, 3, 3]
    assert node.broker.configs.topic_overrides("__consumer_offsets") == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    cluster.stop_all()


def test_clients_cannot_produce_to_the_offsets_topic(members: Members) -> None:
    node = members.coordinator
    number = java_hash(members.group_id) % 4
    records = build_batch([Record(b"k", b"v", 0)])
    rows = [{"name": "__consumer_offsets", "partition_data": [{"index": number, "records": records}]}]
    message = request(ApiKey.PRODUCE, 9, acks=1, timeout=1_000, topic_data=rows, transactional_id=None)

    def produce(client_id: str) -> ErrorCode:
        answer = members.cluster.on(node, node.broker.handle(message, client_id, "PLAINTEXT"))
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    assert produce("anybody") is ErrorCode.invalid_topic_exception
    assert produce("__admin_client") is NONE


def test_records_of_internal_topics_cannot_be_deleted(
    members: Members,
) -> None:
    members.commit(7)
    number = java_hash(members.group_id) % OFFSETS_PARTITIONS
    offsets = TopicPartition("__consumer_offsets", number)
    replica = members.coordinator.broker.replicas.partitions[offsets]
    replica.settings = replace(replica.settings, deletes=True)
    topics = [{"name": offsets.topic, "partitions": [{"partition_index": number, "offset": -1}]}]
    asked = request(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout=1_000)
    answer = members.cluster.on(members.coordinator, members.coordinator.broker.handle(asked, "c", "PLAINTEXT"))
    (row,) = answer.topics[0].partitions
    assert (row.error_code, row.low_watermark) == (ErrorCode.invalid_topic_exception, -1)
    assert replica.log.start_offset == 0
