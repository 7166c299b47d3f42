"""Records of `__consumer_offsets`: keys and values in Kafka's own formats.

Sources: OffsetCommitKey, OffsetCommitValue, GroupMetadataKey, GroupMetadataValue of the group-coordinator module. Every
key and value begins with its version. Key versions 0 and 1 are for a committed offset, version 2 for a group. Values
are read in versions 0 to 4. They are written in version 3, the newest non-flexible version, or in version 1 if an
offset has its own expiry time.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from zabka.broker_sim.record_reader import RecordReader, UnreadableRecord
from zabka.journal.events import TopicPartition

_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_OFFSET_KEY, _GROUP_KEY = 1, 2
_OFFSET_VALUE, _OFFSET_VALUE_THAT_EXPIRES, _GROUP_VALUE = 3, 1, 3
_NEWEST = 4
_FLEXIBLE = 4

NO_LEADER_EPOCH = -1
NO_TIME = -1


class OffsetAndMetadata(NamedTuple):
    """A committed offset.

    `leader_epoch` is -1 if the consumer sent none. `expire_timestamp_ms` is None if the broker's
    offsets.retention.minutes applies, as it does since version 5 of OffsetCommit.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None


class OffsetKey(NamedTuple):
    """Key of the record that contains a group's committed offset for a partition."""

    group_id: str
    topic_partition: TopicPartition


class GroupKey(NamedTuple):
    """Key of a group's metadata record."""

    group_id: str


class StoredMember(NamedTuple):
    """A member as stored in its group's record: the metadata for the selected protocol, and the assignment."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class StoredGroup(NamedTuple):
    """A group as stored in its record. `state_timestamp_ms` is None in records that older brokers wrote."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int | None
    members: tuple[StoredMember, ...]


# ---- reading -----------------------------------------------------------------------------------------------------


def read_key(data: bytes) -> OffsetKey | GroupKey | None:
    """Decode the key of a record. Return None for kinds of records that only newer brokers write.

    Raises UnreadableRecord.
    """
    reader = RecordReader(data)
    version = reader.int16()
    if version in (0, _OFFSET_KEY):
        return OffsetKey(reader.string(), TopicPartition(reader.string(), reader.int32()))
    if version == _GROUP_KEY:
        return GroupKey(reader.string())
    return None


def _versioned(data: bytes) -> tuple[RecordReader, int]:
    reader = RecordReader(data)
    version = reader.int16()
    if not 0 <= version <= _NEWEST:
        raise UnreadableRecord(f"a value of version {version}")
    reader.flexible = version >= _FLEXIBLE
    return reader, version


def read_offset(data: bytes) -> OffsetAndMetadata:
    """Decode a committed offset from the value of a record. Raises UnreadableRecord."""
    reader, version = _versioned(data)
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else NO_LEADER_EPOCH
    metadata = reader.string()
    committed_ms = reader.int64()
    expire_ms = reader.int64() if version == _OFFSET_VALUE_THAT_EXPIRES else NO_TIME
    reader.skip_tagged_fields()
    return OffsetAndMetadata(offset, leader_epoch, metadata, committed_ms, None if expire_ms == NO_TIME else expire_ms)


def read_group(data: bytes) -> StoredGroup:
    """Decode a group from the value of a record. Raises UnreadableRecord."""
    reader, version = _versioned(data)
    protocol_type = reader.string()
    generation_id = reader.int32()
    protocol_name = reader.nullable_string()
    leader_id = reader.nullable_string()
    state_ms = reader.int64() if version >= 2 else NO_TIME
    members = tuple(_read_member(reader, version) for _ in range(reader.count()))
    reader.skip_tagged_fields()
    _check_members(leader_id, members)
    return StoredGroup(
        protocol_type, generation_id, protocol_name, leader_id, None if state_ms == NO_TIME else state_ms, members
    )


def _check_members(leader_id: str | None, members: Sequence[StoredMember]) -> None:
    """Raise UnreadableRecord if no coordinator could have written this group.

    The check is needed because clients can also write to `__consumer_offsets`.
    """
    instances = [member.group_instance_id for member in members if member.group_instance_id is not None]
    if len(frozenset(instances)) < len(instances):
        raise UnreadableRecord("two members with one group.instance.id")
    if len(frozenset(member.member_id for member in members)) < len(members):
        raise UnreadableRecord("two members with one id")
    if members and not any(member.member_id == leader_id for member in members):
        raise UnreadableRecord("a leader that is no member")


def _read_member(reader: RecordReader, version: int) -> StoredMember:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_ms = reader.int32() if version >= 1 else None
    session_ms = reader.int32()
    subscription, assignment = reader.data(), reader.data()
    reader.skip_tagged_fields()
    return StoredMember(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=session_ms if rebalance_ms is None else rebalance_ms,
        session_timeout_ms=session_ms,
        subscription=subscription,
        assignment=assignment,
    )


# ---- writing -----------------------------------------------------------------------------------------------------


def _string(text: str | None) -> bytes:
    if text is None:
        return _SHORT.pack(-1)
    data = text.encode()
    return _SHORT.pack(len(data)) + data


def _bytes(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def offset_key(group_id: str, topic_partition: TopicPartition) -> bytes:
    """Encode the record key of a committed offset."""
    topic, partition = topic_partition
    return _SHORT.pack(_OFFSET_KEY) + _string(group_id) + _string(topic) + _INT.pack(partition)


def group_key(group_id: str) -> bytes:
    """Encode the record key of a group."""
    return _SHORT.pack(_GROUP_KEY) + _string(group_id)


def offset_value(committed: OffsetAndMetadata) -> bytes:
    """Encode the record value of a committed offset."""
    metadata = _string(committed.metadata) + _LONG.pack(committed.commit_timestamp_ms)
    if committed.expire_timestamp_ms is not None:
        head = _SHORT.pack(_OFFSET_VALUE_THAT_EXPIRES) + _LONG.pack(committed.offset)
        return head + metadata + _LONG.pack(committed.expire_timestamp_ms)
    return _SHORT.pack(_OFFSET_VALUE) + _LONG.pack(committed.offset) + _INT.pack(committed.leader_epoch) + metadata


def group_value(group: StoredGroup) -> bytes:
    """Encode the record value of a group."""
    state_ms = NO_TIME if group.state_timestamp_ms is None else group.state_timestamp_ms
    return b"".join(
        (
            _SHORT.pack(_GROUP_VALUE),
            _string(group.protocol_type),
            _INT.pack(group.generation_id),
            _string(group.protocol_name),
            _string(group.leader_id),
            _LONG.pack(state_ms),
            _members(group.members),
        )
    )


def _members(members: Sequence[StoredMember]) -> bytes:
    return _INT.pack(len(members)) + b"".join(
        _string(member.member_id)
        + _string(member.group_instance_id)
        + _string(member.client_id)
        + _string(member.client_host)
        + _INT.pack(member.rebalance_timeout_ms)
        + _INT.pack(member.session_timeout_ms)
        + _bytes(member.subscription)
        + _bytes(member.assignment)
        for member in members
    )
