"""Elections requested by znode, by request, by the imbalance check, or by a change of configuration.

Sources: KafkaController.processReplicaLeaderElection, onReplicaElection, checkAndTriggerAutoLeaderRebalance.
"""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.elect_leaders.v2.response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.types import TopicName
from kio.static.primitive import i32, i32Timedelta, i64_timedelta_max

from zabka.controller.context import PartitionState
from zabka.controller.election import ElectionStrategy
from zabka.controller.partition_state_machine import Refused
from zabka.controller.term import ControllerTerm
from zabka.ensemble.client.service import Delete
from zabka.ensemble.errors import NoNode
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import NO_LEADER, KafkaMessage
from zabka.kafka.zk import znodes

PREFERRED, UNCLEAN = 0, 1
"""Election types of org.apache.kafka.common.ElectionType."""

NO_THROTTLE = i32Timedelta.parse(i64_timedelta_max - i64_timedelta_max)

_MESSAGES = {
    KafkaError.none: None,
    KafkaError.election_not_needed: "Leader election not needed for topic partition.",
    KafkaError.not_controller: "This is not the correct controller for this cluster.",
    KafkaError.unknown_topic_or_partition: "The partition does not exist.",
    KafkaError.invalid_topic_exception: "The topic is being deleted",
    KafkaError.unknown_server_error: "The server experienced an unexpected error when processing the request.",
}


async def _elect(
    term: ControllerTerm, partitions: Iterable[TopicPartition], election_type: int, *, asked_by_admin: bool
) -> dict[TopicPartition, KafkaError]:
    """Elect leaders where needed and possible. Return an error or KafkaError.none for each partition."""
    context = term.context
    results: dict[TopicPartition, KafkaError] = {}
    electable: list[TopicPartition] = []
    for partition in dict.fromkeys(partitions):
        if not context.has_partition(partition):
            results[partition] = KafkaError.unknown_topic_or_partition
        elif context.is_being_deleted(partition.topic):
            results[partition] = KafkaError.invalid_topic_exception
        elif not _needed(term, partition, election_type):
            results[partition] = KafkaError.election_not_needed
        else:
            electable.append(partition)
    if election_type == PREFERRED:
        strategy, failure = ElectionStrategy.PREFERRED, KafkaError.preferred_leader_not_available
    else:
        strategy = ElectionStrategy.OFFLINE_UNCLEAN if asked_by_admin else ElectionStrategy.OFFLINE
        failure = KafkaError.eligible_leaders_not_available
    elected = await term.partitions.handle(electable, PartitionState.ONLINE, strategy)
    for partition in electable:
        results[partition] = failure if isinstance(elected[partition], Refused) else KafkaError.none
    return results


def _needed(term: ControllerTerm, partition: TopicPartition, election_type: int) -> bool:
    state = term.context.leadership.get(partition)
    leader = state.leader if state is not None else NO_LEADER
    if election_type == PREFERRED:
        replicas = term.context.replicas(partition)
        return not replicas or leader != replicas[0]
    return leader == NO_LEADER or not term.context.is_live(leader)


# ---- /admin/preferred_replica_election ------------------------------------------------------------------------


async def elect_preferred_from_znode(term: ControllerTerm, _: str = "") -> None:
    """Watch /admin/preferred_replica_election, elect leaders for the partitions in it, and delete it."""
    service = term.zk.service
    path = znodes.PREFERRED_REPLICA_ELECTION
    watcher = term.signals.watcher("ReplicaLeaderElection")
    if await term.zk.call(lambda: service.exists(path, watcher)) is None:
        return
    try:
        data, _stat = await term.zk.call(lambda: service.get(path))
    except NoNode:
        return
    partitions = znodes.decode_partition_set(data)
    if partitions is None:
        term.report("ReplicaLeaderElection", f"{path} is not readable; removed")
    await _elect(term, partitions or [], PREFERRED, asked_by_admin=False)
    # Deleting the znode fires the watch that was set above. The resulting event sets the next watch.
    await term.writer.write([Delete(path)])


# ---- ElectLeaders requests ------------------------------------------------------------------------------------


async def process_elect_leaders(term: ControllerTerm, request: KafkaMessage) -> KafkaMessage:
    """Process ElectLeaders.

    A request without partitions is for all partitions; the response then omits partitions that need no election.
    """
    if int(request.election_type) not in (PREFERRED, UNCLEAN):
        return refuse_elect_leaders(KafkaError.invalid_request, request)
    asked = requested_partitions(request)
    partitions = term.context.partitions if asked is None else asked
    results = await _elect(term, partitions, int(request.election_type), asked_by_admin=True)
    if asked is None:
        results = {p: e for p, e in results.items() if e is not KafkaError.election_not_needed}
    return elect_leaders_response(KafkaError.none, results)


def requested_partitions(request: KafkaMessage) -> list[TopicPartition] | None:
    """Return the partitions in an ElectLeaders request, or None for all."""
    if request.topic_partitions is None:
        return None
    return [TopicPartition(str(t.topic), int(n)) for t in request.topic_partitions for n in t.partitions]


_STRATEGIES = {
    KafkaError.preferred_leader_not_available: "PreferredReplicaPartitionLeaderElectionStrategy",
    KafkaError.eligible_leaders_not_available: "OfflinePartitionLeaderElectionStrategy(true)",
}
"""Names of election strategies as in Kafka's messages, keyed by the error that is returned if no leader was found."""


def _message(error: KafkaError, partition: TopicPartition) -> str | None:
    if error in _STRATEGIES:
        return f"Failed to elect leader for partition {partition} under strategy {_STRATEGIES[error]}"
    return _MESSAGES.get(error, error.name)


def elect_leaders_response(error: KafkaError, results: dict[TopicPartition, KafkaError]) -> ElectLeadersResponse:
    """Return the response to ElectLeaders, version 2."""
    topics: dict[str, list[PartitionResult]] = {}
    for partition in sorted(results):
        row = results[partition]
        topics.setdefault(partition.topic, []).append(
            PartitionResult(
                partition_id=i32(partition.partition), error_code=row, error_message=_message(row, partition)
            )
        )
    return ElectLeadersResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        replica_election_results=tuple(
            ReplicaElectionResult(topic=TopicName(topic), partition_result=tuple(rows))
            for topic, rows in topics.items()
        ),
    )


# ---- elections without a request --------------------------------------------------------------------------------


async def process_auto_rebalance(term: ControllerTerm, _: str) -> None:
    """Elect preferred leaders where a broker leads too few of the partitions that prefer it. Schedule the next check.

    The check is skipped while partitions are being reassigned, because a reassignment itself causes elections and load.
    """
    term.schedule_rebalance(term.config.leader_imbalance_check_interval_seconds * 1000)
    context = term.context
    if context.reassigning:
        return
    preferred: dict[int, list[TopicPartition]] = {}
    for partition in context.partitions:
        replicas = context.replicas(partition)
        if replicas and not context.is_being_deleted(partition.topic):
            preferred.setdefault(replicas[0], []).append(partition)
    for broker_id, partitions in sorted(preferred.items()):
        led_elsewhere = [p for p in partitions if p in context.leadership and context.leadership[p].leader != broker_id]
        if 100 * len(led_elsewhere) <= term.config.leader_imbalance_per_broker_percentage * len(partitions):
            continue
        able = [p for p in led_elsewhere if _can_lead(term, p, broker_id)]
        await _elect(term, able, PREFERRED, asked_by_admin=False)


def _can_lead(term: ControllerTerm, partition: TopicPartition, broker_id: int) -> bool:
    return term.context.is_live(broker_id) and broker_id in term.context.leadership[partition].isr


async def process_unclean_default(term: ControllerTerm, _: str) -> None:
    """Retry the election of all partitions without a leader: the broker's default now allows unclean elections."""
    await term.partitions.trigger_online()


async def process_topic_unclean(term: ControllerTerm, topic: str) -> None:
    """Retry the elections of a topic's leaderless partitions.

    The topic's override now allows unclean elections.
    """
    await term.partitions.trigger_online(topic)


def refuse_elect_leaders(error: KafkaError, request: KafkaMessage) -> KafkaMessage:
    """Return the response of a broker that is not the controller, or on which the election failed."""
    asked = requested_partitions(request) or []
    return elect_leaders_response(error, dict.fromkeys(asked, error))
