"""The coordinator of a group moves with its `__consumer_offsets` partition, and loads its state only from the log."""

from __future__ import annotations

from collections.abc import Iterator
from time import thread_time

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster, Node
from tests.broker_sim.groups.group_driver import (
    INITIAL_DELAY_MS,
    OFFSETS_PARTITIONS,
    P0,
    SESSION_MS,
    Members,
    a_cluster,
)
from zabka.broker_sim.groups.log import GroupLog
from zabka.broker_sim.groups.offsets import StoredOffset
from zabka.broker_sim.groups.records import OffsetAndMetadata, group_key, offset_key, offset_value
from zabka.broker_sim.groups.store import java_hash
from zabka.broker_sim.slices import SLICE_RECORDS
from zabka.ensemble.ports import Future
from zabka.journal.events import LogDamageFound, TopicPartition
from zabka.kafka.client.consumer_protocol import decode_assignment
from zabka.kafka.compression import Codec
from zabka.kafka.record_batch import Record, build_batch
from zabka.kafka.wire.kafka_schema import ApiKey, request

NONE = ErrorCode.none
SESSION_EXPIRY_MS = 8_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = a_cluster()
    yield made
    made.stop_all()


@pytest.fixture
def members(cluster: Cluster) -> Members:
    return Members(cluster)


async def _never(future: Future[None]) -> None:
    await future


def fail_over(members: Members) -> Node:
    """Kill the coordinator with SIGKILL, and return the next coordinator."""
    old = members.coordinator
    old.kill()
    members.cluster.expire(old)
    members.cluster.wait(2_000)
    assert members.coordinator is not old
    return members.coordinator


def test_offsets_and_members_survive_a_coordinator_failure(members: Members) -> None:
    (leader, follower), generation = members.stable(2)
    members.commit(41, leader, generation, metadata="half way")
    fail_over(members)
    row = members.committed()
    assert (row.committed_offset, row.metadata) == (41, "half way")
    # The group is stable at the new coordinator: no member has to rejoin, and each keeps its assignment.
    assert members.heartbeat(leader, generation) is NONE
    assert members.heartbeat(follower, generation) is NONE
    assert decode_assignment(members.sync(leader, generation).answer.assignment) == (P0,)
    assert members.described().protocol_data == "range"


def test_silent_member_expires_one_timeout_after_the_failover(members: Members) -> None:
    (leader, follower), generation = members.stable(2)
    fail_over(members)
    for _ in range(3):
        members.cluster.wait(4_000)
        members.heartbeat(leader, generation)
    assert members.heartbeat(follower, generation) is ErrorCode.unknown_member_id
    assert members.heartbeat(leader, generation) is ErrorCode.rebalance_in_progress


def test_failover_discards_a_rebalance_and_members_rejoin(members: Members) -> None:
    (leader,), generation = members.stable()
    newcomer, _ = members.new_member()
    fail_over(members)
    assert members.heartbeat(leader, generation) is NONE
    assert members.join(newcomer).error is ErrorCode.unknown_member_id
    newcomer, join = members.new_member()
    assert members.heartbeat(leader, generation) is ErrorCode.rebalance_in_progress
    members.join(leader)
    assert join.answer.generation_id == generation + 1


def test_waiting_join_fails_when_its_coordinator_resigns(members: Members) -> None:
    cluster = members.cluster
    (leader, _), _ = members.stable(2)
    old = members.coordinator
    waiting = members.join(leader)
    assert waiting.answer is None
    number = java_hash(members.group_id) % OFFSETS_PARTITIONS
    partition = old.broker.replicas.partitions[TopicPartition("__consumer_offsets", number)]
    # During a clean stop, the controller moves the partition's leadership while the old broker is still running.
    old.runtime.spawn(old.broker.stop(), "stop")
    cluster.wait(3_000)
    assert waiting.error is ErrorCode.not_coordinator
    assert not partition.is_leader or old.broker.state == "stopped"
    assert members.coordinator is not old
    assert members.state() == "Stable"


def test_deleted_group_stays_deleted_after_failover(members: Members) -> None:
    (member,), generation = members.stable()
    members.commit(5, member, generation)
    members.leave((member, None))
    errors = members.coordinator.broker.groups.delete_groups([members.group_id])
    assert errors == {members.group_id: NONE}
    members.cluster.wait(500)
    fail_over(members)
    assert members.state() == "Dead"
    assert members.committed().committed_offset == -1


def test_group_deletion_in_several_log_batches_survives_failover() -> None:
    # The group has a hundred offsets. Their tombstones need several batches, because at most a dozen fit into one.
    cluster = a_cluster(message_max_bytes="600")
    members = Members(cluster)
    cluster.run(cluster.client.create_topic("many", 100, 3))
    for number in range(100):
        members.commit(5, partition=TopicPartition("many", number))
    assert len(members.coordinator.broker.groups.store.groups[members.group_id].offsets) == 100
    assert members.coordinator.broker.groups.delete_groups([members.group_id]) == {members.group_id: NONE}
    cluster.wait(500)
    fail_over(members)
    assert members.state() == "Dead"
    cluster.stop_all()


def test_old_partition_of_a_group_is_ignored_after_topic_growth() -> None:
    cluster = a_cluster(1)
    node = cluster.controller
    group_id = next(name for name in map(str, range(99)) if java_hash(name) % 8 != java_hash(name) % 4)
    members = Members(cluster, group_id)
    members.commit(5)
    topics = [{"name": "__consumer_offsets", "count": 8, "assignments": None}]
    grow = request(ApiKey.CREATE_PARTITIONS, 3, topics=topics, timeout=5_000, validate_only=False)
    assert cluster.on(node, node.broker.handle(grow)).results[0].error_code == NONE
    for offset in (9, 11):
        # The broker reads the number of partitions of `__consumer_offsets` only when it starts.
        node.kill()
        cluster.expire(node)
        cluster.start()
        cluster.wait(3_000)
        members.commit(offset, node=node)
        assert members.committed(node=node).committed_offset == offset
    node.kill()
    cluster.expire(node)
    cluster.start()
    cluster.wait(3_000)
    assert members.committed(node=node).committed_offset == 11
    cluster.stop_all()


def test_offsets_of_simple_consumers_survive_failover(members: Members) -> None:
    commit = members.commit(8)
    assert commit.answer.topics[0].partitions[0].error_code == NONE
    fail_over(members)
    assert members.committed().committed_offset == 8
    assert members.state() == "Empty"


def test_topic_deletion_during_loading_removes_its_offsets(members: Members) -> None:
    members.commit(8)
    members.commit(9, partition=TopicPartition("orders", 1))
    coordinator = members.coordinator
    groups, number = coordinator.broker.groups, java_hash(members.group_id) % OFFSETS_PARTITIONS
    groups.store._give_up([number])
    groups.roles_changed()
    groups.partitions_deleted([P0])
    members.cluster.wait(1_000)
    assert members.committed().committed_offset == -1
    assert members.committed(TopicPartition("orders", 1)).committed_offset == 9
    fail_over(members)
    assert members.committed().committed_offset == -1, "the next coordinator does not load them either"


@pytest.mark.parametrize("removal", ["topic deleted", "offset deleted", "group deleted"])
def test_removed_pending_offset_commit_stays_removed_at_failover(members: Members, removal: str) -> None:
    members.commit(8, partition=TopicPartition("orders", 1))
    coordinator = members.coordinator
    groups = coordinator.broker.groups
    others = [node for node in members.cluster.nodes.values() if node is not coordinator]
    for node in others:
        node.runtime.pause()
    try:
        assert members.commit(9).answer is None
        if removal == "topic deleted":
            groups.partitions_deleted([P0])
        elif removal == "offset deleted":
            assert groups.delete_offsets(members.group_id, [P0]) == (NONE, {P0: NONE})
        else:
            assert groups.delete_groups([members.group_id]) == {members.group_id: NONE}
    finally:
        for node in others:
            node.runtime.resume()
    members.cluster.wait(2_000)
    assert members.committed().committed_offset == -1
    fail_over(members)
    assert members.committed().committed_offset == -1
    assert members.state() == ("Dead" if removal == "group deleted" else "Empty")


def test_reelected_coordinator_reads_the_log_again(members: Members) -> None:
    cluster = members.cluster
    members.commit(8)
    first = members.coordinator
    fail_over(members)
    members.commit(9)
    first.boot()
    cluster.on(first, first.broker.start())
    cluster.wait(5_000)
    assert members.committed().committed_offset == 9
    for node in cluster.nodes.values():
        if node is not first and not node.runtime.stopped:
            node.kill()
            cluster.expire(node)
            cluster.wait(2_000)
    assert members.coordinator is first
    assert members.committed().committed_offset == 9


def test_requests_while_loading_get_coordinator_load_in_progress(members: Members) -> None:
    (leader,), generation = members.stable()
    store = members.coordinator.broker.groups.store
    number = store.partition_for(members.group_id)
    del store._owned[number]
    store._loading[number] = None
    assert members.join(leader).error is ErrorCode.coordinator_load_in_progress
    assert members.committed() is ErrorCode.coordinator_load_in_progress
    # Heartbeat and SyncGroup get other error codes, because some clients cannot handle COORDINATOR_LOAD_IN_PROGRESS in
    # these responses.
    assert members.heartbeat(leader, generation) is NONE
    assert members.sync(leader, generation).error is ErrorCode.rebalance_in_progress


def test_group_loading_yields_while_reading_a_large_batch() -> None:
    rows = [Record(offset_key(f"group-{n}", P0), offset_value(OffsetAndMetadata(n, -1, "", 1))) for n in range(1_000)]
    for codec in (Codec.NONE, Codec.GZIP):
        log = GroupLog()
        assert sum(1 for _ in log.load_batches(build_batch(rows, codec=codec))) >= len(rows) // SLICE_RECORDS
        assert [group.offsets.get(P0).offset for group in log.groups(1)] == list(range(1_000))


def test_damaged_offsets_batch_is_skipped_and_others_are_read() -> None:
    def batch(offset: int, codec: Codec = Codec.NONE) -> bytes:
        key = offset_key(f"group-{offset}", P0)
        return build_batch(
            [Record(key, offset_value(OffsetAndMetadata(1, -1, "", 1)))], base_offset=offset, codec=codec
        )

    damaged = bytearray(batch(1, Codec.GZIP))
    damaged[-12] ^= 0xFF
    log = GroupLog()
    for _ in log.load_batches(batch(0) + damaged + batch(2) + batch(3)[:-1]):
        pass
    assert (log.unreadable, [group.group_id for group in log.groups(1)]) == (1, ["group-0", "group-2"])


def test_coordinator_resigns_when_metadata_moves_its_partition(
    members: Members,
) -> None:
    # The controller considered this broker dead when the partition moved, so it sent the broker no LeaderAndIsr or
    # StopReplica.
    members.stable()
    node = members.coordinator
    waiting, _ = members.new_member()
    joined = members.join(waiting)
    assert joined.answer is None
    store = node.broker.groups.store
    number = store.partition_for(members.group_id)
    partition = node.broker.replicas.partitions[TopicPartition("__consumer_offsets", number)]
    others = [broker_id for broker_id in (1, 2, 3) if broker_id != node.broker_id]
    row = {
        "partition_index": number,
        "leader": others[0],
        "leader_epoch": partition.leader_epoch + 1,
        "isr": others,
        "replicas": others,
    }
    topics = [{"topic_name": "__consumer_offsets", "partition_states": [row]}]
    fields = {"controller_id": members.cluster.controller.broker_id, "broker_epoch": -1, "live_brokers": []}
    epoch = node.broker.replicas.controller_epoch
    message = request(ApiKey.UPDATE_METADATA, 8, topic_states=topics, controller_epoch=epoch, **fields)
    assert not members.cluster.on(node, node.broker.handle(message, "c", "PLAINTEXT")).error_code
    assert not store.owns(members.group_id) and members.group_id not in store.groups
    members.cluster.wait(20)
    assert joined.error is ErrorCode.not_coordinator


def test_partition_unloaded_while_groups_load_leaves_no_group(members: Members) -> None:
    members.stable()
    node = members.coordinator
    store = node.broker.groups.store
    number = store.partition_for(members.group_id)
    del store._owned[number]
    store._loading[number] = node.runtime.spawn(_never(node.runtime.future()), "load")
    store._give_up([number])
    assert members.group_id not in store.groups and not store.is_loading_any


def test_unloading_offsets_partitions_examines_each_group_once(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = members.coordinator.broker.groups.store
    for number in range(20):
        store.get_or_create(f"group-{number}")
    store._owned = dict.fromkeys(range(OFFSETS_PARTITIONS))
    hashed: list[str] = []
    partition_for = store.partition_for
    monkeypatch.setattr(store, "partition_for", lambda group_id: hashed.append(group_id) or partition_for(group_id))
    groups = list(store.groups)
    store._give_up(range(OFFSETS_PARTITIONS))
    assert (store.groups, hashed) == ({}, groups)


def test_topic_deletion_does_not_scan_every_group_per_partition(members: Members) -> None:
    members.commit(5)
    store = members.coordinator.broker.groups.store
    committed = OffsetAndMetadata(1, 0, "", 0)
    for number in range(5_000):
        offsets = store.get_or_create(f"group-{number}").offsets
        offsets.prepare({P0: committed, TopicPartition("orders", 1): committed})
        offsets.complete(P0, StoredOffset(0, committed))
    gone = [TopicPartition("gone", number) for number in range(4_000)]
    began_s = thread_time()
    store.forget(gone)
    assert thread_time() - began_s < 1
    store.forget([*gone, P0, TopicPartition("orders", 1)])
    assert list(store.groups) == []


def test_assignment_that_cannot_be_stored_is_not_sent() -> None:
    cluster = a_cluster(min_insync_replicas="2")
    members = Members(cluster)
    member_id, _ = members.new_member()
    cluster.wait(INITIAL_DELAY_MS + 500)
    coordinator = members.coordinator
    for node in cluster.nodes.values():
        if node is not coordinator:
            node.kill()
            cluster.expire(node)
    cluster.wait(SESSION_EXPIRY_MS)
    cluster_heartbeat = members.heartbeat(member_id, 1)
    assert cluster_heartbeat is NONE
    sync = members.sync(member_id, 1, {member_id: [P0]})
    cluster.wait(6_000)
    assert sync.error is ErrorCode.coordinator_not_available
    assert members.state() == "PreparingRebalance"
    cluster.stop_all()


def test_heartbeat_without_member_id_is_fenced_after_failover(members: Members) -> None:
    """The new coordinator fences a static member's heartbeat that has no member id.

    Kafka compares the member id in the request with the loaded one (GroupCoordinator.validateCurrentMember). librdkafka
    sends heartbeats without a member id between its session timeout and the application's next poll. The Java client
    keeps its member id.
    """
    (member,), generation = members.stable(instances=("a",))
    fail_over(members)
    assert members.heartbeat("", generation, "a") is ErrorCode.fenced_instance_id
    assert members.commit(1, "", generation, group_instance_id="a").answer.topics[0].partitions[0].error_code == (
        ErrorCode.fenced_instance_id
    )
    assert members.sync("", generation, instance_id="a").error is ErrorCode.fenced_instance_id
    assert members.heartbeat(member, generation, "a") is NONE


def test_static_member_joins_without_member_id_after_failover(members: Members) -> None:
    """The new coordinator gives the static member a new member id, and the generation stays the same
    (updateStaticMemberAndRebalance).
    """
    (member,), generation = members.stable(instances=("a",))
    fail_over(members)
    back = members.join(instance_id="a")
    members.cluster.wait(100)
    assert (back.error, back.answer.generation_id, members.state()) == (NONE, generation, "Stable")
    assert back.answer.member_id not in ("", member)
    assert members.heartbeat(back.answer.member_id, generation, "a") is NONE
    assert members.heartbeat(member, generation, "a") is ErrorCode.fenced_instance_id
    # The next coordinator reads the member's new id from the group's metadata record.
    fail_over(members)
    assert members.heartbeat(back.answer.member_id, generation, "a") is NONE
    assert members.heartbeat(member, generation, "a") is ErrorCode.fenced_instance_id


def test_expired_static_member_is_unknown_after_failover(members: Members) -> None:
    """A static member whose session expires at the new coordinator is removed from the group.

    Then no member has its group.instance.id, so its requests fail with UNKNOWN_MEMBER_ID.
    """
    (member,), generation = members.stable(instances=("a",))
    fail_over(members)
    members.cluster.wait(SESSION_MS)
    assert members.heartbeat("", generation, "a") is ErrorCode.unknown_member_id
    assert members.heartbeat(member, generation, "a") is ErrorCode.unknown_member_id


def test_static_member_survives_failed_write_during_rebalance(
    members: Members,
) -> None:
    (leader, follower), generation = members.stable(instances=("a", "b"))
    instances = {row.member_id: row.group_instance_id for row in members.described().members}
    others = [node for node in members.cluster.nodes.values() if node is not members.coordinator]
    for node in others:
        node.runtime.pause()
    back = members.join(instance_id=instances[follower])
    assert back.answer is None
    again = members.join(leader, instance_id=instances[leader])
    assert (again.error, back.error) == (NONE, NONE) and back.answer.generation_id == generation + 1
    # Wait longer than offsets.commit.timeout.ms, after which the coordinator stops waiting for the group record's
    # write.
    members.cluster.wait(5_500)
    assert members.heartbeat(back.answer.member_id, generation + 1, instances[follower]) is NONE
    for node in others:
        node.runtime.resume()


def test_slow_static_rejoin_survives_missing_sync_group(
    members: Members,
) -> None:
    joins = {instance: members.join(instance_id=instance, rebalance_ms=7_000) for instance in ("a", "b")}
    members.cluster.wait(3 * INITIAL_DELAY_MS)
    generation = joins["a"].answer.generation_id
    leader, other = ("a", "b") if joins["a"].answer.members else ("b", "a")
    leader_id = joins[leader].answer.member_id
    members.sync(leader_id, generation, {}, instance_id=leader)
    members.cluster.wait(100)
    others = [node for node in members.cluster.nodes.values() if node is not members.coordinator]
    for node in others:
        node.runtime.pause()
    back = members.join(instance_id=other, rebalance_ms=7_000)
    members.cluster.wait(4_000)
    for node in others:
        node.runtime.resume()
    members.cluster.wait(1_000)
    assert back.error is NONE
    assert members.heartbeat(back.answer.member_id, generation, other) is NONE


def test_unreadable_group_records_are_skipped_and_reported(members: Members) -> None:
    members.commit(8)
    cluster, node = members.cluster, members.coordinator
    number = java_hash(members.group_id) % OFFSETS_PARTITIONS
    keys = [b"\x00\x09newer", b"\x00\x02\x00\x63cut", b"", group_key("other")]
    batch = build_batch([Record(key, b"\x00\x63", 0) for key in keys])
    rows = [{"name": "__consumer_offsets", "partition_data": [{"index": number, "records": batch}]}]
    message = request(ApiKey.PRODUCE, 9, acks=-1, timeout=5_000, topic_data=rows, transactional_id=None)
    answer = cluster.on(node, node.broker.handle(message, "__admin_client", "PLAINTEXT"))
    assert answer.responses[0].partition_responses[0].error_code == NONE
    after = fail_over(members)
    assert members.committed().committed_offset == 8
    assert [(event.file, event.reason) for event in after.of(LogDamageFound)] == [
        (f"__consumer_offsets-{number}", "4 records are neither groups nor offsets")
    ]


def test_group_is_loaded_from_a_compacted_log() -> None:
    keys = {"offsets_topic_segment_bytes": "2000", "log_cleaner_min_cleanable_ratio": "0.01"}
    cluster = a_cluster(log_cleaner_backoff_ms="1000", **keys)
    members = Members(cluster)
    (member,), generation = members.stable()
    for offset in range(150):
        members.commit(offset, member, generation)
        if offset % 20 == 0:
            cluster.wait(1_000)
    number = java_hash(members.group_id) % OFFSETS_PARTITIONS
    name = TopicPartition("__consumer_offsets", number)
    cluster.wait(5_000)
    assert members.heartbeat(member, generation) is NONE
    sizes = [node.broker.replicas.partitions[name].log.size_bytes for node in cluster.nodes.values()]
    assert max(sizes) < 150 * 60, sizes
    fail_over(members)
    assert members.committed().committed_offset == 149
    assert members.heartbeat(member, generation) is NONE
    cluster.stop_all()
