"""A broker's status: its role, its belief about the current controller, and its replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zabka.broker_sim.configs.authorizer_keys import read_super_users
from zabka.broker_sim.configs.broker_config import KafkaConfig
from zabka.broker_sim.configs.dynamic_tls import Certificate
from zabka.broker_sim.configs.listeners import Listener
from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.replication.replica_manager import ReplicaManager
from zabka.controller.controller import KafkaController
from zabka.ensemble.client.service import CoordinationService
from zabka.ensemble.request_fault_uses import Counts

BrokerStatus = dict[str, Any]
"""Status of a broker as plain JSON.

Its keys: broker_id, state, broker_epoch, session, is_controller, believes, controller_metrics, replica_metrics,
live_brokers, partitions, request_faults, listeners, authorizer. The entry of a partition that this broker leads has
`min_isr`, and `lagging` if some members of the ISR have not caught up.
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
    listeners: list[dict[str, Any]],
    authorizer: dict[str, Any] | None,
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
        "listeners": listeners,
        "authorizer": authorizer,
    }


def listener_rows(
    config: KafkaConfig, advertised: tuple[Listener, ...], certificates: Mapping[str, Certificate]
) -> list[dict[str, Any]]:
    """Return a broker's listeners with their advertised addresses. A certificate is keyed by its listener's name."""
    rows = []
    own = [each.name for each in advertised]
    inter_broker = config.inter_broker_listener if config.inter_broker_listener in own else own[0]
    for name, host, port, protocol in advertised:
        sasl, tls, certificate = config.sasl.get(name), config.tls.get(name), certificates.get(name)
        rows.append(
            {
                "name": name,
                "host": host,
                "port": port,
                "protocol": protocol,
                "mechanisms": [] if sasl is None else list(sasl.mechanisms),
                "inter_broker": name == inter_broker,
                "client_auth": None if tls is None else tls.client_auth,
                "certificate": None
                if certificate is None
                else {
                    "subject": certificate.subject,
                    "not_before_ms": certificate.not_before_ms,
                    "not_after_ms": certificate.not_after_ms,
                },
            }
        )
    return rows


def authorizer_row(config: KafkaConfig) -> dict[str, Any] | None:
    """Return the class and the super users of a broker's authorizer, or None without one."""
    name = config.text("authorizer.class.name")
    if not name:
        return None
    return {
        "class": name,
        "super_users": [str(user) for user in read_super_users(config.text("super.users"))],
        "allow_everyone_if_no_acl_found": config.flag("allow.everyone.if.no.acl.found"),
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
