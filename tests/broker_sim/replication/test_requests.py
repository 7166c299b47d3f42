"""Fetch and related requests in every version: topic ids, sessions, the current leader, and the nearest replica."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.replication.replication_cluster import TOPIC_ID, TP, Cluster, batch
from tests.kafka.produced import headers_of
from tests.kafka.test_message_set import messages_of
from zabka.broker_sim.ports import FetchedPartition, FetchPartition
from zabka.broker_sim.replication.fetch_session import FetchRefused, FetchSessions, Request
from zabka.broker_sim.replication.replica_selector import RACK_AWARE_SELECTOR, ReplicaView, select_in_rack
from zabka.broker_sim.request_context import RequestContext
from zabka.kafka.record_batch import decode_records, empty_batch
from zabka.kafka.wire.kafka_schema import ApiKey, request

ANOTHER_ID = UUID(int=8)


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(3)
    made.create([1, 2, 3])
    return made


def ask(cluster: Cluster, broker_id: int, message: Any) -> Any:
    answers: list[Any] = []
    broker = cluster[broker_id]

    async def asking() -> None:
        handler = broker.handlers[ApiKey(message.__api_key__)]
        answers.append(await handler(message, RequestContext("test", "PLAINTEXT")))

    broker.runtime.spawn(asking(), "ask")
    cluster.until(lambda: bool(answers))
    return answers[0]


def fetch_request(version: int, offset: int = 0, **more: Any) -> Any:
    topic_id = more.pop("topic_id", TOPIC_ID)
    row = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **more.pop("row", {})}
    topics = more.pop("topics", [{"topic": TP.topic, "topic_id": topic_id, "partitions": [row]}])
    values = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, **more}
    return request(ApiKey.FETCH, version, topics=topics, **values)


def only_row(response: Any) -> Any:
    (topic,) = response.responses
    (row,) = topic.partitions
    return row


@pytest.mark.parametrize("version", range(4))
def test_old_fetch_version_skips_a_segment_emptied_by_compaction(version: int) -> None:
    cluster = Cluster(1)
    cluster.create([1])
    log = cluster[1].partition.log
    for number in range(3):
        cluster.produce(1, f"v{number}")
        # Roll the log after the second batch, so that the first segment has two batches. It is then replaced by one
        # batch without records.
        if number:
            log.roll()
    log.segments[0].truncate_to(0)
    emptied = empty_batch(0, 1, 0, 1_000)
    log.segments[0].append(emptied, headers_of(emptied))
    row = only_row(ask(cluster, 1, fetch_request(version)))
    assert [message.offset for message in messages_of(row.records)] == [2]
    assert only_row(ask(cluster, 1, fetch_request(version, 3))).records == b""


@pytest.mark.parametrize("version", range(4))
def test_old_fetch_version_waits_if_only_a_compacted_gap_follows(version: int) -> None:
    cluster = Cluster(1)
    cluster.create([1])
    cluster.produce(1, "a")
    cluster.produce(1, "b")
    log = cluster[1].partition.log
    log.roll()
    log.segments[0].truncate_to(1)
    asked_ms = cluster.now_ms
    row = only_row(ask(cluster, 1, fetch_request(version, 1, max_wait=500)))
    assert (row.records, cluster.now_ms - asked_ms) == (b"", 500)


@pytest.mark.parametrize("version", range(4))
def test_old_fetch_version_waits_at_most_its_max_wait(version: int) -> None:
    cluster = Cluster(1)
    cluster.create([1])
    cluster.produce(1, "a")
    partition = cluster[1].partition
    for offset in (1, 2):
        # A follower appends such empty batches when it copies a compaction gap.
        emptied = empty_batch(offset, offset, 0, 1_000)
        assert partition.log.append_as_follower(emptied, headers_of(emptied))
    assert partition.maybe_advance_high_watermark()
    asked_ms = cluster.now_ms
    row = only_row(ask(cluster, 1, fetch_request(version, 1, max_wait=500, min_bytes=1_000)))
    assert (row.records, cluster.now_ms - asked_ms) == (b"", 500)


def test_old_fetch_version_yields_between_many_empty_batches() -> None:
    cluster = Cluster(1)
    cluster.create([1])
    partition, runtime = cluster[1].partition, cluster[1].runtime
    for offset in range(100):
        emptied = empty_batch(offset, offset, 0, 1_000)
        assert partition.log.append_as_follower(emptied, headers_of(emptied))
    assert partition.maybe_advance_high_watermark()
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await runtime.sleep(0)

    task = runtime.spawn(other(), "other")
    assert only_row(ask(cluster, 1, fetch_request(0, row={"partition_max_bytes": 61}))).records == b""
    task.cancel()
    assert turns >= 100


# ---- versions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4, 18))
def test_fetch_is_handled_in_every_version(cluster: Cluster, version: int) -> None:
    cluster.produce(1, "a")
    cluster.settle()
    response = ask(cluster, 1, fetch_request(version))
    row = only_row(response)
    assert (row.error_code, row.high_watermark, [r.value for r in decode_records(row.records)]) == (0, 1, [b"a"])
    (topic,) = response.responses
    assert (topic.topic_id if version >= 13 else topic.topic) == (TOPIC_ID if version >= 13 else TP.topic)


def test_fetch_with_an_unknown_topic_id_is_rejected(cluster: Cluster) -> None:
    response = ask(cluster, 1, fetch_request(13, topic_id=ANOTHER_ID))
    assert only_row(response).error_code == ErrorCode.unknown_topic_id
    assert response.responses[0].topic_id == ANOTHER_ID


def test_fetch_with_a_former_topic_id_gets_inconsistent_topic_id(cluster: Cluster) -> None:
    cluster[1].partition.topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    assert only_row(ask(cluster, 1, fetch_request(13))).error_code == ErrorCode.inconsistent_topic_id
    assert only_row(ask(cluster, 1, fetch_request(12))).error_code == ErrorCode.none


def test_followers_fetch_with_newest_version_and_broker_epoch(cluster: Cluster) -> None:
    cluster.produce(1, "a")
    cluster.settle()
    assert {(m.__version__, m.replica_state.replica_id, m.replica_state.replica_epoch) for m in cluster.fetches} == {
        (17, 2, 100),
        (17, 3, 100),
    }


def test_follower_of_a_topic_without_id_fetches_by_name() -> None:
    cluster = Cluster(2)
    cluster.topic_id = None
    cluster.create([1, 2])
    cluster.produce(1, "a")
    cluster.settle()
    assert {message.__version__ for message in cluster.fetches} == {12}


@pytest.mark.parametrize(("version", "has_leader"), [(15, False), (16, True), (17, True)])
def test_fetch_from_a_non_leader_returns_the_leader_since_v16(cluster: Cluster, version: int, has_leader: bool) -> None:
    refused = ask(cluster, 2, fetch_request(version, replica_state={"replica_id": 3, "replica_epoch": 100}))
    row = only_row(refused)
    assert row.error_code == ErrorCode.not_leader_or_follower
    assert ((row.current_leader.leader_id, row.current_leader.leader_epoch) == (1, 0)) is has_leader
    nodes = [(node.node_id, node.host) for node in getattr(refused, "node_endpoints", ())]
    assert nodes == ([(1, "sim")] if has_leader else [])


@pytest.mark.parametrize(("version", "leader"), [(9, None), (10, (1, 0)), (11, (1, 0))])
def test_produce_to_a_non_leader_returns_the_leader_since_v10(
    cluster: Cluster, version: int, leader: tuple[int, int] | None
) -> None:
    topics = [{"name": TP.topic, "partition_data": [{"index": 0, "records": batch("x")}]}]
    response = ask(cluster, 2, request(ApiKey.PRODUCE, version, acks=1, timeout=100, topic_data=topics))
    row = response.responses[0].partition_responses[0]
    assert row.error_code == ErrorCode.not_leader_or_follower
    if leader is not None:
        assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == leader
        assert [node.node_id for node in response.node_endpoints] == [1]


@pytest.mark.parametrize(
    ("timestamp", "version", "error", "offset"),
    [
        (-1, 1, 0, 3),
        (-2, 1, 0, 0),
        (-3, 6, ErrorCode.unsupported_version, -1),
        (-3, 7, 0, 2),
        (-4, 7, ErrorCode.unsupported_version, -1),
        (-4, 8, 0, 0),
        (-5, 8, ErrorCode.unsupported_version, -1),
        (-5, 9, 0, -1),
        (-6, 9, ErrorCode.unsupported_version, -1),
        (1_001, 9, 0, 1),
    ],
)
def test_list_offsets_special_timestamps_depend_on_the_version(
    cluster: Cluster, timestamp: int, version: int, error: int, offset: int
) -> None:
    cluster.produce(1, "a", "b", "c")
    cluster.settle()
    row = {"partition_index": 0, "timestamp": timestamp}
    message = request(ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=[{"name": TP.topic, "partitions": [row]}])
    answer = ask(cluster, 1, message).topics[0].partitions[0]
    assert (answer.error_code, answer.offset) == (error, offset)


def test_repeated_partition_makes_the_request_invalid(cluster: Cluster) -> None:
    row = {"partition_index": 0, "timestamp": -1}
    topics = [{"name": TP.topic, "partitions": [row, row]}]
    answer = ask(cluster, 1, request(ApiKey.LIST_OFFSETS, 9, replica_id=-1, topics=topics))
    assert [each.error_code for each in answer.topics[0].partitions] == [ErrorCode.invalid_request] * 2


# ---- fetch sessions --------------------------------------------------------------------------------------------


def begun(cluster: Cluster, version: int = 13) -> int:
    session_id = int(ask(cluster, 1, fetch_request(version, session_epoch=0)).session_id)
    assert session_id > 0
    return session_id


def test_fetch_session_returns_only_changed_partitions(cluster: Cluster) -> None:
    session_id = begun(cluster)
    nothing = ask(cluster, 1, fetch_request(13, topics=[], session_id=session_id, session_epoch=1))
    assert (nothing.error_code, nothing.session_id, nothing.responses) == (0, session_id, ())
    cluster.produce(1, "a")
    news = ask(cluster, 1, fetch_request(13, topics=[], session_id=session_id, session_epoch=2))
    assert [r.value for r in decode_records(only_row(news).records)] == [b"a"]


def test_fetch_session_accepts_changed_offsets_and_removals(cluster: Cluster) -> None:
    session_id = begun(cluster)
    cluster.produce(1, "a")
    cluster.settle()
    moved = ask(cluster, 1, fetch_request(13, 1, session_id=session_id, session_epoch=1))
    assert (only_row(moved).records, only_row(moved).high_watermark) == (b"", 1)
    cluster.produce(1, "b")
    forgotten = [{"topic_id": TOPIC_ID, "partitions": [0]}]
    empty = ask(
        cluster,
        1,
        fetch_request(13, topics=[], session_id=session_id, session_epoch=2, forgotten_topics_data=forgotten),
    )
    assert (empty.session_id, empty.responses) == (0, ()), "a session without partitions is closed"
    gone = ask(cluster, 1, fetch_request(13, topics=[], session_id=session_id, session_epoch=3))
    assert gone.error_code == ErrorCode.fetch_session_id_not_found


def test_fetch_session_rejects_a_wrong_epoch_and_fetch_by_name(cluster: Cluster) -> None:
    session_id = begun(cluster)
    late = ask(cluster, 1, fetch_request(13, topics=[], session_id=session_id, session_epoch=7))
    assert late.error_code == ErrorCode.invalid_fetch_session_epoch
    by_name = ask(cluster, 1, fetch_request(12, topics=[], session_id=session_id, session_epoch=1))
    assert by_name.error_code == ErrorCode.fetch_session_topic_id_error


def test_fetch_session_repeats_a_partition_that_has_an_error(cluster: Cluster) -> None:
    session_id = begun(cluster)
    cluster.elect(2, [1, 2, 3])
    follower = {"row": {"current_leader_epoch": 0}}
    for epoch in (1, 2):
        fenced = ask(cluster, 1, fetch_request(13, session_id=session_id, session_epoch=epoch, **follower))
        assert only_row(fenced).error_code == ErrorCode.fenced_leader_epoch
    fine = ask(cluster, 1, fetch_request(13, session_id=session_id, session_epoch=3, row={"current_leader_epoch": 1}))
    assert only_row(fine).error_code == ErrorCode.none


def session_request(session_id: int, epoch: int, *numbers: int, is_follower: bool = False) -> Request:
    asked = {("t", number): FetchPartition(TP, 0, -1, -1, 1) for number in numbers}
    return Request(session_id, epoch, is_follower, False, dict(asked), ())


def create(sessions: FetchSessions, now_ms: int, *numbers: int, is_follower: bool = False) -> int:
    context = sessions.open(session_request(0, 0, *numbers, is_follower=is_follower), now_ms)
    assert not isinstance(context, FetchRefused)
    rows = {key: FetchedPartition(TP, 0, 0, 0, b"") for key in context.partitions}
    return context.finish(rows)[1]


def test_fetch_session_limit_evicts_only_long_unused_sessions() -> None:
    sessions = FetchSessions(Random(1), slots=2, eviction_ms=100)
    first, second = create(sessions, 0, 1, 2), create(sessions, 0, 1)
    assert create(sessions, 50, 1, 2, 3) == 0, "no session is old enough to be evicted"
    assert sessions.open(session_request(first, 1), 60) and len(sessions) == 2
    assert create(sessions, 120, 1, 2, 3) > 0, "the second was not used for longer than the limit"
    assert isinstance(sessions.open(session_request(second, 1), 121), FetchRefused)


def test_new_session_of_a_follower_evicts_a_consumer_session() -> None:
    sessions = FetchSessions(Random(1), slots=1, eviction_ms=100)
    consumer = create(sessions, 0, 1, 2, 3)
    follower = create(sessions, 10, 1, is_follower=True)
    assert follower > 0
    assert isinstance(sessions.open(session_request(consumer, 1), 11), FetchRefused)
    assert create(sessions, 20, *range(9)) == 0, "a consumer does not evict a follower"


# ---- reading from followers ------------------------------------------------------------------------------------


def test_consumer_can_read_from_a_follower_since_fetch_v11() -> None:
    cluster = Cluster(2)
    cluster.create([1, 2])
    cluster.produce(1, "a")
    cluster.settle()
    cluster.cut_link(1, 2)
    cluster.produce(1, "b", acks=1)
    row = only_row(ask(cluster, 2, fetch_request(11)))
    assert (row.error_code, [r.value for r in decode_records(row.records)]) == (0, [b"a"])
    assert only_row(ask(cluster, 2, fetch_request(10))).error_code == ErrorCode.not_leader_or_follower
    fenced = only_row(ask(cluster, 2, fetch_request(11, row={"current_leader_epoch": 4})))
    assert fenced.error_code == ErrorCode.unknown_leader_epoch


def test_consumer_waiting_at_a_follower_gets_new_records() -> None:
    cluster = Cluster(2)
    cluster.create([1, 2])
    answers: list[Any] = []

    async def asking() -> None:
        handler = cluster[2].handlers[ApiKey.FETCH]
        answers.append(await handler(fetch_request(11, max_wait=30_000), RequestContext("test", "PLAINTEXT")))

    cluster[2].runtime.spawn(asking(), "ask")
    cluster.run(100)
    cluster.produce(1, "a")
    cluster.until(lambda: bool(answers), limit_ms=2_000)
    assert [r.value for r in decode_records(only_row(answers[0]).records)] == [b"a"]


def racks() -> Cluster:
    cluster = Cluster(3, replica_selector_class=RACK_AWARE_SELECTOR)
    cluster.racks = {1: "east", 2: "west", 3: "west"}
    cluster.create([1, 2, 3])
    cluster.produce(1, "a")
    cluster.settle()
    cluster.run(600)
    return cluster


def test_leader_redirects_a_consumer_to_the_replica_in_its_rack() -> None:
    cluster = racks()
    row = only_row(ask(cluster, 1, fetch_request(11, rack_id="west", max_wait=9_000)))
    assert (row.preferred_read_replica in (2, 3), row.records, row.high_watermark) == (True, b"", 1)
    assert cluster.now_ms < 5_000, "at once"


@pytest.mark.parametrize("rack", ["east", "north", ""])
def test_leader_serves_a_consumer_if_no_replica_is_in_its_rack(rack: str) -> None:
    row = only_row(ask(racks(), 1, fetch_request(11, rack_id=rack)))
    assert (row.preferred_read_replica, [r.value for r in decode_records(row.records)]) == (-1, [b"a"])


def test_replica_outside_the_isr_is_no_preferred_read_replica() -> None:
    cluster = racks()
    cluster.elect(1, [1])
    assert only_row(ask(cluster, 1, fetch_request(11, rack_id="west"))).preferred_read_replica == -1
    cluster = racks()
    cluster.cut_link(1, 2)
    cluster.cut_link(1, 3)
    cluster.produce(1, "b", acks=1)
    assert only_row(ask(cluster, 1, fetch_request(11, 2, rack_id="west"))).preferred_read_replica == -1


def test_consumer_reads_from_the_leader_without_replica_selector(cluster: Cluster) -> None:
    cluster.racks = {1: "east", 2: "west", 3: "west"}
    cluster.produce(1, "a")
    assert only_row(ask(cluster, 1, fetch_request(11, rack_id="west"))).preferred_read_replica == -1


def test_preferred_replica_has_the_longest_log_in_the_rack() -> None:
    leader = ReplicaView(1, "east", 10, 0)
    near = [ReplicaView(2, "west", 8, 5), ReplicaView(3, "west", 9, 50), ReplicaView(4, "west", 9, 40)]
    assert select_in_rack("west", [*near, leader], leader) == 4
    assert select_in_rack("east", [*near, leader], leader) == 1


def test_fetch_with_an_earlier_broker_epoch_is_rejected(cluster: Cluster) -> None:
    cluster.produce(1, "a")
    cluster.settle()
    stale = fetch_request(17, 1, replica_state={"replica_id": 2, "replica_epoch": 99}, row={"current_leader_epoch": 0})
    assert only_row(ask(cluster, 1, stale)).error_code == ErrorCode.not_leader_or_follower
