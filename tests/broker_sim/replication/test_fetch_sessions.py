"""Unit tests of fetch sessions: session epochs, incremental responses, and the end of a session (KIP-227)."""

from __future__ import annotations

from random import Random

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.replication.replication_cluster import TP, Cluster, batch
from tests.broker_sim.replication.test_requests import create, session_request
from zabka.broker_sim.ports import FetchedPartition
from zabka.broker_sim.replication.fetch_session import FetchContext, FetchKey, FetchRefused, FetchSessions, Rows
from zabka.journal.events import TopicPartition

EPOCH_MAX = 2**31 - 1


def key(number: int) -> FetchKey:
    return ("t", number)


def rows(*numbers: int, mark: int = 0, start: int = 0, records: bytes = b"", error: int = 0) -> Rows:
    return {key(n): FetchedPartition(TP, error, mark, start, records) for n in numbers}


def of_two() -> tuple[FetchSessions, int]:
    """Return a fetch session for partitions 1 and 2. The last response had high watermark 0 and log start offset 0 for
    both.
    """
    sessions = FetchSessions(Random(1), slots=2, eviction_ms=100)
    return sessions, create(sessions, 0, 1, 2)


def opened(sessions: FetchSessions, session_id: int, epoch: int, *numbers: int, now_ms: int = 1) -> FetchContext:
    context = sessions.open(session_request(session_id, epoch, *numbers), now_ms)
    assert isinstance(context, FetchContext)
    return context


def refused(sessions: FetchSessions, session_id: int, epoch: int) -> ErrorCode | None:
    context = sessions.open(session_request(session_id, epoch), 1)
    return context.error if isinstance(context, FetchRefused) else None


def test_fetch_session_epoch_increases_with_each_fetch() -> None:
    sessions, session_id = of_two()
    for epoch in (1, 2, 3):
        assert refused(sessions, session_id, epoch + 1) is ErrorCode.invalid_fetch_session_epoch
        assert list(opened(sessions, session_id, epoch).partitions) == [key(1), key(2)]
    assert refused(sessions, session_id, 3) is ErrorCode.invalid_fetch_session_epoch
    assert refused(sessions, session_id + 1, 1) is ErrorCode.fetch_session_id_not_found


def test_fetch_session_epoch_after_the_largest_int32_is_one() -> None:
    """After the largest session epoch comes 1, because epoch 0 would start a new session (FetchMetadata.nextEpoch)."""
    sessions, session_id = of_two()
    sessions._sessions[session_id].epoch = EPOCH_MAX
    opened(sessions, session_id, EPOCH_MAX)
    opened(sessions, session_id, 1)


def test_fetch_session_with_topic_names_rejects_topic_ids() -> None:
    sessions, session_id = of_two()
    by_ids = session_request(session_id, 1)._replace(uses_topic_ids=True)
    context = sessions.open(by_ids, 1)
    assert isinstance(context, FetchRefused) and context.error is ErrorCode.fetch_session_topic_id_error


@pytest.mark.parametrize(("epoch", "begins"), [(0, True), (-1, False)])
def test_full_fetch_closes_its_session_and_can_start_a_new_one(epoch: int, begins: bool) -> None:
    sessions, session_id = of_two()
    context = opened(sessions, session_id, epoch, 1)
    assert len(sessions) == 0
    error, new_id, returned = context.finish(rows(1))
    assert (error, new_id != 0, returned) == (ErrorCode.none, begins, rows(1))
    assert len(sessions) == begins and new_id != session_id


def test_fetch_session_without_partitions_is_closed() -> None:
    sessions, session_id = of_two()
    forgetting = session_request(session_id, 1)._replace(forgotten=(key(1), key(2)))
    context = sessions.open(forgetting, 1)
    assert isinstance(context, FetchContext) and context.partitions == {} and len(sessions) == 0
    assert context.finish({}) == (ErrorCode.none, 0, {})


def test_fetch_session_adds_and_forgets_partitions_as_requested() -> None:
    sessions, session_id = of_two()
    changing = session_request(session_id, 1, 3)._replace(forgotten=(key(1),))
    context = sessions.open(changing, 1)
    assert isinstance(context, FetchContext) and list(context.partitions) == [key(2), key(3)]


def test_fetch_with_an_outdated_session_epoch_is_rejected() -> None:
    sessions, session_id = of_two()
    first = opened(sessions, session_id, 1)
    assert first.without_rows() == (ErrorCode.none, session_id)
    opened(sessions, session_id, 2)
    assert first.without_rows() == (ErrorCode.invalid_fetch_session_epoch, session_id)
    assert first.finish(rows(1, 2, records=b"x")) == (ErrorCode.invalid_fetch_session_epoch, session_id, {})
    assert opened(FetchSessions(Random(1), 1, 1), 0, 0, 1).without_rows() == (ErrorCode.none, 0)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(rows(2, mark=1), id="another high watermark"),
        pytest.param(rows(2, start=1), id="another start"),
        pytest.param(rows(2, records=b"x"), id="records"),
        pytest.param(rows(2, error=int(ErrorCode.not_leader_or_follower)), id="an error"),
    ],
)
def test_only_changed_partitions_are_returned(changed: Rows) -> None:
    sessions, session_id = of_two()
    assert opened(sessions, session_id, 1).finish(rows(1, 2)) == (ErrorCode.none, session_id, {})
    assert opened(sessions, session_id, 2).finish({**rows(1), **changed}) == (ErrorCode.none, session_id, changed)


def test_returned_partition_moves_to_the_fetch_sessions_end() -> None:
    """A partition that returned records is moved to the end of the session's order.

    Kafka's FetchSession does the same, so that a partition with many records does not starve the others.
    """
    sessions, session_id = of_two()
    opened(sessions, session_id, 1).finish({**rows(1, records=b"x"), **rows(2)})
    assert list(opened(sessions, session_id, 2).partitions) == [key(2), key(1)]


def test_fetch_session_is_created_only_in_a_free_slot() -> None:
    sessions = FetchSessions(Random(1), slots=0, eviction_ms=100)
    assert create(sessions, 0, 1) == 0 and len(sessions) == 0


@pytest.mark.parametrize(("later_ms", "begins"), [(100, False), (101, True)])
def test_fetch_session_unused_for_over_the_limit_is_evicted(later_ms: int, begins: bool) -> None:
    sessions = FetchSessions(Random(1), slots=1, eviction_ms=100)
    first = create(sessions, 0, 1, 2)
    assert (create(sessions, later_ms, 1) > 0) == begins
    assert (refused(sessions, first, 1) is None) != begins


# -- ListOffsets 0 ---------------------------------------------------------------------------------------------------


def test_list_offsets_v0_limits_consumers_to_high_watermark() -> None:
    """ListOffsets version 0 returns consumers no offset above the high watermark.

    Kafka does the same (Partition.legacyFetchOffsetsForTimestamp).
    """
    cluster = Cluster(2)
    cluster.create([1, 2])
    cluster.produce(1, "a")
    cluster.settle()
    cluster.cut_link(1, 2)
    cluster.produce_later(1, batch("b"), acks=1)
    cluster.run(50)
    manager = cluster[1].manager
    assert (cluster[1].partition.log.end_offset, cluster[1].partition.log.high_watermark) == (2, 1)
    assert manager.offsets_before(TP, -1, 5, from_consumer=False, leader_only=True) == (0, [2, 0])
    assert manager.offsets_before(TP, -1, 5, from_consumer=True, leader_only=True) == (0, [1, 0])
    assert manager.offsets_before(TP, -2, 5, from_consumer=True, leader_only=True) == (0, [0])
    error, offsets = manager.offsets_before(TopicPartition("no", 0), -1, 5, from_consumer=True, leader_only=True)
    assert error and offsets == []
    error, _ = cluster[2].manager.offsets_before(TP, -1, 5, from_consumer=True, leader_only=True)
    assert error == ErrorCode.not_leader_or_follower
