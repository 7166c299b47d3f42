"""A broker's status: its role, its belief about the current controller, and its replicas."""

from __future__ import annotations

from typing import Any

from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.replication.replica_manager import ReplicaManager
from zabka.controller.controller import KafkaController
from zabka.ensemble.client.service import CoordinationService
from zabka.ensemble.request_fault_uses import Counts

BrokerStatus = dict[str, Any]
"""Status of a broker as plain JSON.

Its keys: broker_id, state, broker_epoch, session, is_controller, believes, controller_metrics, replica_metrics,
live_brokers, partitions, request_faults. The entry of a partition that this broker leads has `min_isr`, and `lagging`
if some members of the ISR have not caught up.
"""


def describe(
    *,
    broker_id: int,
    state: str,
    coordination: CoordinationService,
    controller: KafkaController,
    confirmed_age_ms: int,
    replicas: ReplicaManager,
    metadata: MetadataCache,
    fault_counts: Counts,
) -> BrokerStatus:
    """Return a broker's status.

    `confirmed_age_ms` is the time since the ensemble last confirmed which broker is the controller.
    """
    return {
        "broker_id": broker_id,
        "state": state,
        "broker_epoch": int(controller.broker_epoch),
        "session": {"id": int(coordination.session_id), "state": coordination.state.value},
        "is_controller": controller.is_active,
        "believes": {
            "controller_id": controller.active_controller_id,
            "controller_epoch": int(controller.controller_epoch),
            "age_ms": confirmed_age_ms,
        },
        "controller_metrics": controller.metrics(),
        "replica_metrics": replicas.metrics(),
        "live_brokers": [broker.broker_id for broker in metadata.brokers()],
        "partitions": _partitions(replicas, metadata),
        "request_faults": fault_counts,
    }


def _partitions(replicas: ReplicaManager, metadata: MetadataCache) -> list[dict[str, Any]]:
    rows = []
    for topic_partition in sorted(replicas.partitions):
        partition = replicas.partitions[topic_partition]
        known = metadata.partition(topic_partition)
        isr = partition.isr_state.isr if partition.is_leader else known.isr if known is not None else ()
        row: dict[str, Any] = {
            "topic": topic_partition.topic,
            "partition": topic_partition.partition,
            "leader": -1 if partition.leader is None else int(partition.leader),
            "leader_epoch": partition.leader_epoch,
            "isr": [int(replica) for replica in isr],
            "hw": partition.log.high_watermark,
            "leo": partition.log.end_offset,
        }
        if partition.is_leader:
            row["min_isr"] = partition.min_isr
            if lagging := partition.lagging():
                row["lagging"] = list(lagging)
        rows.append(row)
    return rows
