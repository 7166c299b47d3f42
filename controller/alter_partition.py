"""AlterPartition: a partition's leader requests another ISR (KafkaController.tryProcessAlterPartition).

The leader epoch stays the same; the znode's version, which is the partition epoch, increases by one. Versions 0 and 1
contain topic names, 2 and 3 topic ids. Only version 3 contains, for each member, the broker epoch of the process that
the leader has seen catch up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kio.schema.alter_partition.v0 import response as v0
from kio.schema.alter_partition.v1 import response as v1
from kio.schema.alter_partition.v2 import response as v2
from kio.schema.alter_partition.v3 import response as v3
from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.types import BrokerId
from kio.static.primitive import i8, i32

from zabka.controller.context import ControllerContext
from zabka.controller.eligibility import with_isr
from zabka.controller.historical import Historical
from zabka.controller.leader_elections import NO_THROTTLE
from zabka.controller.reassignments import complete_reassignments
from zabka.controller.term import ControllerTerm
from zabka.journal.cause import proposal_cause
from zabka.journal.events import RequestFenced, TopicPartition
from zabka.kafka.ports import UNKNOWN_BROKER_EPOCH, KafkaMessage
from zabka.kafka.topic_ids import topic_id_from_kafka
from zabka.kafka.zk.znodes import LeaderAndIsr

_RESPONSES: tuple[Any, ...] = (v0, v1, v2, v3)
_TOPIC_IDS_SINCE = 2
_MEMBER_EPOCHS_SINCE = 3
_RECOVERY_STATE_SINCE = 1

_Results = dict[TopicPartition, LeaderAndIsr | KafkaError]


class _Member(NamedTuple):
    """A broker in the requested ISR. Its broker epoch is -1 if the request contains none."""

    broker_id: int
    broker_epoch: int


class _Requested(NamedTuple):
    """The ISR that a leader requests for one partition."""

    leader_epoch: int
    partition_epoch: int
    members: tuple[_Member, ...]
    recovering: bool


def refuse_alter_partition(error: KafkaError, request: KafkaMessage) -> KafkaMessage:
    """Return the response that rejects the whole request with one error."""
    schema = _RESPONSES[request.__version__]
    return schema.AlterPartitionResponse(throttle_time=NO_THROTTLE, error_code=error, topics=())


async def process_alter_partition(term: ControllerTerm, request: KafkaMessage) -> KafkaMessage:
    """Check the sender, then each partition. Write the accepted states with fencing and compare-and-set."""
    known_epoch = term.context.broker_epoch(int(request.broker_id))
    if known_epoch not in (int(request.broker_epoch), UNKNOWN_BROKER_EPOCH):
        _fenced(term, request, KafkaError.stale_broker_epoch, int(request.broker_epoch), known_epoch)
        return refuse_alter_partition(KafkaError.stale_broker_epoch, request)
    results: _Results = {}
    accepted: dict[TopicPartition, LeaderAndIsr] = {}
    for partition, data in _asked(term, request):
        verdict = _check(term, int(request.broker_id), partition, _requested_isr(request, data), request.__version__)
        if verdict is KafkaError.fenced_leader_epoch:
            known_epoch = term.context.leadership[partition].leader_epoch
            _fenced(term, request, verdict, int(data.leader_epoch), known_epoch, partition)
        if isinstance(verdict, tuple) and verdict != term.context.leadership[partition]:
            accepted[partition] = verdict
        else:
            results[partition] = verdict
    if accepted:
        await _write(term, accepted, results)
    # Also include rejected partitions, because the leader that requested the change may have an outdated state.
    asked = sorted({**results, **accepted})
    term.send_update_metadata(term.context.live_or_shutting_down_ids, asked)
    return _response(term, request, results)


async def reassign_after_alter_partition(term: ControllerTerm, request: KafkaMessage, response: KafkaMessage) -> None:
    """Complete the reassignments that waited for these ISRs.

    Called after the response was sent to the leader.
    """
    if response.error_code is not KafkaError.none:
        return
    changed = [
        TopicPartition(name, int(row.partition_index))
        for topic in response.topics
        if (name := _topic_name(term, topic, request.__version__)) is not None
        for row in topic.partitions
        if row.error_code is KafkaError.none
    ]
    await complete_reassignments(term, changed)


def _topic_name(term: ControllerTerm, topic: KafkaMessage, version: int) -> str | None:
    if version < _TOPIC_IDS_SINCE:
        return str(topic.topic_name)
    return term.context.topic_names.get(topic_id_from_kafka(topic.topic_id) or "")


def _asked(term: ControllerTerm, request: KafkaMessage) -> Iterable[tuple[TopicPartition, KafkaMessage]]:
    for topic in request.topics:
        name = _topic_name(term, topic, request.__version__)
        if name is not None:
            for data in topic.partitions:
                yield TopicPartition(name, int(data.partition_index)), data


def _requested_isr(request: KafkaMessage, data: KafkaMessage) -> _Requested:
    version = request.__version__
    if version < _MEMBER_EPOCHS_SINCE:
        members = tuple(_Member(int(broker_id), UNKNOWN_BROKER_EPOCH) for broker_id in data.new_isr)
    else:
        members = tuple(_Member(int(m.broker_id), int(m.broker_epoch)) for m in data.new_isr_with_epochs)
    recovering = version >= _RECOVERY_STATE_SINCE and int(data.leader_recovery_state) == 1
    return _Requested(int(data.leader_epoch), int(data.partition_epoch), members, recovering)


def _fenced(
    term: ControllerTerm,
    request: KafkaMessage,
    error: KafkaError,
    request_epoch: int,
    known_epoch: int | None,
    partition: TopicPartition | None = None,
) -> None:
    term.emit(
        RequestFenced(
            broker_id=term.broker_id,
            request="AlterPartition",
            sender_id=int(request.broker_id),
            reason=error.name.upper(),
            request_epoch=request_epoch,
            known_epoch=-1 if known_epoch is None else int(known_epoch),
            topic=None if partition is None else partition.topic,
            partition=None if partition is None else partition.partition,
        )
    )


def _check(
    term: ControllerTerm, sender: int, partition: TopicPartition, requested: _Requested, version: int
) -> LeaderAndIsr | KafkaError:
    """Return the state to write, or an error.

    If the current state is already the requested one, return it, even if the request has an older epoch.
    """
    current = term.context.leadership.get(partition)
    if current is None:
        return KafkaError.unknown_topic_or_partition
    isr = tuple(member.broker_id for member in requested.members)
    if requested.partition_epoch > current.partition_epoch or requested.leader_epoch > current.leader_epoch:
        # The sender has received a later decision than this controller's, so this controller is stale.
        return KafkaError.not_controller
    if requested.leader_epoch < current.leader_epoch:
        return KafkaError.fenced_leader_epoch
    if (sender, sorted(isr), requested.recovering) == (current.leader, sorted(current.isr), current.recovering):
        return current
    if requested.partition_epoch < current.partition_epoch:
        return KafkaError.invalid_update_version
    if requested.recovering and (len(isr) > 1 or not current.recovering):
        return KafkaError.invalid_request
    replicas = term.context.replicas(partition)
    # In ZooKeeper mode, Kafka does not check the members that a leader requests. These are the checks of its KRaft
    # controller.
    if sender != current.leader or sender not in isr or len(set(isr)) < len(isr) or not set(isr) <= set(replicas):
        return KafkaError.invalid_request
    checks = [check for switch, check in _MEMBER_CHECKS.items() if switch not in term.config.historical]
    if not all(check(term.context, member) for member in requested.members for check in checks):
        return KafkaError.ineligible_replica if version >= _TOPIC_IDS_SINCE else KafkaError.operation_not_attempted
    return with_isr(current, isr)._replace(recovering=requested.recovering)


def _is_serving(context: ControllerContext, member: _Member) -> bool:
    """Return whether the broker is live and not shutting down (KIP-841)."""
    return context.is_live(member.broker_id)


def _is_seen_process(context: ControllerContext, member: _Member) -> bool:
    """Return whether the broker's process is still the one that the leader has seen catch up (KIP-903)."""
    return UNKNOWN_BROKER_EPOCH in (member.broker_epoch, context.broker_epoch(member.broker_id)) or (
        member.broker_epoch == context.broker_epoch(member.broker_id)
    )


_MEMBER_CHECKS: dict[Historical, Callable[[ControllerContext, _Member], bool]] = {
    Historical.ISR_WITH_LEAVING_BROKER: _is_serving,
    Historical.NO_MEMBER_EPOCHS: _is_seen_process,
}
"""Checks of the members of a requested ISR. The key of each is the historical behaviour that omits the check."""


async def _write(term: ControllerTerm, accepted: dict[TopicPartition, LeaderAndIsr], results: _Results) -> None:
    context = term.context
    updates = await term.store.update(accepted)
    for partition, state in updates.written.items():
        old = context.leadership[partition]
        context.leadership[partition] = results[partition] = state
        if state.isr != old.isr:
            cause = "lag" if any(member not in state.isr for member in old.isr) else "caught_up"
            asked = proposal_cause(partition, old.partition_epoch)
            term.store.announce_isr(partition, old, state, updates.zxids[partition], cause, asked)
    for partition in updates.conflicted:
        results[partition] = KafkaError.invalid_update_version
    for partition in updates.failed:
        results[partition] = KafkaError.unknown_server_error


def _response(term: ControllerTerm, request: KafkaMessage, results: _Results) -> KafkaMessage:
    version = request.__version__
    schema = _RESPONSES[version]
    topics: list[Any] = []
    for topic in request.topics:
        name = _topic_name(term, topic, version)
        rows = tuple(
            _row(
                version,
                int(data.partition_index),
                KafkaError.unknown_topic_id
                if name is None
                else results[TopicPartition(name, int(data.partition_index))],
            )
            for data in topic.partitions
        )
        called = {"topic_name": topic.topic_name} if version < _TOPIC_IDS_SINCE else {"topic_id": topic.topic_id}
        topics.append(schema.TopicData(**called, partitions=rows))
    return schema.AlterPartitionResponse(throttle_time=NO_THROTTLE, error_code=KafkaError.none, topics=tuple(topics))


def _row(version: int, partition_index: int, result: LeaderAndIsr | KafkaError) -> Any:
    schema = _RESPONSES[version]
    if isinstance(result, KafkaError):
        return schema.PartitionData(
            partition_index=i32(partition_index),
            error_code=result,
            leader_id=BrokerId(0),
            leader_epoch=i32(0),
            partition_epoch=i32(0),
        )
    recovery: dict[str, i8] = {}
    if version >= _RECOVERY_STATE_SINCE:
        recovery["leader_recovery_state"] = i8(1 if result.recovering else 0)
    return schema.PartitionData(
        partition_index=i32(partition_index),
        error_code=KafkaError.none,
        leader_id=BrokerId(result.leader),
        leader_epoch=i32(result.leader_epoch),
        isr=tuple(BrokerId(member) for member in result.isr),
        partition_epoch=i32(result.partition_epoch),
        **recovery,
    )
