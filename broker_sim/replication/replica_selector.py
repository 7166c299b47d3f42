"""Selection of a consumer's preferred read replica (KIP-392, Kafka's ReplicaSelector)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class ReplicaView(NamedTuple):
    """A replica that has the records requested by a consumer, as input to the selection."""

    broker_id: int
    rack: str | None
    end_offset: int
    ms_since_caught_up: int


ReplicaSelector = Callable[[str, Sequence[ReplicaView], ReplicaView], int]
"""Function (consumer's rack, all replicas, leader) that returns the id of the selected replica."""


def select_in_rack(rack: str, replicas: Sequence[ReplicaView], leader: ReplicaView) -> int:
    """Select a replica in the consumer's rack: the leader if it is in that rack, else the most caught-up replica.

    The most caught-up replica has the highest log end offset and, among equals, was caught up most recently. If no
    replica is in the rack, select the leader (RackAwareReplicaSelector).
    """
    near = [replica for replica in replicas if rack and replica.rack == rack]
    if not near or leader in near:
        return leader.broker_id
    return max(near, key=lambda r: (r.end_offset, -r.ms_since_caught_up, r.broker_id)).broker_id


def replica_selector(class_name: str) -> ReplicaSelector | None:
    """Return the selector for a replica.selector.class, or None if consumers read only from leaders."""
    return select_in_rack if class_name == RACK_AWARE_SELECTOR else None
