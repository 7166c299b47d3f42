"""The Metadata response as light objects, and its encoding, versions 0 to 12.

In a cluster of ten thousand partitions, the response has ten thousand rows. After a change to one partition, the other
rows must not be encoded again, so each row caches its bytes, which later responses reuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, ClassVar

import msgspec
from kio.schema.errors import ErrorCode

from zabka.kafka.wire.kafka_schema import NO_TIME, KafkaUuid, milliseconds
from zabka.kafka.wire.primitives import EMPTY_TAGS, length, nullable_string, string, uuid

FLEXIBLE_FROM = 9
SLICE_ROWS = 1_000
"""Number of rows that are encoded between two pauses, which takes a few milliseconds."""
NOT_REQUESTED = -2147483648
"""Value of a field with authorized operations if the client did not request them."""
_CONTROLLER_FROM = 1
_CLUSTER_ID_FROM = 2
_THROTTLE_FROM = 3
_OFFLINE_FROM = 5
_LEADER_EPOCH_FROM = 7
_OPERATIONS_FROM = 8
_TOPIC_ID_FROM = 10
_NO_CLUSTER_OPERATIONS_FROM = 11
_NULL_NAME_FROM = 12

_I16 = Struct(">h")
_I32 = Struct(">i")
_ROW_V0 = Struct(">hii")
_ROW_V7 = Struct(">hiii")


class MetadataResponsePartition(msgspec.Struct, gc=False):
    """A partition in a Metadata response. `packed` is its encoding in the version layout that was requested last."""

    error_code: ErrorCode
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: Sequence[int]
    isr_nodes: Sequence[int]
    offline_replicas: Sequence[int]
    layout: int = -1
    packed: bytes = b""

    def bytes_of(self, version: int) -> bytes:
        """Return the encoding of this partition in the given version of the Metadata response."""
        layout = _layout(version)
        if layout != self.layout:
            self.packed, self.layout = _pack_row(self, version), layout
        return self.packed


class MetadataResponseTopic(msgspec.Struct, frozen=True, gc=False):
    """A topic in a Metadata response."""

    error_code: ErrorCode
    name: str | None
    topic_id: KafkaUuid | None = None
    is_internal: bool = False
    partitions: Sequence[MetadataResponsePartition] = ()
    topic_authorized_operations: int = NOT_REQUESTED


class MetadataResponseBroker(msgspec.Struct, frozen=True, gc=False):
    """A broker in a Metadata response."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class MetadataResponse(msgspec.Struct, frozen=True, gc=False):
    """A Metadata response."""

    version: int
    brokers: Sequence[MetadataResponseBroker]
    cluster_id: str | None
    controller_id: int
    topics: Sequence[MetadataResponseTopic]
    throttle_time: Any = NO_TIME
    cluster_authorized_operations: int = NOT_REQUESTED
    __api_key__: ClassVar[int] = 3

    @property
    def __version__(self) -> int:
        return self.version

    @property
    def __flexible__(self) -> bool:
        return self.version >= FLEXIBLE_FROM


def _layout(version: int) -> int:
    return (version >= _OFFLINE_FROM) + (version >= _LEADER_EPOCH_FROM) + (version >= FLEXIBLE_FROM)


def _ids(ids: Sequence[int], flexible: bool) -> bytes:
    return length(len(ids), flexible) + Struct(f">{len(ids)}i").pack(*ids)


def _pack_row(row: MetadataResponsePartition, version: int) -> bytes:
    flexible = version >= FLEXIBLE_FROM
    if version >= _LEADER_EPOCH_FROM:
        head = _ROW_V7.pack(row.error_code, row.partition_index, row.leader_id, row.leader_epoch)
    else:
        head = _ROW_V0.pack(row.error_code, row.partition_index, row.leader_id)
    offline = _ids(row.offline_replicas, flexible) if version >= _OFFLINE_FROM else b""
    tags = EMPTY_TAGS if flexible else b""
    return b"".join((head, _ids(row.replica_nodes, flexible), _ids(row.isr_nodes, flexible), offline, tags))


def pack_rows_in_slices(answer: MetadataResponse) -> Iterator[None]:
    """Encode the rows that have no cached encoding. The generator pauses after every slice.

    After that, `pack_metadata` is fast.
    """
    packed = 0
    layout = _layout(answer.version)
    for topic in answer.topics:
        for row in topic.partitions:
            if row.layout != layout:
                row.bytes_of(answer.version)
                packed += 1
                if packed % SLICE_ROWS == 0:
                    yield


def pack_metadata(answer: MetadataResponse) -> bytes:
    """Encode the body of a Metadata response."""
    version = answer.version
    flexible = version >= FLEXIBLE_FROM
    tags = EMPTY_TAGS if flexible else b""
    out = []
    if version >= _THROTTLE_FROM:
        out.append(_I32.pack(milliseconds(answer.throttle_time)))
    out.append(length(len(answer.brokers), flexible))
    for broker in answer.brokers:
        out += [_I32.pack(broker.node_id), string(broker.host, flexible), _I32.pack(broker.port)]
        if version >= _CONTROLLER_FROM:
            out.append(nullable_string(broker.rack, flexible))
        out.append(tags)
    if version >= _CLUSTER_ID_FROM:
        out.append(nullable_string(answer.cluster_id, flexible))
    if version >= _CONTROLLER_FROM:
        out.append(_I32.pack(answer.controller_id))
    out.append(length(len(answer.topics), flexible))
    for topic in answer.topics:
        _pack_topic(out, topic, version)
    if _OPERATIONS_FROM <= version < _NO_CLUSTER_OPERATIONS_FROM:
        out.append(_I32.pack(answer.cluster_authorized_operations))
    out.append(tags)
    return b"".join(out)


def _pack_topic(out: list[bytes], topic: MetadataResponseTopic, version: int) -> None:
    flexible = version >= FLEXIBLE_FROM
    out.append(_I16.pack(topic.error_code))
    if version >= _NULL_NAME_FROM:
        out.append(nullable_string(topic.name, flexible))
    else:
        out.append(string(topic.name or "", flexible))
    if version >= _TOPIC_ID_FROM:
        out.append(uuid(topic.topic_id))
    if version >= _CONTROLLER_FROM:
        out.append(b"\x01" if topic.is_internal else b"\x00")
    out.append(length(len(topic.partitions), flexible))
    out += [row.bytes_of(version) for row in topic.partitions]
    if version >= _OPERATIONS_FROM:
        out.append(_I32.pack(topic.topic_authorized_operations))
    if flexible:
        out.append(EMPTY_TAGS)
