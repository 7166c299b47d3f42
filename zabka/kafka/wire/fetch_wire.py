"""Hand-written codec of Fetch, versions 0 to 17, because kio's general reader and writer take milliseconds.

Records are not copied: a decoded message has a view of the received frame, and an encoded one has them as one piece.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.data_messages import (
    FETCH_FLEXIBLE_FROM,
    MAX_BYTES_UNASKED,
    NO_WORD_OF_LEADER,
    NOT_DIVERGING,
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
    error_code,
)
from zabka.kafka.wire.kafka_schema import as_time, milliseconds, version_of
from zabka.kafka.wire.primitives import (
    EMPTY_TAGS,
    length,
    null_length,
    nullable_string,
    read_count,
    read_length,
    read_nullable_string,
    read_records,
    read_string,
    read_tags,
    read_uuid,
    skip_tags,
    string,
    uuid,
    varint,
)

TOPIC_IDS_FROM = 13
REPLICA_STATE_FROM = 15
_LEADER_EPOCH_FROM = 9
_SESSIONS_FROM = 7
_START_OFFSET_FROM = 5
_ISOLATION_FROM = 4
_MAX_BYTES_FROM = 3
_THROTTLE_FROM = 1
_RACK_FROM = 11
_ENDPOINTS_FROM = 16

_I32 = Struct(">i")
_FOLLOWER_V0 = Struct(">iii")
_FOLLOWER_V3 = Struct(">iiii")
_FOLLOWER = Struct(">iiiib")
_NO_FOLLOWER = Struct(">iiib")
_SESSION = Struct(">ii")
_ASK_V4 = Struct(">iqi")
_ASK_V5 = Struct(">iqqi")
_ASK_V9 = Struct(">iiqqi")
_ASK_V12 = Struct(">iiqiqi")
_REPLICA_STATE = Struct(">iqb")

_HEAD = Struct(">ihi")
_ROW_V0 = Struct(">ihq")
_ROW_V4 = Struct(">ihqq")
_ROW_V5 = Struct(">ihqqq")
_DIVERGING = Struct(">iqb")
_LEADER = Struct(">iib")
_ABORTED = Struct(">qq")


# ---- requests -------------------------------------------------------------------------------------------------


def read_fetch_request(data: bytes, offset: int, version: int) -> tuple[FetchRequest, int]:
    """Decode the Fetch request whose body begins at `offset`. Return the request and the offset after it.

    Raises WireError, struct.error and ValueError.
    """
    flexible = version >= FETCH_FLEXIBLE_FROM
    replica = -1
    if version < _ISOLATION_FROM:
        (replica, wait_ms, min_bytes, max_bytes), offset = _read_old_head(data, offset, version)
        isolation = 0
    elif version < REPLICA_STATE_FROM:
        replica, wait_ms, min_bytes, max_bytes, isolation = _FOLLOWER.unpack_from(data, offset)
        offset += _FOLLOWER.size
    else:
        wait_ms, min_bytes, max_bytes, isolation = _NO_FOLLOWER.unpack_from(data, offset)
        offset += _NO_FOLLOWER.size
    session_id, session_epoch = 0, -1
    if version >= _SESSIONS_FROM:
        session_id, session_epoch = _SESSION.unpack_from(data, offset)
        offset += _SESSION.size
    topics, offset = _read_topics(data, offset, version)
    forgotten: list[ForgottenTopic] = []
    if version >= _SESSIONS_FROM:
        forgotten, offset = _read_forgotten(data, offset, version)
    rack = ""
    if version >= _RACK_FROM:
        rack, offset = read_string(data, offset, flexible)
    state, cluster_id = ReplicaState(replica), None
    if flexible:
        tags, offset = read_tags(data, offset)
        for tag, begin, _ in tags:
            if tag == 0:
                cluster_id, _ = read_nullable_string(data, begin, flexible)
            elif tag == 1 and version >= REPLICA_STATE_FROM:
                state = ReplicaState(*_REPLICA_STATE.unpack_from(data, begin)[:2])
    asked = FetchRequest(
        version,
        as_time(wait_ms),
        min_bytes,
        topics,
        state,
        max_bytes,
        isolation_level=isolation,
        session_id=session_id,
        session_epoch=session_epoch,
        forgotten_topics_data=forgotten,
        rack_id=rack,
        cluster_id=cluster_id,
    )
    return asked, offset


def _read_old_head(data: bytes, offset: int, version: int) -> tuple[tuple[int, int, int, int], int]:
    if version >= _MAX_BYTES_FROM:
        return _FOLLOWER_V3.unpack_from(data, offset), offset + _FOLLOWER_V3.size
    replica, wait_ms, min_bytes = _FOLLOWER_V0.unpack_from(data, offset)
    return (replica, wait_ms, min_bytes, MAX_BYTES_UNASKED), offset + _FOLLOWER_V0.size


def _read_topic_name(data: bytes, offset: int, version: int) -> tuple[str, Any, int]:
    if version >= TOPIC_IDS_FROM:
        topic_id, offset = read_uuid(data, offset)
        return "", topic_id, offset
    name, offset = read_string(data, offset, version >= FETCH_FLEXIBLE_FROM)
    return name, None, offset


def _read_topics(data: bytes, offset: int, version: int) -> tuple[list[FetchTopic], int]:
    flexible = version >= FETCH_FLEXIBLE_FROM
    topics = []
    count, offset = read_count(data, offset, flexible)
    for _ in range(count):
        name, topic_id, offset = _read_topic_name(data, offset, version)
        rows: list[FetchPartition] = []
        row_count, offset = read_count(data, offset, flexible)
        for _ in range(row_count):
            if flexible:
                number, epoch, at, last_epoch, start, size = _ASK_V12.unpack_from(data, offset)
                rows.append(FetchPartition(number, at, size, epoch, last_epoch, start))
                offset = skip_tags(data, offset + 32)
            else:
                row, offset = _read_old_row(data, offset, version)
                rows.append(row)
        if flexible:
            offset = skip_tags(data, offset)
        topics.append(FetchTopic(rows, name, topic_id))
    return topics, offset


def _read_old_row(data: bytes, offset: int, version: int) -> tuple[FetchPartition, int]:
    if version >= _LEADER_EPOCH_FROM:
        number, epoch, at, start, size = _ASK_V9.unpack_from(data, offset)
        return FetchPartition(number, at, size, epoch, -1, start), offset + _ASK_V9.size
    if version >= _START_OFFSET_FROM:
        number, at, start, size = _ASK_V5.unpack_from(data, offset)
        return FetchPartition(number, at, size, -1, -1, start), offset + _ASK_V5.size
    number, at, size = _ASK_V4.unpack_from(data, offset)
    return FetchPartition(number, at, size), offset + _ASK_V4.size


def _read_forgotten(data: bytes, offset: int, version: int) -> tuple[list[ForgottenTopic], int]:
    flexible = version >= FETCH_FLEXIBLE_FROM
    forgotten = []
    count, offset = read_count(data, offset, flexible)
    for _ in range(count):
        name, topic_id, offset = _read_topic_name(data, offset, version)
        numbers = []
        number_count, offset = read_count(data, offset, flexible)
        for _ in range(number_count):
            numbers.append(_I32.unpack_from(data, offset)[0])
            offset += 4
        if flexible:
            offset = skip_tags(data, offset)
        forgotten.append(ForgottenTopic(numbers, name, topic_id))
    return forgotten, offset


def pack_fetch_request(asked: KafkaMessage) -> list[bytes]:
    """Encode the body of a Fetch request."""
    version = version_of(asked)
    flexible = version >= FETCH_FLEXIBLE_FROM
    wait_ms = milliseconds(asked.max_wait)
    with_state = version >= REPLICA_STATE_FROM
    out = [_packed_head(asked, version, wait_ms)]
    if version >= _SESSIONS_FROM:
        out.append(_SESSION.pack(asked.session_id, asked.session_epoch))
    out.append(length(len(asked.topics), flexible))
    for topic in asked.topics:
        out.append(_topic_name(topic, version))
        out.append(length(len(topic.partitions), flexible))
        out += [_packed_row(row, version) for row in topic.partitions]
        if flexible:
            out.append(EMPTY_TAGS)
    if version >= _SESSIONS_FROM:
        out.append(length(len(asked.forgotten_topics_data), flexible))
        for gone in asked.forgotten_topics_data:
            numbers = [_I32.pack(number) for number in gone.partitions]
            out += [_topic_name(gone, version), length(len(numbers), flexible), *numbers]
            if flexible:
                out.append(EMPTY_TAGS)
    if version >= _RACK_FROM:
        out.append(string(asked.rack_id, flexible))
    if flexible:
        out.append(_request_tags(asked, with_state))
    return out


def _packed_head(asked: KafkaMessage, version: int, wait_ms: int) -> bytes:
    if version >= REPLICA_STATE_FROM:
        return _NO_FOLLOWER.pack(wait_ms, asked.min_bytes, asked.max_bytes, asked.isolation_level)
    head = asked.replica_id, wait_ms, asked.min_bytes
    if version >= _ISOLATION_FROM:
        return _FOLLOWER.pack(*head, asked.max_bytes, asked.isolation_level)
    return _FOLLOWER_V3.pack(*head, asked.max_bytes) if version >= _MAX_BYTES_FROM else _FOLLOWER_V0.pack(*head)


def _request_tags(asked: KafkaMessage, with_state: bool) -> bytes:
    tags = []
    if asked.cluster_id is not None:
        name = string(asked.cluster_id, True)
        tags.append(b"\x00" + varint(len(name)) + name)
    if with_state:
        state = asked.replica_state
        if (state.replica_id, state.replica_epoch) != (-1, -1):
            tags.append(b"\x01\x0d" + _REPLICA_STATE.pack(state.replica_id, state.replica_epoch, 0))
    return varint(len(tags)) + b"".join(tags)


def _topic_name(topic: Any, version: int) -> bytes:
    if version >= TOPIC_IDS_FROM:
        return uuid(topic.topic_id)
    return string(topic.topic, version >= FETCH_FLEXIBLE_FROM)


def _packed_row(row: Any, version: int) -> bytes:
    number, at, size = row.partition, row.fetch_offset, row.partition_max_bytes
    if version >= FETCH_FLEXIBLE_FROM:
        epochs = row.current_leader_epoch, at, row.last_fetched_epoch
        return _ASK_V12.pack(number, *epochs, row.log_start_offset, size) + EMPTY_TAGS
    if version >= _LEADER_EPOCH_FROM:
        return _ASK_V9.pack(number, row.current_leader_epoch, at, row.log_start_offset, size)
    if version >= _START_OFFSET_FROM:
        return _ASK_V5.pack(number, at, row.log_start_offset, size)
    return _ASK_V4.pack(number, at, size)


# ---- responses ------------------------------------------------------------------------------------------------


def pack_fetch(payload: KafkaMessage) -> list[bytes]:
    """Encode the body of a Fetch response as pieces, without copying the records."""
    version = version_of(payload)
    flexible = version >= FETCH_FLEXIBLE_FROM
    throttle_ms = milliseconds(payload.throttle_time) if version >= _THROTTLE_FROM else 0
    out: list[bytes] = []
    if version >= _SESSIONS_FROM:
        out.append(_HEAD.pack(throttle_ms, payload.error_code, payload.session_id))
    elif version >= _THROTTLE_FROM:
        out.append(_I32.pack(throttle_ms))
    out.append(length(len(payload.responses), flexible))
    for topic in payload.responses:
        out.append(_topic_name(topic, version))
        out.append(length(len(topic.partitions), flexible))
        for partition in topic.partitions:
            _pack_partition(out, partition, version)
        if flexible:
            out.append(EMPTY_TAGS)
    if flexible:
        endpoints = payload.node_endpoints if version >= _ENDPOINTS_FROM else ()
        out.append(endpoint_tags(endpoints))
    return out


def endpoint_tags(endpoints: Any) -> bytes:
    """Encode the tagged fields of a response that has endpoints of leaders in tag 0 (KIP-951)."""
    if not endpoints:
        return EMPTY_TAGS
    rows = [length(len(endpoints), True)]
    for at in endpoints:
        node, port = _I32.pack(at.node_id), _I32.pack(at.port)
        rows += [node, string(at.host, True), port, nullable_string(at.rack, True), EMPTY_TAGS]
    body = b"".join(rows)
    return b"\x01\x00" + varint(len(body)) + body


def _pack_partition(out: list[bytes], partition: Any, version: int) -> None:
    flexible = version >= FETCH_FLEXIBLE_FROM
    number, error, mark = partition.partition_index, partition.error_code, partition.high_watermark
    if version >= _START_OFFSET_FROM:
        out.append(_ROW_V5.pack(number, error, mark, partition.last_stable_offset, partition.log_start_offset))
    elif version >= _ISOLATION_FROM:
        out.append(_ROW_V4.pack(number, error, mark, partition.last_stable_offset))
    else:
        out.append(_ROW_V0.pack(number, error, mark))
    if version >= _ISOLATION_FROM:
        _pack_aborted(out, partition.aborted_transactions, flexible)
    if version >= _RACK_FROM:
        out.append(_I32.pack(partition.preferred_read_replica))
    records = partition.records
    if records is None:
        out.append(null_length(flexible))
    else:
        out.append(length(len(records), flexible))
        out.append(records)
    if flexible:
        out.append(_partition_tags(partition))


def _pack_aborted(out: list[bytes], aborted: Any, flexible: bool) -> None:
    if aborted is None:
        out.append(null_length(flexible))
    else:
        out.append(length(len(aborted), flexible))
        tags = EMPTY_TAGS if flexible else b""
        out += [_ABORTED.pack(txn.producer_id, txn.first_offset) + tags for txn in aborted]


def _partition_tags(partition: Any) -> bytes:
    diverging, leader = partition.diverging_epoch, partition.current_leader
    if diverging is NOT_DIVERGING and leader is NO_WORD_OF_LEADER:
        return EMPTY_TAGS
    tags = []
    if (diverging.epoch, diverging.end_offset) != (-1, -1):
        tags.append(b"\x00\x0d" + _DIVERGING.pack(diverging.epoch, diverging.end_offset, 0))
    if (leader.leader_id, leader.leader_epoch) != (-1, -1):
        tags.append(b"\x01\x09" + _LEADER.pack(leader.leader_id, leader.leader_epoch, 0))
    return varint(len(tags)) + b"".join(tags)


def read_fetch_response(data: bytes, offset: int, version: int) -> tuple[FetchResponse, int]:
    """Decode the Fetch response whose body begins at `offset`. Return the response and the offset after it.

    Raises WireError, struct.error and ValueError.
    """
    flexible = version >= FETCH_FLEXIBLE_FROM
    view = memoryview(data)
    throttle_ms = error = session_id = 0
    if version >= _SESSIONS_FROM:
        throttle_ms, error, session_id = _HEAD.unpack_from(data, offset)
        offset += _HEAD.size
    elif version >= _THROTTLE_FROM:
        (throttle_ms,) = _I32.unpack_from(data, offset)
        offset += 4
    topics = []
    count, offset = read_count(data, offset, flexible)
    for _ in range(count):
        name, topic_id, offset = _read_topic_name(data, offset, version)
        rows = []
        row_count, offset = read_count(data, offset, flexible)
        for _ in range(row_count):
            row, offset = _read_partition(view, data, offset, version)
            rows.append(row)
        if flexible:
            offset = skip_tags(data, offset)
        topics.append(FetchableTopicResponse(rows, name, topic_id))
    endpoints: list[NodeEndpoint] = []
    if flexible:
        endpoints, offset = read_endpoints(data, offset, requested=version >= _ENDPOINTS_FROM)
    return FetchResponse(version, topics, error_code(error), session_id, as_time(throttle_ms), endpoints), offset


def _read_partition(view: memoryview, data: bytes, offset: int, version: int) -> tuple[PartitionData, int]:
    flexible = version >= FETCH_FLEXIBLE_FROM
    start = stable = -1
    if version >= _START_OFFSET_FROM:
        number, error, mark, stable, start = _ROW_V5.unpack_from(data, offset)
        offset += _ROW_V5.size
    elif version >= _ISOLATION_FROM:
        number, error, mark, stable = _ROW_V4.unpack_from(data, offset)
        offset += _ROW_V4.size
    else:
        number, error, mark = _ROW_V0.unpack_from(data, offset)
        offset += _ROW_V0.size
    aborted: list[AbortedTransaction] | None = None
    count = -1
    if version >= _ISOLATION_FROM:
        count, offset = read_length(data, offset, flexible)
    if count >= 0:
        aborted = []
        for _ in range(count):
            aborted.append(AbortedTransaction(*_ABORTED.unpack_from(data, offset)))
            offset += _ABORTED.size
            if flexible:
                offset = skip_tags(data, offset)
    preferred = -1
    if version >= _RACK_FROM:
        (preferred,) = _I32.unpack_from(data, offset)
        offset += 4
    records, offset = read_records(view, data, offset, flexible)
    diverging, leader = NOT_DIVERGING, NO_WORD_OF_LEADER
    if flexible:
        if data[offset]:
            tags, offset = read_tags(data, offset)
            for tag, begin, _ in tags:
                if tag == 0:
                    diverging = EpochEndOffset(*_DIVERGING.unpack_from(data, begin)[:2])
                elif tag == 1:
                    leader = LeaderIdAndEpoch(*_LEADER.unpack_from(data, begin)[:2])
        else:
            offset += 1
    row = PartitionData(
        number, error_code(error), mark, stable, start, records, diverging_epoch=diverging, current_leader=leader,
        aborted_transactions=aborted, preferred_read_replica=preferred,
    )  # fmt: skip
    return row, offset


def read_endpoints(data: bytes, offset: int, *, requested: bool) -> tuple[list[NodeEndpoint], int]:
    """Read the tagged fields of a response. Return the endpoints in them, if `requested`, and the offset after them."""
    endpoints: list[NodeEndpoint] = []
    tags, end = read_tags(data, offset)
    for tag, at, _ in tags if requested else ():
        if tag == 0:
            count, at = read_count(data, at, True)
            for _ in range(count):
                (node_id,) = _I32.unpack_from(data, at)
                host, at = read_string(data, at + 4, True)
                (port,) = _I32.unpack_from(data, at)
                rack, at = read_nullable_string(data, at + 4, True)
                at = skip_tags(data, at)
                endpoints.append(NodeEndpoint(node_id, host, port, rack))
    return endpoints, end
