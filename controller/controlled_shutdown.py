"""ControlledShutdown: the controller moves a broker's leaderships before the broker stops (doControlledShutdown).

Versions 0 and 1 contain no broker epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kio.schema.controlled_shutdown.v0 import response as v0
from kio.schema.controlled_shutdown.v1 import response as v1
from kio.schema.controlled_shutdown.v2 import response as v2
from kio.schema.controlled_shutdown.v3 import response as v3
from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.types import TopicName
from kio.static.primitive import i32

from zabka.controller.context import PartitionState, Replica, ReplicaState
from zabka.controller.election import ElectionStrategy
from zabka.controller.term import ControllerTerm
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import UNKNOWN_BROKER_EPOCH, KafkaMessage

_RESPONSES: tuple[Any, ...] = (v0, v1, v2, v3)


def controlled_shutdown_response(
    request: KafkaMessage, error: KafkaError, remaining: Iterable[TopicPartition] = ()
) -> KafkaMessage:
    """Return the response to ControlledShutdown, with the partitions that the broker still leads."""
    schema = _RESPONSES[request.__version__]
    return schema.ControlledShutdownResponse(
        error_code=error,
        remaining_partitions=tuple(
            schema.RemainingPartition(topic_name=TopicName(p.topic), partition_index=i32(p.partition))
            for p in remaining
        ),
    )


async def process_controlled_shutdown(term: ControllerTerm, request: KafkaMessage) -> KafkaMessage:
    """Elect other leaders for the partitions that the broker leads, and remove it from the other partitions' ISRs.

    Partitions with a single replica are not changed.
    """
    context = term.context
    broker_id, asked_epoch = int(request.broker_id), int(getattr(request, "broker_epoch", UNKNOWN_BROKER_EPOCH))
    known_epoch = context.broker_epoch(broker_id)
    if known_epoch is None:
        return controlled_shutdown_response(request, KafkaError.broker_not_available)
    if asked_epoch != UNKNOWN_BROKER_EPOCH and asked_epoch < known_epoch:
        return controlled_shutdown_response(request, KafkaError.stale_broker_epoch)
    context.shutting_down.add(broker_id)
    concerned = [
        partition
        for partition in context.partitions_on(broker_id)
        if len(context.replicas(partition)) > 1
        and partition in context.leadership
        and not context.is_being_deleted(partition.topic)
    ]
    led = [p for p in concerned if context.leadership[p].leader == broker_id]
    followed = [p for p in concerned if context.leadership[p].leader != broker_id]
    await term.partitions.handle(led, PartitionState.ONLINE, ElectionStrategy.CONTROLLED_SHUTDOWN)
    # Send StopReplica first, so that the broker stops fetching before it is removed from the ISRs.
    term.batch.new_batch()
    for partition in followed:
        term.batch.add_stop_replica([broker_id], partition, delete=False)
    term.batch.send()
    await term.replicas.handle([Replica(p, broker_id) for p in followed], ReplicaState.OFFLINE)
    remaining = [p for p in concerned if context.leadership[p].leader == broker_id]
    return controlled_shutdown_response(request, KafkaError.none, remaining)
