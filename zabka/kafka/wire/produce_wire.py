"""Hand-written codec of Produce, versions 0 to 11, like `zabka.kafka.wire.fetch_wire` for Fetch."""

from __future__ import annotations

from struct import Struct
from typing import Any

from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.data_messages import (
    NO_WORD_OF_LEADER,
    PRODUCE_FLEXIBLE_FROM,
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
    error_code,
)
from zabka.kafka.wire.fetch_wire import endpoint_tags, read_endpoints
from zabka.kafka.wire.kafka_schema import NO_TIME, as_time, milliseconds, version_of, wall_time
from zabka.kafka.wire.primitives import (
    EMPTY_TAGS,
    length,
    null_length,
    nullable_string,
    read_count,
    read_nullable_string,
    read_records,
    read_string,
    read_tags,
    skip_tags,
    string,
)

_THROTTLE_FROM = 1
_APPEND_TIME_FROM = 2
_TRANSACTIONS_FROM = 3
_START_OFFSET_FROM = 5
_RECORD_ERRORS_FROM = 8
_LEADERS_FROM = 10

_I32 = Struct(">i")
_HEAD = Struct(">hi")
_ROW_V0 = Struct(">ihq")
_ROW_V2 = Struct(">ihqq")
_ROW_V5 = Struct(">ihqqq")
_LEADER = Struct(">iib")
_EPOCH = wall_time(0)


def read_produce_request(data: bytes, offset: int, version: int) -> tuple[ProduceRequest, int]:
    """Decode the Produce request whose body begins at `offset`. Return the request and the offset after it.

    Raises WireError, struct.error and ValueError.
    """
    flexible = version >= PRODUCE_FLEXIBLE_FROM
    view = memoryview(data)
    transactional_id = None
    if version >= _TRANSACTIONS_FROM:
        transactional_id, offset = read_nullable_string(data, offset, flexible)
    acks, timeout_ms = _HEAD.unpack_from(data, offset)
    topics = []
    count, offset = read_count(data, offset + _HEAD.size, flexible)
    for _ in range(count):
        name, offset = read_string(data, offset, flexible)
        rows = []
        row_count, offset = read_count(data, offset, flexible)
        for _ in range(row_count):
            (index,) = _I32.unpack_from(data, offset)
            records, offset = read_records(view, data, offset + 4, flexible)
            if flexible:
                offset = skip_tags(data, offset)
            rows.append(PartitionProduceData(index, records))
        if flexible:
            offset = skip_tags(data, offset)
        topics.append(TopicProduceData(name, rows))
    if flexible:
        offset = skip_tags(data, offset)
    return ProduceRequest(version, acks, as_time(timeout_ms), topics, transactional_id), offset


def pack_produce_request(asked: KafkaMessage) -> list[bytes]:
    """Encode the body of a Produce request as pieces."""
    flexible = version_of(asked) >= PRODUCE_FLEXIBLE_FROM
    tags = EMPTY_TAGS if flexible else b""
    has_transactions = version_of(asked) >= _TRANSACTIONS_FROM
    out = [
        nullable_string(asked.transactional_id, flexible) if has_transactions else b"",
        _HEAD.pack(asked.acks, milliseconds(asked.timeout)),
        length(len(asked.topic_data), flexible),
    ]
    for topic in asked.topic_data:
        out += [string(topic.name, flexible), length(len(topic.partition_data), flexible)]
        for row in topic.partition_data:
            records = row.records
            out.append(_I32.pack(row.index))
            if records is None:
                out.append(null_length(flexible))
            else:
                out += [length(len(records), flexible), records]
            out.append(tags)
        out.append(tags)
    out.append(tags)
    return out


def pack_produce(payload: KafkaMessage) -> list[bytes]:
    """Encode the body of a Produce response."""
    version = version_of(payload)
    flexible = version >= PRODUCE_FLEXIBLE_FROM
    tags = EMPTY_TAGS if flexible else b""
    out = [length(len(payload.responses), flexible)]
    for topic in payload.responses:
        out += [string(topic.name, flexible), length(len(topic.partition_responses), flexible)]
        for row in topic.partition_responses:
            _pack_row(out, row, version)
        out.append(tags)
    if version >= _THROTTLE_FROM:
        out.append(_I32.pack(milliseconds(payload.throttle_time)))
    if flexible:
        out.append(endpoint_tags(payload.node_endpoints if version >= _LEADERS_FROM else ()))
    return out


def _pack_row(out: list[bytes], row: Any, version: int) -> None:
    flexible = version >= PRODUCE_FLEXIBLE_FROM
    if version < _APPEND_TIME_FROM:
        out.append(_ROW_V0.pack(row.index, row.error_code, row.base_offset))
        return
    time = row.log_append_time
    time_ms = -1 if time is None else milliseconds(time - _EPOCH)
    if version >= _START_OFFSET_FROM:
        out.append(_ROW_V5.pack(row.index, row.error_code, row.base_offset, time_ms, row.log_start_offset))
    else:
        out.append(_ROW_V2.pack(row.index, row.error_code, row.base_offset, time_ms))
    if version >= _RECORD_ERRORS_FROM:
        out.append(length(len(row.record_errors), flexible))
        for wrong in row.record_errors:
            out += [_I32.pack(wrong.batch_index), nullable_string(wrong.batch_index_error_message, flexible)]
            if flexible:
                out.append(EMPTY_TAGS)
        out.append(nullable_string(row.error_message, flexible))
    if flexible:
        leader = row.current_leader if version >= _LEADERS_FROM else NO_WORD_OF_LEADER
        if (leader.leader_id, leader.leader_epoch) == (-1, -1):
            out.append(EMPTY_TAGS)
        else:
            out.append(b"\x01\x00\x09" + _LEADER.pack(leader.leader_id, leader.leader_epoch, 0))


def read_produce_response(data: bytes, offset: int, version: int) -> tuple[ProduceResponse, int]:
    """Decode the Produce response whose body begins at `offset`. Return the response and the offset after it.

    Raises WireError, struct.error and ValueError.
    """
    flexible = version >= PRODUCE_FLEXIBLE_FROM
    topics = []
    count, offset = read_count(data, offset, flexible)
    for _ in range(count):
        name, offset = read_string(data, offset, flexible)
        rows = []
        row_count, offset = read_count(data, offset, flexible)
        for _ in range(row_count):
            row, offset = _read_row(data, offset, version)
            rows.append(row)
        if flexible:
            offset = skip_tags(data, offset)
        topics.append(TopicProduceResponse(name, rows))
    throttle = NO_TIME
    if version >= _THROTTLE_FROM:
        throttle = as_time(_I32.unpack_from(data, offset)[0])
        offset += 4
    if not flexible:
        return ProduceResponse(version, topics, throttle), offset
    endpoints, offset = read_endpoints(data, offset, requested=version >= _LEADERS_FROM)
    return ProduceResponse(version, topics, throttle, endpoints), offset


def _read_row(data: bytes, offset: int, version: int) -> tuple[PartitionProduceResponse, int]:
    flexible = version >= PRODUCE_FLEXIBLE_FROM
    start = time_ms = -1
    if version >= _START_OFFSET_FROM:
        index, error, base, time_ms, start = _ROW_V5.unpack_from(data, offset)
        offset += _ROW_V5.size
    elif version >= _APPEND_TIME_FROM:
        index, error, base, time_ms = _ROW_V2.unpack_from(data, offset)
        offset += _ROW_V2.size
    else:
        index, error, base = _ROW_V0.unpack_from(data, offset)
        offset += _ROW_V0.size
    wrong: list[BatchIndexAndErrorMessage] = []
    message = None
    if version >= _RECORD_ERRORS_FROM:
        count, offset = read_count(data, offset, flexible)
        for _ in range(count):
            (batch_index,) = _I32.unpack_from(data, offset)
            text, offset = read_nullable_string(data, offset + 4, flexible)
            if flexible:
                offset = skip_tags(data, offset)
            wrong.append(BatchIndexAndErrorMessage(batch_index, text))
        message, offset = read_nullable_string(data, offset, flexible)
    leader = NO_WORD_OF_LEADER
    if flexible:
        tags, offset = read_tags(data, offset)
        for tag, begin, _ in tags:
            if tag == 0 and version >= _LEADERS_FROM:
                leader = LeaderIdAndEpoch(*_LEADER.unpack_from(data, begin)[:2])
    time = None if time_ms < 0 else wall_time(time_ms)
    row = PartitionProduceResponse(
        index, error_code(error), base, time, start, wrong, error_message=message, current_leader=leader
    )
    return row, offset
