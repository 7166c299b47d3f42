"""The ISR, tested as in Kafka's PartitionTest, on virtual time."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.replication.replication_cluster import LAG_MS, TOPIC_ID, TP, Cluster, batch
from zabka.broker_sim.replication.isr import Committed, PendingExpand, PendingShrink
from zabka.journal.events import HighWatermarkMoved, IsrProposed, ReplicaProgressed, ReplicaStanding, TopicPartition
from zabka.kafka.wire.kafka_schema import respond

# ---- PartitionTest ------------------------------------------------------------------------------------------------


def still(count: int = 3, **overrides: Any) -> Cluster:
    """Return a cluster whose followers run no fetcher; the test sends their fetches."""
    cluster = Cluster(count, **overrides)
    for broker_id in range(2, count + 1):
        cluster[broker_id].runtime.stop()
    return cluster


def catch_up(cluster: Cluster, broker_id: int, offset: int, epoch: int = 0) -> None:
    cluster.fetch_later(1, offset, replica_id=broker_id, epoch=epoch, max_wait_ms=0)


@pytest.mark.scenario(55)
def test_should_not_shrink_isr_if_previous_fetch_is_caught_up() -> None:
    cluster = still(2)
    cluster.create([1, 2])
    partition = cluster[1].partition
    cluster.produce_later(1, batch("a"), acks=1)
    catch_up(cluster, 2, 0)
    cluster.run(400)
    catch_up(cluster, 2, 1)
    # Each fetch starts where the leader's log ended at the previous fetch, so the follower is caught up, although
    # it is always behind the current log end.
    for end in range(1, 10):
        cluster.produce_later(1, batch("b"), acks=1)
        cluster.run(400)
        catch_up(cluster, 2, end)
        assert partition.followers[2].end_offset < partition.log.end_offset
    assert partition.isr_state == Committed((1, 2))
    assert cluster.alterations == []


def test_isr_proposed_event_has_offset_and_lag_of_each_replica() -> None:
    cluster = still(2)
    cluster.create([1, 2])
    cluster.produce_later(1, batch("a"), acks=1)
    cluster.run(100)
    catch_up(cluster, 2, 1)
    level_ms = cluster.now_ms
    cluster.produce_later(1, batch("b"), acks=1)
    cluster.produce_later(1, batch("c"), acks=1)
    cluster.until(lambda: bool(cluster.events(IsrProposed)))
    [shrink] = cluster.events(IsrProposed)
    assert (shrink.isr, shrink.cause, shrink.upon) == ([1], "lag", 0)
    [standing] = shrink.moved
    assert standing == ReplicaStanding(
        replica=2, log_end_offset=1, leader_end_offset=3, high_watermark=1,
        caught_up_ms_ago=standing.caught_up_ms_ago, lag_time_max_ms=LAG_MS,
    )  # fmt: skip
    assert LAG_MS < standing.caught_up_ms_ago <= cluster.now_ms - level_ms
    cluster.until(lambda: cluster[1].partition.isr_state == Committed((1,)))
    catch_up(cluster, 2, 3)
    cluster.until(lambda: cluster[1].partition.isr_state == Committed((1, 2)))
    _, expand = cluster.events(IsrProposed)
    assert (expand.isr, expand.cause, expand.upon) == ([1, 2], "caught_up", 1)
    assert [(row.replica, row.log_end_offset, row.caught_up_ms_ago) for row in expand.moved] == [(2, 3, 0)]


def test_should_not_shrink_isr_if_follower_is_at_log_end() -> None:
    cluster = Cluster(3)
    cluster.create([1, 2, 3])
    cluster.produce(1, "a")
    cluster.settle()
    cluster.cut_link(1, 2)
    cluster.run(20 * LAG_MS)
    assert cluster.alterations == [] and cluster[1].partition.isr_state.isr == (1, 2, 3)


def test_lagging_follower_leaves_isr_within_1_to_1_5_lag_times() -> None:
    cluster = Cluster(3)
    cluster.create([1, 2, 3])
    cluster.run(370)
    cluster.cut_link(1, 2)
    cluster.run(600)
    started = cluster.now_ms
    cluster.produce(1, "a", acks=1)
    cluster.until(lambda: cluster[1].partition.isr_state == Committed((1, 3)))
    caught_up_last = cluster[1].partition.followers[2].last_caught_up_ms
    assert LAG_MS <= cluster.now_ms - caught_up_last <= 1.5 * LAG_MS + 600
    assert cluster.now_ms >= started
    assert cluster[1].partition.leader_epoch == 0, "a lagging follower leaves within the leader epoch"
    cluster.heal()
    cluster.until(lambda: cluster[1].partition.isr_state == Committed((1, 3, 2)))


def test_isolated_leader_reports_lagging_followers_in_its_isr() -> None:
    cluster = Cluster(3)
    cluster.create([1, 2, 3])
    cluster.run(370)
    partition = cluster[1].partition
    assert partition.lagging() == ()
    cluster.controller_reachable = False
    cluster.cut_link(1, 2)
    cluster.cut_link(1, 3)
    cluster.produce(1, "a", acks=1)
    assert partition.lagging() == (), "not before replica.lag.time.max.ms"
    cluster.run(2 * LAG_MS)
    assert partition.isr_state.isr == (1, 2, 3), "the controller is unreachable"
    assert partition.lagging() == (2, 3)


@pytest.mark.scenario(56)
def test_high_watermark_advances_after_the_isr_has_shrunk() -> None:
    cluster = still(2)
    cluster.alter_delay_ms = 400
    cluster.create([1, 2])
    partition = cluster[1].partition
    cluster.produce_later(1, batch("a"), acks=1)
    cluster.until(lambda: bool(cluster.alterations))
    assert isinstance(partition.isr_state, PendingShrink)
    assert partition.isr_state.isr == partition.isr_state.maximal_isr == (1, 2)
    # A lagging follower holds the high watermark back as long as it is in the ISR. Every append checks its lag.
    cluster.run(300)
    cluster.produce_later(1, batch("b"), acks=1)
    assert not partition.maybe_advance_high_watermark()
    assert partition.log.high_watermark == 0
    assert isinstance(partition.isr_state, PendingShrink)
    cluster.until(lambda: partition.isr_state == Committed((1,)))
    assert partition.log.high_watermark == 2
    assert partition.partition_epoch == 1
    assert cluster[1].manager.counters.shrinks == 1


@pytest.mark.scenario(57)
def test_high_watermark_does_not_advance_below_min_isr() -> None:
    cluster = still(3, min_insync_replicas=2)
    cluster.create([1, 2, 3])
    cluster.produce_later(1, batch("a"), acks=1)
    cluster.until(lambda: cluster[1].partition.isr_state == Committed((1,)))
    cluster.run(5_000)
    assert not cluster[1].partition.maybe_advance_high_watermark()
    assert cluster[1].partition.log.high_watermark == 0
    assert cluster[1].partition.is_under_min_isr
    catch_up(cluster, 2, 1)
    cluster.until(lambda: cluster[1].partition.isr_state == Committed((1, 2)))
    assert cluster[1].partition.log.high_watermark == 1


def test_high_watermark_waits_for_a_joining_follower() -> None:
    cluster = still(2)
    cluster.alter_delay_ms = 200
    cluster.create([1, 2])
    cluster.elect(1, [1])
    partition = cluster[1].partition
    cluster.produce_later(1, batch("a"), acks=1)
    assert partition.log.high_watermark == 1
    catch_up(cluster, 2, 1, epoch=1)
    assert isinstance(partition.isr_state, PendingExpand)
    assert partition.isr_state.isr == (1,) and partition.isr_state.maximal_isr == (1, 2)
    cluster.produce_later(1, batch("b"), acks=1)
    assert partition.log.high_watermark == 1, "the joining follower counts already"
    cluster.until(lambda: partition.isr_state == Committed((1, 2)))
    assert partition.log.high_watermark == 1
    catch_up(cluster, 2, 2, epoch=1)
    assert partition.log.high_watermark == 2


def test_commit_after_a_reassignment_waits_for_all_isr_members() -> None:
    """Otherwise a new controller could elect a replica without these records: until the removed replica has left the
    ISR, a new controller reads the old assignment, and can elect that replica (seed 100187).
    """
    cluster = still(2)
    cluster.create([1, 2])
    partition = cluster[1].partition
    cluster.produce_later(1, batch("a"), acks=1)
    cluster.states[TP]["replicas"] = [1]
    cluster.elect(1, [1, 2])
    assert partition.log.high_watermark == 0
    cluster.elect(1, [1])
    assert partition.log.high_watermark == 1


@pytest.mark.scenario(58)
def test_follower_joins_isr_only_within_current_leader_epoch() -> None:
    cluster = still(3)
    cluster.create([1, 2, 3])
    cluster.produce_later(1, batch(*"abcdefghij"), acks=1)
    for broker_id in (2, 3):
        catch_up(cluster, broker_id, 5)
    assert cluster[1].partition.log.high_watermark == 5
    cluster.elect(1, [1, 2])
    assert cluster[1].partition.leader_epoch_start == 10
    for offset in (5, 9):
        catch_up(cluster, 3, offset, epoch=1)
        assert cluster.alterations == [], "at the high watermark, but before this leader's epoch"
    catch_up(cluster, 3, 10, epoch=1)
    cluster.until(lambda: cluster.proposals == [(1, 2, 3)])


def test_follower_on_a_dead_broker_does_not_join_the_isr() -> None:
    cluster = still(2)
    cluster.create([1, 2])
    cluster.elect(1, [1])
    cluster.alive.discard(2)
    catch_up(cluster, 2, 0, epoch=1)
    assert cluster[1].partition.isr_state == Committed((1,)) and cluster.alterations == []


@pytest.mark.scenario(59)
@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version,
        ErrorCode.invalid_request,
        ErrorCode.new_leader_elected,
    ],
)
def test_invalid_alter_partition_requests_are_not_retried(error: ErrorCode) -> None:
    cluster = still(2)
    cluster.create([1, 2])
    cluster.script = [cluster.refuse(error)]
    cluster.produce_later(1, batch("a"), acks=1)
    cluster.run(20 * LAG_MS)
    assert len(cluster.alterations) == 1
    assert isinstance(cluster[1].partition.isr_state, PendingShrink), "it waits for LeaderAndIsr"
    assert cluster[1].manager.counters.failed_updates == 1
    cluster.elect(1, [1])
    assert cluster[1].partition.isr_state == Committed((1,))


@pytest.mark.scenario(59)
@pytest.mark.parametrize("error", [ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted])
def test_isr_not_expanded_if_replica_is_fenced_or_shutdown(error: ErrorCode) -> None:
    cluster = still(2)
    cluster.create([1, 2])
    cluster.elect(1, [1])
    cluster.script = [cluster.refuse(error)]
    catch_up(cluster, 2, 0, epoch=1)
    cluster.run(100)
    assert cluster[1].partition.isr_state == Committed((1,))
    catch_up(cluster, 2, 0, epoch=1)
    cluster.run(100)
    assert cluster[1].partition.isr_state == Committed((1, 2)), "the next fetch can propose it again"


@pytest.mark.scenario(59)
def test_partition_should_retry_alter_partition_request() -> None:
    cluster = still(2)
    cluster.create([1, 2])
    cluster.script = [cluster.refuse(ErrorCode.unknown_server_error)] * 2
    cluster.produce_later(1, batch("a"), acks=1)
    cluster.until(lambda: cluster[1].partition.isr_state == Committed((1,)))
    assert cluster.proposals == [(1,)] * 3


def test_alter_partition_is_retried_after_an_error_or_timeout() -> None:
    cluster = still(2, replica_socket_timeout_ms=500)
    cluster.create([1, 2])
    cluster.script = [
        lambda message: respond(message, error_code=ErrorCode.not_controller),
        lambda message: None,
        lambda message: respond(message, topics=[]),
    ]
    cluster.produce_later(1, batch("a"), acks=1)
    cluster.until(lambda: cluster[1].partition.isr_state == Committed((1,)))
    assert cluster.proposals == [(1,)] * 4


def test_lost_alter_partition_response_is_handled_by_a_retry() -> None:
    cluster = still(2, replica_socket_timeout_ms=500)
    cluster.create([1, 2])

    def write_without_a_response(message: Any) -> None:
        cluster.alter(message)

    cluster.script = [write_without_a_response]
    cluster.produce_later(1, batch("a"), acks=1)
    cluster.until(lambda: cluster[1].partition.isr_state == Committed((1,)))
    assert len(cluster.alterations) == 2 and cluster[1].partition.partition_epoch == 1


@pytest.mark.scenario(60)
def test_at_most_one_alter_isr_request_is_in_flight() -> None:
    cluster = still(3)
    cluster.alter_delay_ms = 5_000
    cluster.create([1, 2, 3])
    cluster.elect(1, [1])
    catch_up(cluster, 2, 0, epoch=1)
    catch_up(cluster, 3, 0, epoch=1)
    cluster.produce_later(1, batch("a"), acks=1)
    cluster.run(4_000)
    assert cluster.proposals == [(1, 2)]


@pytest.mark.scenario(60)
def test_alter_partition_response_can_race_with_leader_and_isr() -> None:
    cluster = still(3)
    cluster.alter_delay_ms = 300
    cluster.create([1, 2, 3])
    cluster.elect(1, [1])
    catch_up(cluster, 2, 0, epoch=1)
    cluster.run(350)
    assert cluster.states[TP]["isr"] == [1, 2], "written, and the response is in flight"
    cluster.elect(1, [1, 3])
    assert cluster[1].partition.isr_state == Committed((1, 3))
    cluster.run(400)
    assert cluster[1].partition.isr_state == Committed((1, 3)), "the late response is ignored"
    assert cluster[1].partition.partition_epoch == 3


REFUSALS = [
    ErrorCode.ineligible_replica,  # would revert the proposal
    ErrorCode.operation_not_attempted,  # would revert it as well
    ErrorCode.invalid_update_version,  # would wait for LeaderAndIsr
    ErrorCode.unknown_server_error,  # would retry once
]


@pytest.mark.parametrize("error", REFUSALS)
def test_rejected_proposal_after_a_newer_isr_changes_nothing(error: ErrorCode) -> None:
    """Partition.handleAlterPartitionError acts only if the rejected proposal is still the partition's pending state."""
    cluster = still(3)
    cluster.alter_delay_ms = 300
    cluster.create([1, 2, 3])
    cluster.elect(1, [1])
    cluster.script = [cluster.refuse(error)]
    catch_up(cluster, 2, 0, epoch=1)
    cluster.run(350)
    assert isinstance(cluster[1].partition.isr_state, PendingExpand), "refused, and the response is in flight"
    cluster.elect(1, [1, 3])
    cluster.run(400)
    assert cluster[1].partition.isr_state == Committed((1, 3))
    assert cluster[1].manager.counters.failed_updates == 0
    assert cluster.proposals == [(1, 2)]


@pytest.mark.parametrize("error", REFUSALS)
def test_rejected_isr_proposal_is_ignored_by_a_follower(error: ErrorCode) -> None:
    cluster = still(2)
    cluster.alter_delay_ms = 300
    cluster.create([1, 2])
    cluster.elect(1, [1])
    cluster.script = [cluster.refuse(error)]
    catch_up(cluster, 2, 0, epoch=1)
    cluster.run(350)
    cluster.elect(2, [2])
    cluster.run(400)
    assert not cluster[1].partition.is_leader and cluster[1].partition.isr_state == Committed(())
    assert cluster[1].manager.counters.failed_updates == 0
    assert cluster.proposals == [(1, 2)]


def answer_isr(cluster: Cluster, **row: int) -> None:
    """Make this partition entry the controller's next AlterPartition response."""

    def answer(message: Any) -> Any:
        whole = {"partition_index": TP.partition, "error_code": ErrorCode.none, "leader_id": 1, "isr": [1, 2], **row}
        return respond(message, topics=[{"topic_id": TOPIC_ID, "partitions": [whole]}])

    cluster.script = [answer]


@pytest.mark.parametrize("version", [1, 2])
def test_isr_with_an_equal_or_newer_partition_epoch_is_accepted(version: int) -> None:
    """Partition.handleAlterPartitionUpdate: an equal version means that the state was already written."""
    cluster = still(2)
    cluster.create([1, 2])
    cluster.elect(1, [1])
    answer_isr(cluster, leader_epoch=1, partition_epoch=version)
    catch_up(cluster, 2, 0, epoch=1)
    cluster.run(100)
    assert cluster[1].partition.isr_state == Committed((1, 2)) and cluster[1].partition.partition_epoch == version
    counters = cluster[1].manager.counters
    assert (counters.failed_updates, counters.expands) == (0, 1)


@pytest.mark.parametrize(
    "later", [{"leader_epoch": 2, "partition_epoch": 2}, {"leader_epoch": 1, "partition_epoch": 0}]
)
def test_isr_of_other_leader_epoch_or_older_version_is_rejected(later: dict[str, int]) -> None:
    """Partition.handleAlterPartitionUpdate: the leader keeps waiting for a LeaderAndIsr that is in flight."""
    cluster = still(2)
    cluster.create([1, 2])
    cluster.elect(1, [1])

    answer_isr(cluster, **later)
    catch_up(cluster, 2, 0, epoch=1)
    cluster.run(100)
    assert isinstance(cluster[1].partition.isr_state, PendingExpand)
    assert cluster[1].partition.partition_epoch == 1
    counters = cluster[1].manager.counters
    assert (counters.failed_updates, counters.expands) == (1, 0)


def test_first_isr_change_after_unclean_election_sets_recovered() -> None:
    cluster = still(2)
    cluster.create([1, 2])
    cluster.elect(1, [1], unclean=True)
    catch_up(cluster, 2, 0, epoch=1)
    cluster.until(lambda: bool(cluster.alterations))
    message = cluster.alterations[0]
    assert message.topics[0].partitions[0].leader_recovery_state == 0
    assert (message.broker_id, message.broker_epoch) == (1, 100)
    members = message.topics[0].partitions[0].new_isr_with_epochs
    assert [(m.broker_id, m.broker_epoch) for m in members] == [(1, 100), (2, -1)]


def test_isr_proposals_for_several_partitions_share_a_request() -> None:
    cluster = still(2)
    names = [TopicPartition("orders", number) for number in range(5)]
    for name in names:
        cluster.create([1, 2], name)
        cluster.produce_later(1, batch("a"), acks=1, topic_partition=name)
    cluster.until(lambda: all(cluster[1].manager.partitions[n].isr_state == Committed((1,)) for n in names))
    assert len(cluster.alterations) <= 2


def test_high_watermark_of_a_leader_never_decreases() -> None:
    cluster = Cluster(3)
    cluster.create([1, 2, 3])
    for round_ in range(12):
        if round_ % 4 == 1:
            cluster.cut_link(1, 2)
        if round_ % 4 == 3:
            cluster.heal()
        cluster.produce(1, f"v{round_}")
        cluster.run(700)
    marks = [event.high_watermark for event in cluster.events(HighWatermarkMoved, 1)]
    assert marks == sorted(marks) and marks[-1] == 12
    assert cluster.violations() == []


def test_new_leader_reports_its_offsets_even_if_none_changed() -> None:
    """A reader of the journal needs the leader's log end offset from the start of its leadership."""
    cluster = still(2)
    cluster.create([1, 2])
    cluster.run(3_000)
    reported = len(cluster.events(ReplicaProgressed, 1))
    cluster.run(1_000)
    assert len(cluster.events(ReplicaProgressed, 1)) == reported, "nothing moves"
    cluster.elect(1, [1, 2])
    cluster.run(300)
    assert len(cluster.events(ReplicaProgressed, 1)) == reported + 1


def test_replica_manager_metrics_match_kafkas() -> None:
    cluster = still(3, min_insync_replicas=2)
    cluster.create([1, 2, 3])
    metrics = cluster[1].manager.metrics
    assert (metrics()["LeaderCount"], metrics()["UnderReplicatedPartitions"]) == (1, 0)
    cluster.elect(1, [1, 2])
    assert (metrics()["UnderReplicatedPartitions"], metrics()["AtMinIsrPartitionCount"]) == (1, 1)
    cluster.elect(1, [1])
    assert (metrics()["UnderMinIsrPartitionCount"], metrics()["AtMinIsrPartitionCount"]) == (1, 0)
    catch_up(cluster, 2, 0, epoch=2)
    cluster.until(lambda: cluster[1].partition.isr_state == Committed((1, 2)))
    assert (metrics()["IsrExpands"], metrics()["IsrShrinks"], metrics()["FailedIsrUpdates"]) == (1, 0, 0)


def test_replica_being_added_does_not_count_as_under_replicated() -> None:
    cluster = still(3)
    cluster.create([1, 2, 3])
    cluster.elect(1, [1, 2])
    adding = cluster.leader_and_isr(leader_epoch=2, partition_epoch=2, isr=[1, 2], adding_replicas=[3])
    cluster[1].manager.become_leader_or_follower(adding)
    assert not cluster[1].partition.is_under_replicated


def test_isr_proposal_for_a_topic_without_id_uses_its_name() -> None:
    cluster = Cluster(2)
    cluster.topic_id = None
    cluster.create([1, 2])
    cluster.elect(1, [1])
    cluster.until(lambda: cluster[1].partition.isr_state == Committed((1, 2)))
    (message,) = cluster.alterations
    assert (message.__version__, message.topics[0].topic_name) == (1, "orders")
