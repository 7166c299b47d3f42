"""Which replica a consumer had best read from (KIP-392, Kafka's ReplicaSelector)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class ReplicaView(NamedTuple):
    """A replica that holds what the consumer asks for."""

    broker_id: int
    rack: str | None
    end_offset: int
    ms_since_caught_up: int


ReplicaSelector = Callable[[str, Sequence[ReplicaView], ReplicaView], int]
"""(the consumer's rack, the replicas with the leader among them, the leader) to the id of the chosen one."""


def select_in_rack(rack: str, replicas: Sequence[ReplicaView], leader: ReplicaView) -> int:
    """RackAwareReplicaSelector: in the consumer's rack the leader, if it stands there, else whoever is furthest and
    was level last; the leader where nobody stands in that rack."""
    near = [replica for replica in replicas if rack and replica.rack == rack]
    if not near or leader in near:
        return leader.broker_id
    return max(near, key=lambda r: (r.end_offset, -r.ms_since_caught_up, r.broker_id)).broker_id


def replica_selector(class_name: str) -> ReplicaSelector | None:
    """The selector of that class name (replica.selector.class); None where consumers read from the leader alone."""
    return select_in_rack if class_name == RACK_AWARE_SELECTOR else None
