"""Responses with an error in the rows (topics, partitions, groups) of a request that a rule selects.

A request is split: the selected rows get the error and are not executed; the other rows are executed. Fetch and
Metadata requests are first executed as a whole, and then the error replaces the selected rows, so that fetch sessions
remain correct.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as replace_entity
from typing import Any, NamedTuple

import msgspec
from kio.schema.errors import ErrorCode

from zabka.kafka.ports import KafkaMessage
from zabka.kafka.request_faults.subjects import index_of
from zabka.kafka.wire.data_messages import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of, as_time, respond, version_of
from zabka.kafka.wire.metadata_messages import MetadataResponse, MetadataResponseTopic

Selects = Callable[[Any, int | None], bool]
"""Function that returns whether a rule selects a row of a request, or the partition with that number in it."""


class Rows(NamedTuple):
    """Names of the fields that contain the rows of a request and of its response.

    `asked` is the field in the request, `answered` the field in the response. `key` is the field of a response row that
    contains the row's name. A request row has a field of the same name, or is itself the name.
    """

    asked: str
    answered: str
    key: str
    inner: Rows | None = None


_TOPICS = Rows("topics", "topics", "name", Rows("partitions", "partitions", "partition_index"))
_OFFSETS = Rows("topics", "topics", "name", Rows("partition_indexes", "partitions", "partition_index"))
_OF_OFFSETS = frozenset({ErrorCode.unstable_offset_commit, ErrorCode.topic_authorization_failed})
"""Errors in an OffsetFetch response that belong to single partitions.

Every other error belongs to the whole group (KafkaApis).
"""
_ROWS: dict[ApiKey, tuple[Rows, ...]] = {
    ApiKey.PRODUCE: (
        Rows("topic_data", "responses", "name", Rows("partition_data", "partition_responses", "index")),
    ),
    ApiKey.LIST_OFFSETS: (_TOPICS,),
    ApiKey.OFFSET_COMMIT: (_TOPICS,),
    ApiKey.TXN_OFFSET_COMMIT: (_TOPICS,),
    ApiKey.DELETE_RECORDS: (_TOPICS,),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        Rows("topics", "topics", "topic", Rows("partitions", "partitions", "partition")),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        Rows("v3_and_below_topics", "results_by_topic_v3_and_below", "name",
             Rows("partitions", "results_by_partition", "partition_index")),
    ),
    ApiKey.OFFSET_FETCH: (
        Rows("groups", "groups", "group_id"),
        _OFFSETS,
    ),
    ApiKey.FIND_COORDINATOR: (Rows("coordinator_keys", "coordinators", "key"),),
    ApiKey.DESCRIBE_GROUPS: (Rows("groups", "groups", "group_id"),),
    ApiKey.DELETE_GROUPS: (Rows("groups_names", "results", "group_id"),),
    ApiKey.CREATE_TOPICS: (Rows("topics", "topics", "name"),),
    ApiKey.CREATE_PARTITIONS: (Rows("topics", "results", "name"),),
    ApiKey.DELETE_TOPICS: (Rows("topics", "responses", "name"), Rows("topic_names", "responses", "name")),
}  # fmt: skip
"""The fields with rows, for each API. If a version has none of these fields, its response has a single error."""
_ERROR_FIELDS = ("error_code", "partition_error_code")
_NONE: Mapping[str, Any] = {
    "generation_id": -1, "base_offset": -1, "offset": -1, "timestamp": -1, "leader_epoch": -1, "end_offset": -1,
    "committed_offset": -1, "low_watermark": -1, "node_id": -1, "port": -1, "producer_id": -1, "producer_epoch": -1,
}  # fmt: skip
"""Values of the fields in an error response other than the error code and the names of the row."""
_CRC_AT, _CRC_OF_OLD_AT, _MAGIC_AT = 17, 12, 16


class Split(NamedTuple):
    """A request split into the selected part and the rest, and the fields by which it was split.

    A part without rows is None.
    """

    selected: KafkaMessage
    rest: KafkaMessage | None
    rows: Rows | None


def split(request: KafkaMessage, selects: Selects) -> Split:
    """Split a request into the rows that a rule selects, and the other rows."""
    rows = next((rows for rows in _ROWS.get(_api(request), ()) if getattr(request, rows.asked, None)), None)
    if rows is None:
        return Split(request, None, None)
    taken, left = _split_rows(getattr(request, rows.asked), rows, selects)
    rest = _with(request, **{rows.asked: left}) if left else None
    return Split(_with(request, **{rows.asked: taken}), rest, rows)


def _split_rows(asked: Sequence[Any], rows: Rows, selects: Selects) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    taken: list[Any] = []
    left: list[Any] = []
    for row in asked:
        if rows.inner is None:
            (taken if selects(row, None) else left).append(row)
            continue
        partitions = getattr(row, rows.inner.asked)
        selected = tuple(each for each in partitions if selects(row, index_of(each)))
        others = tuple(each for each in partitions if not selects(row, index_of(each)))
        taken += [_with(row, **{rows.inner.asked: selected})] if selected else []
        left += [_with(row, **{rows.inner.asked: others})] if others or not partitions else []
    return tuple(taken), tuple(left)


def refuse(part: Split, error: ErrorCode) -> KafkaMessage:
    """Return the response to the selected part of a request, with the error in each of its rows."""
    request, rows = part.selected, part.rows
    if rows is None:
        kept = {name: getattr(request, name) for name in ("member_id", "group_instance_id") if hasattr(request, name)}
        return respond(request, **{**_NONE, **kept, "error_code": error})
    if _api(request) is ApiKey.PRODUCE:
        return _refuse_produce(request, error)
    of_partitions = rows.asked == "groups" and error in _OF_OFFSETS
    refuse_row = _refuse_offsets if of_partitions else _refuse_row
    answers = [refuse_row(row, rows, error) for row in getattr(request, rows.asked)]
    return respond(request, **{rows.answered: answers})


def _refuse_row(row: Any, rows: Rows, error: ErrorCode) -> dict[str, Any]:
    named = {rows.key: getattr(row, rows.key, row)}
    if rows.inner is None:
        return {**_NONE, **named, **dict.fromkeys(_ERROR_FIELDS, error)}
    inner = rows.inner
    partitions = [
        {**_NONE, inner.key: index_of(each), **dict.fromkeys(_ERROR_FIELDS, error)}
        for each in getattr(row, inner.asked)
    ]
    return {**named, inner.answered: partitions}


def _refuse_offsets(group: Any, rows: Rows, error: ErrorCode) -> dict[str, Any]:
    topics = [_refuse_row(topic, _OFFSETS, error) for topic in group.topics or ()]
    return {rows.key: group.group_id, _OFFSETS.answered: topics}


def _refuse_produce(request: KafkaMessage, error: ErrorCode) -> KafkaMessage:
    topics = [
        TopicProduceResponse(
            topic.name, [PartitionProduceResponse(row.index, error, -1) for row in topic.partition_data]
        )
        for topic in request.topic_data
    ]
    return ProduceResponse(version_of(request), topics)


def merge(served: KafkaMessage, refused: KafkaMessage, rows: Rows) -> KafkaMessage:
    """Add the error rows of `refused` to `served`, the response to the rest of the request."""
    merged = {getattr(row, rows.key): row for row in getattr(served, rows.answered)}
    for row in getattr(refused, rows.answered):
        name = getattr(row, rows.key)
        known = merged.get(name)
        if known is not None and rows.inner is not None:
            both = (*getattr(known, rows.inner.answered), *getattr(row, rows.inner.answered))
            row = _with(known, **{rows.inner.answered: both})
        merged[name] = row
    return _with(served, **{rows.answered: tuple(merged.values())})


# ---- answers that are changed -----------------------------------------------------------------------------------


class FetchedRow(NamedTuple):
    """A partition of a Fetch request. Its topic is identified as in the response, by name or by id."""

    topic: str
    topic_id: Any
    partition: int


def refuse_fetched(response: FetchResponse, selected: Sequence[FetchedRow], error: ErrorCode) -> FetchResponse:
    """Return a Fetch response with the error in the selected rows. Rows that the response lacks are added."""
    rows: dict[tuple[str, Any], dict[int, PartitionData]] = {}
    for topic in response.responses:
        rows[topic.topic, topic.topic_id] = {int(row.partition_index): row for row in topic.partitions}
    for each in selected:
        refused = PartitionData(each.partition, error, -1, -1, -1, b"")
        rows.setdefault((each.topic, each.topic_id), {})[each.partition] = refused
    topics = [
        FetchableTopicResponse(list(partitions.values()), name, topic_id)
        for (name, topic_id), partitions in rows.items()
    ]
    return msgspec.structs.replace(response, responses=topics)


def refuse_metadata(
    response: MetadataResponse, selects: Callable[[str, int | None], bool], partition: int, error: ErrorCode
) -> MetadataResponse:
    """Return a Metadata response with the error in the selected topics.

    With a `partition`, the error is in that partition of each selected topic; -1 means the whole topic.
    """
    topics = []
    for topic in response.topics:
        if selects(topic.name or "", None):
            topic = _refuse_topic(topic, partition, error)
        topics.append(topic)
    return msgspec.structs.replace(response, topics=topics)


def _refuse_topic(topic: MetadataResponseTopic, partition: int, error: ErrorCode) -> MetadataResponseTopic:
    if partition < 0:
        return msgspec.structs.replace(topic, error_code=error, partitions=())
    rows = [
        msgspec.structs.replace(row, error_code=error, leader_id=-1, layout=-1, packed=b"")
        if row.partition_index == partition
        else row
        for row in topic.partitions
    ]
    return msgspec.structs.replace(topic, partitions=rows)


def throttled(response: KafkaMessage, throttle_ms: int) -> KafkaMessage:
    """Return the response with this throttle time."""
    return _with(response, throttle_time=as_time(throttle_ms))


def corrupt(records: bytes) -> bytes:
    """Return records in which the CRC of the first batch is wrong; unchanged if the header is incomplete."""
    damaged = bytearray(records)
    if len(damaged) <= _CRC_AT + 4:
        return bytes(records)
    damaged[_CRC_AT if damaged[_MAGIC_AT] >= 2 else _CRC_OF_OLD_AT] ^= 0xFF
    return bytes(damaged)


def corrupt_produced(request: KafkaMessage, selects: Selects) -> KafkaMessage:
    """Return a Produce request in which the CRC of the selected batches is wrong, as after damage in transit."""
    topics = [
        _with(
            topic,
            partition_data=[
                _with(row, records=corrupt(row.records)) if row.records and selects(topic, index_of(row)) else row
                for row in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    return _with(request, topic_data=topics)


def corrupt_fetched(response: FetchResponse, selected: Sequence[FetchedRow]) -> FetchResponse | None:
    """Return a Fetch response in which the CRC of the selected batches is wrong, or None if it has no such batch."""
    wanted = {(each.topic, each.topic_id, each.partition) for each in selected}
    found = False
    topics = []
    for topic in response.responses:
        rows = []
        for row in topic.partitions:
            if row.records and (topic.topic, topic.topic_id, int(row.partition_index)) in wanted:
                row, found = msgspec.structs.replace(row, records=corrupt(bytes(row.records))), True
            rows.append(row)
        topics.append(msgspec.structs.replace(topic, partitions=rows))
    return msgspec.structs.replace(response, responses=topics) if found else None


def _api(message: KafkaMessage) -> ApiKey:
    return ApiKey(api_key_of(message))


def _with(message: Any, **values: Any) -> Any:
    if isinstance(message, msgspec.Struct):
        return msgspec.structs.replace(message, **values)
    return replace_entity(message, **values)
