"""Offsets committed in a transaction: they are pending until its marker, and fenced by the group's generation.

See KIP-98 and KIP-447.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from tests.broker_sim.groups.group_driver import OFFSETS_PARTITIONS, P0, Members, a_cluster
from tests.broker_sim.transactional_client import ID, PRODUCER, marker, write_markers
from zabka.broker_sim.groups.log import GroupLog
from zabka.broker_sim.groups.offsets import GroupOffsets, StoredOffset
from zabka.broker_sim.groups.records import OffsetAndMetadata, offset_key, offset_value
from zabka.broker_sim.groups.store import java_hash
from zabka.journal.events import TopicPartition
from zabka.kafka.end_transaction_marker import EndTransactionMarker, marker_batch
from zabka.kafka.record_batch import TRANSACTIONAL, Record, build_batch
from zabka.kafka.wire.kafka_schema import ApiKey

NONE, UNSTABLE = ErrorCode.none, ErrorCode.unstable_offset_commit
P1 = TopicPartition("orders", 1)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = a_cluster(transaction_partition_verification_enable="false")
    yield made
    made.stop_all()


@pytest.fixture
def members(cluster: Cluster) -> Members:
    return Members(cluster)


def commit(
    members: Members,
    offset: int,
    *,
    version: int = 4,
    epoch: int = 0,
    partition: TopicPartition = P0,
    metadata: str = "",
    **member: Any,
) -> ErrorCode:
    row = {"partition_index": partition.partition, "committed_offset": offset, "committed_metadata": metadata}
    asked = members.ask(
        ApiKey.TXN_OFFSET_COMMIT,
        version,
        transactional_id=ID,
        producer_id=PRODUCER,
        producer_epoch=epoch,
        topics=[{"name": partition.topic, "partitions": [row]}],
        **{"generation_id": -1, **member},
    )
    return ErrorCode(asked.answer.topics[0].partitions[0].error_code)


def offsets_partition(members: Members) -> TopicPartition:
    return TopicPartition("__consumer_offsets", java_hash(members.group_id) % OFFSETS_PARTITIONS)


def end(members: Members, *, commits: bool, epoch: int = 0, coordinator_epoch: int = 0) -> None:
    row = marker(offsets_partition(members), commit=commits, epoch=epoch, coordinator_epoch=coordinator_epoch)
    assert write_markers(members.cluster, members.coordinator, row) == [NONE]


def fail_over(members: Members) -> None:
    old = members.coordinator
    old.kill()
    members.cluster.expire(old)
    members.cluster.wait(2_000)
    assert members.coordinator is not old


@pytest.mark.parametrize("version", range(5))
def test_transactional_offset_is_pending_until_its_marker(members: Members, version: int) -> None:
    members.commit(10)
    assert commit(members, 20, version=version) is NONE
    assert members.committed().committed_offset == 10
    assert members.committed(stable=True).error_code is UNSTABLE
    end(members, commits=True)
    row = members.committed(stable=True)
    assert (row.error_code, row.committed_offset) == (NONE, 20)


def test_offset_of_an_aborted_transaction_is_dropped(members: Members) -> None:
    members.commit(10)
    commit(members, 20)
    end(members, commits=False)
    row = members.committed(stable=True)
    assert (row.error_code, row.committed_offset) == (NONE, 10)


def test_later_plain_commit_overrides_a_transactional_offset(members: Members) -> None:
    commit(members, 20)
    members.commit(30)
    end(members, commits=True)
    assert members.committed().committed_offset == 30


def test_last_offset_committed_in_a_transaction_is_used(members: Members) -> None:
    commit(members, 20)
    commit(members, 21)
    commit(members, 5, partition=P1)
    end(members, commits=True)
    assert (members.committed().committed_offset, members.committed(P1).committed_offset) == (21, 5)


@pytest.mark.parametrize("commits", [True, False])
def test_next_coordinator_completes_the_open_transaction(members: Members, commits: bool) -> None:
    members.commit(10)
    commit(members, 20)
    fail_over(members)
    assert members.committed(stable=True).error_code is UNSTABLE
    end(members, commits=commits)
    assert members.committed(stable=True).committed_offset == (20 if commits else 10)
    fail_over(members)
    assert members.committed(stable=True).committed_offset == (20 if commits else 10)


def test_producer_of_an_earlier_epoch_is_fenced(members: Members) -> None:
    commit(members, 20, epoch=1)
    end(members, commits=False, epoch=2)
    assert commit(members, 30, epoch=1) is ErrorCode.invalid_producer_epoch
    assert members.committed(stable=True).committed_offset == -1


def test_consumer_of_an_earlier_generation_is_fenced(members: Members) -> None:
    (member,), generation = members.stable(1)
    assert commit(members, 1, member_id=member, generation_id=generation) is NONE
    assert commit(members, 2, member_id=member, generation_id=generation - 1) is ErrorCode.illegal_generation
    assert commit(members, 2, member_id="gone", generation_id=generation) is ErrorCode.unknown_member_id
    # Producers before KIP-447 send neither a member id nor a generation.
    assert commit(members, 3) is NONE
    assert commit(members, 3, version=2) is NONE
    end(members, commits=True)
    assert members.committed(stable=True).committed_offset == 3


def test_commit_by_a_replaced_static_member_is_fenced(members: Members) -> None:
    (member,), generation = members.stable(instances=["one"])
    given = {"member_id": member, "generation_id": generation, "group_instance_id": "one"}
    assert commit(members, 1, **given) is NONE
    assert commit(members, 1, **{**given, "member_id": "other"}) is ErrorCode.fenced_instance_id


def test_transactional_commit_rejects_partitions_individually(members: Members) -> None:
    assert commit(members, 1, partition=TopicPartition("none", 0)) is ErrorCode.unknown_topic_or_partition
    assert commit(members, 1, metadata="x" * 4_097) is ErrorCode.offset_metadata_too_large
    assert commit(Members(members.cluster, ""), 1) is ErrorCode.invalid_group_id


def test_old_producer_gets_not_available_while_groups_load(members: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members.coordinator.broker.groups.store, "is_loading", lambda group_id: True)
    assert commit(members, 1, version=1) is ErrorCode.coordinator_not_available
    assert commit(members, 1, version=2) is ErrorCode.coordinator_load_in_progress


def test_transaction_ending_while_the_group_loads_is_applied(members: Members) -> None:
    commit(members, 20)
    store = members.coordinator.broker.groups.store
    number = offsets_partition(members).partition
    group = store.groups.pop(members.group_id)
    del store._owned[number]
    store.roles_changed()
    store.end_transaction(PRODUCER, [number], is_commit=True)
    members.cluster.wait(1_000)
    assert store.groups[members.group_id] is not group
    assert members.committed(stable=True).committed_offset == 20


def test_group_with_a_pending_offset_is_not_empty() -> None:
    offsets = GroupOffsets()
    committed = OffsetAndMetadata(1, -1, "", 0)
    offsets.prepare_in_transaction(PRODUCER, {P0: committed})
    assert not offsets.is_empty and offsets.is_pending(P0) and not offsets.is_pending(P1)
    offsets.fail_in_transaction(PRODUCER, P0)
    assert offsets.is_empty
    offsets.prepare_in_transaction(PRODUCER, {P0: committed})
    offsets.remove([P0])
    offsets.end_transaction(PRODUCER, is_commit=True)
    assert offsets.get(P0) is None


def test_loading_separates_committed_aborted_and_open_offsets() -> None:
    def rows(*offsets: tuple[str, int]) -> list[Record]:
        return [Record(offset_key(g, P0), offset_value(OffsetAndMetadata(n, -1, "", 0))) for g, n in offsets]

    def written(at: int, producer_id: int, *offsets: tuple[str, int]) -> bytes:
        return build_batch(
            rows(*offsets), base_offset=at, producer_id=producer_id, producer_epoch=0, attributes=TRANSACTIONAL
        )

    def ended(producer_id: int, is_commit: bool) -> bytes:
        return marker_batch(producer_id, 0, EndTransactionMarker(is_commit, 0), 0)

    log = GroupLog()
    data = [
        written(0, 1, ("committed", 1), ("both", 1)),
        written(2, 2, ("aborted", 2)),
        ended(1, True),
        ended(2, False),
        written(5, 3, ("open", 3), ("both", 3)),
    ]
    for _ in log.load_batches(b"".join(data)):
        pass
    groups = {group.group_id: group.offsets for group in log.groups(0)}
    assert sorted(groups) == ["both", "committed", "open"]
    assert groups["committed"].get(P0) == OffsetAndMetadata(1, -1, "", 0)
    assert groups["both"].get(P0) == OffsetAndMetadata(1, -1, "", 0) and groups["both"].is_pending(P0)
    assert groups["open"].get(P0) is None and groups["open"].producers == [3]
    assert StoredOffset(5, OffsetAndMetadata(3, -1, "", 0)) in groups["open"]._transactional[3].values()
