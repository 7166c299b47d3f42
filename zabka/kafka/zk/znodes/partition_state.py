"""Content of /brokers/topics/T/partitions/P/state: the leader and the ISR of a partition."""

from __future__ import annotations

from typing import NamedTuple

from zabka.kafka.zk.znodes.json_content import INT32_MAX, broker_ids, decode, encode, is_int32


class LeaderAndIsr(NamedTuple):
    """A partition's state (LeaderIsrAndControllerEpoch). `partition_epoch` is the version of its znode.

    `eligible` are replicas outside the ISR that have all committed records, according to the config that the
    transaction `eligible_by_zxid` wrote. `doubtful` are members of the ISR that may lack some committed records.
    `broker_epoch_seen` is the newest registration that the writer of the state had seen. See `eligibility`. Kafka's
    controllers ignore these four fields, and drop them when they write.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    partition_epoch: int = 0
    recovering: bool = False
    eligible: tuple[int, ...] = ()
    eligible_by_zxid: int = -1
    doubtful: tuple[int, ...] = ()
    broker_epoch_seen: int = -1


def encode_partition_state(state: LeaderAndIsr) -> bytes:
    """Encode the content of a partition's state znode (TopicPartitionStateZNode).

    The content does not include the partition epoch, which is the version of the znode.
    """
    value: dict[str, object] = {
        "version": 1,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "controller_epoch": state.controller_epoch,
        "isr": state.isr,
    }
    if state.recovering:
        value["leader_recovery_state"] = 1
    if state.eligible:
        value["eligible_leader_replicas"] = state.eligible
        value["eligible_by_zxid"] = state.eligible_by_zxid
        value["doubtful_replicas"] = state.doubtful
        value["broker_epoch_seen"] = state.broker_epoch_seen
    return encode(value)


def decode_partition_state(data: bytes | None, version: int) -> LeaderAndIsr | None:
    """Decode the content of a partition's state znode; None if it is not valid. `version` is the znode's version."""
    value = decode(data)
    if value is None:
        return None
    isr = broker_ids(value.get("isr"))
    leader, leader_epoch, controller_epoch = (
        value.get("leader"),
        value.get("leader_epoch"),
        value.get("controller_epoch"),
    )
    in_range = is_int32(leader, -1) and is_int32(leader_epoch, 0, INT32_MAX - 1) and is_int32(controller_epoch, 0)
    if isr is None or not in_range:
        return None
    assert isinstance(leader, int) and isinstance(leader_epoch, int) and isinstance(controller_epoch, int)
    recovering = value.get("leader_recovery_state", 0) == 1
    state = LeaderAndIsr(leader, leader_epoch, isr, controller_epoch, version, recovering)
    eligible, doubtful = broker_ids(value.get("eligible_leader_replicas")), broker_ids(value.get("doubtful_replicas"))
    by_zxid, seen = value.get("eligible_by_zxid"), value.get("broker_epoch_seen")
    if not eligible or doubtful is None or type(by_zxid) is not int or type(seen) is not int:
        return state
    return state._replace(eligible=eligible, eligible_by_zxid=by_zxid, doubtful=doubtful, broker_epoch_seen=seen)
