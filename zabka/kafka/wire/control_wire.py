"""Hand-written encoders of LeaderAndIsr 7 and UpdateMetadata 8, the versions that zabka's controllers send.

A new controller sends the state of thousands of partitions to every broker, and kio's encoder takes 50 µs for each
partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from struct import Struct
from typing import Any

from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.primitives import EMPTY_TAGS, length, nullable_string, string, uuid, varint

LEADER_AND_ISR_VERSION = 7
UPDATE_METADATA_VERSION = 8

_HEAD = Struct(">i?iq")
_KIND = Struct(">b")
_STATE = Struct(">iiii")
_I32 = Struct(">i")
_NEW_AND_RECOVERY = Struct(">?b")
_PORT = Struct(">i")
_PROTOCOL = Struct(">h")


@cache
def _ids_struct(count: int) -> Struct:
    return Struct(f">{count}i")


def _ids(ids: Sequence[int]) -> bytes:
    return varint(len(ids) + 1) + _ids_struct(len(ids)).pack(*ids)


def _head(request: KafkaMessage) -> bytes:
    kraft = request.is_k_raft_controller
    return _HEAD.pack(request.controller_id, kraft, request.controller_epoch, request.broker_epoch)


def pack_leader_and_isr(request: KafkaMessage) -> list[bytes]:
    """Encode the body of a LeaderAndIsr request, version 7."""
    out = [_head(request), _KIND.pack(request.type_), length(len(request.topic_states), True)]
    for topic in request.topic_states:
        out += [string(topic.topic_name, True), uuid(topic.topic_id), length(len(topic.partition_states), True)]
        for row in topic.partition_states:
            out.append(
                b"".join(
                    (
                        _STATE.pack(row.partition_index, row.controller_epoch, row.leader, row.leader_epoch),
                        _ids(row.isr),
                        _I32.pack(row.partition_epoch),
                        _ids(row.replicas),
                        _ids(row.adding_replicas),
                        _ids(row.removing_replicas),
                        _NEW_AND_RECOVERY.pack(row.is_new, row.leader_recovery_state),
                        EMPTY_TAGS,
                    )
                )
            )
        out.append(EMPTY_TAGS)
    out.append(length(len(request.live_leaders), True))
    for leader in request.live_leaders:
        out += [_I32.pack(leader.broker_id), string(leader.host_name, True), _PORT.pack(leader.port), EMPTY_TAGS]
    out.append(EMPTY_TAGS)
    return out


def pack_update_metadata(request: KafkaMessage) -> list[bytes]:
    """Encode the body of an UpdateMetadata request, version 8."""
    out = [_head(request), length(len(request.topic_states), True)]
    for topic in request.topic_states:
        out += [string(topic.topic_name, True), uuid(topic.topic_id), length(len(topic.partition_states), True)]
        out += [_metadata_row(row) for row in topic.partition_states]
        out.append(EMPTY_TAGS)
    out.append(length(len(request.live_brokers), True))
    for broker in request.live_brokers:
        out += [_I32.pack(broker.id_), length(len(broker.endpoints), True)]
        for at in broker.endpoints:
            names = string(at.host, True) + string(at.listener, True)
            out += [_PORT.pack(at.port), names, _PROTOCOL.pack(at.security_protocol), EMPTY_TAGS]
        out += [nullable_string(broker.rack, True), EMPTY_TAGS]
    kind = request.type_
    out.append(b"\x01\x00\x01" + _KIND.pack(kind) if kind else EMPTY_TAGS)
    return out


def _metadata_row(row: Any) -> bytes:
    return b"".join(
        (
            _STATE.pack(row.partition_index, row.controller_epoch, row.leader, row.leader_epoch),
            _ids(row.isr),
            _I32.pack(row.zk_version),
            _ids(row.replicas),
            _ids(row.offline_replicas),
            EMPTY_TAGS,
        )
    )
