"""AlterPartition: a leader asks for another ISR (KafkaController.tryProcessAlterPartition).

The leader epoch stays; the znode's version, which is the partition epoch, rises by one.
"""

from __future__ import annotations

from kio.schema.alter_partition.v3.response import AlterPartitionResponse, PartitionData, TopicData
from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.types import BrokerId
from kio.static.primitive import i8, i32

from controller.leader_elections import NO_THROTTLE
from controller.ports import KafkaMessage
from controller.reign import Reign
from controller.topic_ids import topic_id_from_kafka
from controller.znodes import LeaderAndIsr
from journal.events import RequestFenced, TopicPartition

_Results = dict[TopicPartition, LeaderAndIsr | KafkaError]


def refuse_alter_partition(error: KafkaError) -> AlterPartitionResponse:
    """An answer for the whole request."""
    return AlterPartitionResponse(throttle_time=NO_THROTTLE, error_code=error, topics=())


async def process_alter_partition(reign: Reign, request: KafkaMessage) -> AlterPartitionResponse:
    """Check the sender, then each partition; write what is accepted, fenced and over the expected version."""
    known_epoch = reign.context.broker_epoch(int(request.broker_id))
    if known_epoch != int(request.broker_epoch):
        _fenced(reign, request, KafkaError.stale_broker_epoch, int(request.broker_epoch), known_epoch)
        return refuse_alter_partition(KafkaError.stale_broker_epoch)
    results: _Results = {}
    wanted: dict[TopicPartition, LeaderAndIsr] = {}
    for topic in request.topics:
        name = reign.context.topic_names.get(topic_id_from_kafka(topic.topic_id) or "")
        if name is None:
            continue
        for data in topic.partitions:
            partition = TopicPartition(name, int(data.partition_index))
            verdict = _judge(reign, int(request.broker_id), partition, data)
            if verdict is KafkaError.fenced_leader_epoch:
                known_epoch = reign.context.leadership[partition].leader_epoch
                _fenced(reign, request, verdict, int(data.leader_epoch), known_epoch, partition)
            if isinstance(verdict, tuple) and verdict != reign.context.leadership[partition]:
                wanted[partition] = verdict
            else:
                results[partition] = verdict
    if wanted:
        await _write(reign, wanted, results)
    return _response(reign, request, results)


def _fenced(
    reign: Reign,
    request: KafkaMessage,
    error: KafkaError,
    request_epoch: int,
    known_epoch: int | None,
    partition: TopicPartition | None = None,
) -> None:
    reign.emit(
        RequestFenced(
            broker_id=reign.broker_id,
            request="AlterPartition",
            sender_id=int(request.broker_id),
            reason=error.name.upper(),
            request_epoch=request_epoch,
            known_epoch=-1 if known_epoch is None else int(known_epoch),
            topic=None if partition is None else partition.topic,
            partition=None if partition is None else partition.partition,
        )
    )


def _judge(reign: Reign, sender: int, partition: TopicPartition, data: KafkaMessage) -> LeaderAndIsr | KafkaError:
    """The state to be written; the present one where it is that already (also from an older partition epoch)."""
    current = reign.context.leadership.get(partition)
    if current is None:
        return KafkaError.unknown_topic_or_partition
    leader_epoch, partition_epoch = int(data.leader_epoch), int(data.partition_epoch)
    isr = tuple(int(member.broker_id) for member in data.new_isr_with_epochs)
    recovering = int(data.leader_recovery_state) == 1
    if partition_epoch > current.partition_epoch or leader_epoch > current.leader_epoch:
        # The sender knows of a later decision than this controller: it is this one that is stale.
        return KafkaError.not_controller
    if leader_epoch < current.leader_epoch:
        return KafkaError.fenced_leader_epoch
    if (sender, sorted(isr), recovering) == (current.leader, sorted(current.isr), current.recovering):
        return current
    if partition_epoch < current.partition_epoch:
        return KafkaError.invalid_update_version
    if recovering and (len(isr) > 1 or not current.recovering):
        return KafkaError.invalid_request
    replicas = reign.context.replicas(partition)
    # Kafka's ZooKeeper mode trusts its leaders here; these are the checks of its KRaft controller.
    if sender != current.leader or sender not in isr or len(set(isr)) < len(isr) or not set(isr) <= set(replicas):
        return KafkaError.invalid_request
    if not all(_is_eligible(reign, member) for member in data.new_isr_with_epochs):
        return KafkaError.ineligible_replica
    return current._replace(isr=isr, recovering=recovering)


def _is_eligible(reign: Reign, member: KafkaMessage) -> bool:
    """Live, not shutting down, and (KIP-903) the very process that the leader has seen catch up; -1 is any."""
    broker_id, broker_epoch = int(member.broker_id), int(member.broker_epoch)
    if not reign.context.is_live(broker_id):
        return False
    return broker_epoch in (-1, reign.context.broker_epoch(broker_id))


async def _write(reign: Reign, wanted: dict[TopicPartition, LeaderAndIsr], results: _Results) -> None:
    context = reign.context
    updates = await reign.store.update(wanted)
    for partition, state in updates.written.items():
        old = context.leadership[partition]
        context.leadership[partition] = results[partition] = state
        if state.isr != old.isr:
            cause = "lag" if any(member not in state.isr for member in old.isr) else "caught_up"
            reign.store.announce_isr(partition, state, updates.zxids[partition], cause)
    for partition in updates.conflicted:
        results[partition] = KafkaError.invalid_update_version
    for partition in updates.failed:
        results[partition] = KafkaError.unknown_server_error
    if updates.written:
        reign.send_update_metadata(context.live_or_shutting_down_ids, sorted(updates.written))


def _response(reign: Reign, request: KafkaMessage, results: _Results) -> AlterPartitionResponse:
    topics: list[TopicData] = []
    for topic in request.topics:
        name = reign.context.topic_names.get(topic_id_from_kafka(topic.topic_id) or "")
        rows = tuple(
            _row(
                int(data.partition_index),
                KafkaError.unknown_topic_id
                if name is None
                else results[TopicPartition(name, int(data.partition_index))],
            )
            for data in topic.partitions
        )
        topics.append(TopicData(topic_id=topic.topic_id, partitions=rows))
    return AlterPartitionResponse(throttle_time=NO_THROTTLE, error_code=KafkaError.none, topics=tuple(topics))


def _row(partition_index: int, result: LeaderAndIsr | KafkaError) -> PartitionData:
    if isinstance(result, KafkaError):
        return PartitionData(
            partition_index=i32(partition_index),
            error_code=result,
            leader_id=BrokerId(0),
            leader_epoch=i32(0),
            partition_epoch=i32(0),
        )
    return PartitionData(
        partition_index=i32(partition_index),
        error_code=KafkaError.none,
        leader_id=BrokerId(result.leader),
        leader_epoch=i32(result.leader_epoch),
        isr=tuple(BrokerId(member) for member in result.isr),
        leader_recovery_state=i8(1 if result.recovering else 0),
        partition_epoch=i32(result.partition_epoch),
    )
