"""Handles log directories that failed on brokers that continue with their other directories.

The broker writes a notification znode. The controller then sends LeaderAndIsr for every replica of that broker, and
learns from the errors in the response which replicas are offline. Sources:
KafkaController.processLogDirEventNotification, onBrokerLogDirFailure, processLeaderAndIsrResponseReceived.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kio.schema.errors import ErrorCode as KafkaError

from zabka.controller.broker_changes import on_replicas_offline
from zabka.controller.context import Replica, ReplicaState
from zabka.controller.notifications import LOG_DIR_EVENTS, delete_notifications, watch_notifications
from zabka.controller.term import ControllerTerm
from zabka.journal.cause import request_cause
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.topic_ids import topic_id_from_kafka
from zabka.kafka.zk import znodes


async def process_log_dir_events(term: ControllerTerm, _: str) -> None:
    """Send LeaderAndIsr for all replicas on the brokers that reported a failed log directory.

    The errors in their responses show which replicas are offline.
    """
    service = term.zk.service
    paths = await watch_notifications(term, LOG_DIR_EVENTS)
    brokers: dict[int, None] = {}
    for path, outcome in zip(paths, await term.zk.batch([partial(service.get, path) for path in paths]), strict=True):
        if outcome.value is None:
            continue
        broker_id = znodes.decode_log_dir_event(outcome.value[0])
        if broker_id is None:
            term.report(LOG_DIR_EVENTS.event, f"{path} is not readable")
        else:
            brokers[broker_id] = None
    await term.replicas.handle(term.context.replicas_on(brokers), ReplicaState.ONLINE)
    await delete_notifications(term, paths)


def on_leader_and_isr_answered(term: ControllerTerm, broker_id: int, response: KafkaMessage) -> None:
    """Queue an event if a LeaderAndIsr response shows that replicas of the broker went offline or came back."""
    if response.error_code is not KafkaError.none:
        # The broker rejected the request because of an old epoch, and has journalled that.
        return
    failed, served = _outcomes(term, response)
    if failed or broker_id in term.context.offline_dirs:
        term.put_for_process(
            broker_id,
            "LeaderAndIsrResponseReceived",
            lambda: _take_note(term, broker_id, failed, served),
            request_cause("LeaderAndIsr"),
        )


def _outcomes(term: ControllerTerm, response: KafkaMessage) -> tuple[list[TopicPartition], list[TopicPartition]]:
    failed: list[TopicPartition] = []
    served: list[TopicPartition] = []
    for topic in response.topics:
        name = term.context.topic_names.get(topic_id_from_kafka(topic.topic_id) or "")
        if name is None:
            continue
        for row in topic.partition_errors:
            if row.error_code is KafkaError.kafka_storage_error:
                failed.append(TopicPartition(name, int(row.partition_index)))
            elif row.error_code is KafkaError.none:
                served.append(TopicPartition(name, int(row.partition_index)))
    return failed, served


async def _take_note(
    term: ControllerTerm, broker_id: int, failed: Sequence[TopicPartition], served: Sequence[TopicPartition]
) -> None:
    context = term.context
    before = context.offline_dirs.get(broker_id, frozenset())
    context.offline_dirs[broker_id] = (before - frozenset(served)) | frozenset(failed)
    fresh = [partition for partition in failed if partition not in before]
    if fresh:
        await on_replicas_offline(term, [Replica(partition, broker_id) for partition in fresh])
