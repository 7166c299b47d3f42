"""Error responses of request faults, for each API and version.

An error applies to the whole request or to a part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from zabka.kafka.record_batch import Record, build_batch, checksum_holds, read_header
from zabka.kafka.request_faults.answers import (
    FetchedRow,
    corrupt,
    corrupt_fetched,
    corrupt_produced,
    merge,
    refuse,
    refuse_fetched,
    refuse_metadata,
    split,
    throttled,
)
from zabka.kafka.request_faults.api_errors import ERRORS
from zabka.kafka.request_faults.rules import throttle_since
from zabka.kafka.wire.api_versions import SUPPORTED
from zabka.kafka.wire.data_messages import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from zabka.kafka.wire.frames import ResponseEncoder, decode_response
from zabka.kafka.wire.kafka_schema import ApiKey, milliseconds, request, respond
from zabka.kafka.wire.metadata_messages import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

TOPICS: list[dict[str, Any]] = [
    {"name": name, "topic": name, "partitions": [{"partition_index": n, "partition": n} for n in (0, 1)]}
    for name in ("orders", "payments")
]
NAMES = [{"name": "orders"}, {"name": "payments"}]
COMMON = {"group_id": "g", "member_id": "m-1", "transactional_id": "tx"}
VALUES: dict[ApiKey, dict[str, Any]] = {
    ApiKey.LIST_OFFSETS: {"topics": TOPICS},
    ApiKey.OFFSET_COMMIT: {"topics": TOPICS},
    ApiKey.TXN_OFFSET_COMMIT: {"topics": TOPICS},
    ApiKey.DELETE_RECORDS: {"topics": TOPICS},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {"topics": TOPICS},
    ApiKey.ADD_PARTITIONS_TO_TXN: {
        "v3_and_below_topics": [{"name": "orders", "partitions": [0, 1]}, {"name": "payments", "partitions": [0]}]
    },
    ApiKey.OFFSET_FETCH: {
        "topics": [{"name": "orders", "partition_indexes": [0, 1]}],
        "groups": [{"group_id": "g", "topics": []}],
    },
    ApiKey.FIND_COORDINATOR: {"key": "g", "coordinator_keys": ["g", "h"]},
    ApiKey.DESCRIBE_GROUPS: {"groups": ["g", "h"]},
    ApiKey.DELETE_GROUPS: {"groups_names": ["g", "h"]},
    ApiKey.CREATE_TOPICS: {"topics": NAMES},
    ApiKey.CREATE_PARTITIONS: {"topics": NAMES},
    ApiKey.DELETE_TOPICS: {"topics": NAMES, "topic_names": ["orders", "payments"]},
}
VERSIONS = [
    pytest.param(api, version, id=f"{api.name}-{version}")
    for api in ERRORS
    if api not in (ApiKey.FETCH, ApiKey.METADATA)
    for version in range(SUPPORTED[api][0], SUPPORTED[api][1] + 1)
]
BATCH = build_batch([Record(None, b"v")])


def sample(api: ApiKey, version: int) -> Any:
    if api is ApiKey.PRODUCE:
        rows = [PartitionProduceData(n, BATCH) for n in (0, 1)]
        return ProduceRequest(version, -1, 0, [TopicProduceData(name, rows) for name in ("orders", "payments")])
    return request(api, version, **COMMON, **VALUES.get(api, {}))


def errors_in(message: Any) -> Iterator[ErrorCode]:
    """Yield all error codes in a message."""
    if isinstance(message, ErrorCode):
        yield message
    elif isinstance(message, list | tuple):
        for row in message:
            yield from errors_in(row)
    elif is_dataclass(message):
        for field in fields(message):
            yield from errors_in(getattr(message, field.name))
    elif hasattr(message, "__struct_fields__"):
        for name in message.__struct_fields__:
            yield from errors_in(getattr(message, name))


def through_the_wire(response: Any, to: Any) -> Any:
    return decode_response(ResponseEncoder().encode(7, response)[4:], to)


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_response_to_a_rejected_request_has_error_per_partition(api: ApiKey, version: int) -> None:
    asked = sample(api, version)
    part = split(asked, lambda row, partition: True)
    assert part.rest is None
    read = through_the_wire(refuse(part, ErrorCode.not_coordinator), asked)
    errors = list(errors_in(read))
    wanted = [error for error in errors if error is not ErrorCode.none]
    assert wanted and set(wanted) == {ErrorCode.not_coordinator}
    if part.rows is not None:
        rows = getattr(read, part.rows.answered)
        assert len(rows) == len(getattr(asked, part.rows.asked))
        assert all(set(errors_in(row)) == {ErrorCode.not_coordinator} for row in rows)


def test_request_is_split_into_rejected_and_served_partitions() -> None:
    asked = sample(ApiKey.OFFSET_COMMIT, 8)
    part = split(asked, lambda row, partition: row.name == "orders" and partition == 1)
    assert [(row.name, [p.partition_index for p in row.partitions]) for row in part.selected.topics] == [
        ("orders", [1])
    ]
    assert part.rest is not None and part.rows is not None
    assert [(row.name, [p.partition_index for p in row.partitions]) for row in part.rest.topics] == [
        ("orders", [0]),
        ("payments", [0, 1]),
    ]
    served = respond(
        part.rest,
        topics=[
            {"name": row.name, "partitions": [{"partition_index": p.partition_index} for p in row.partitions]}
            for row in part.rest.topics
        ],
    )
    merged = through_the_wire(merge(served, refuse(part, ErrorCode.not_coordinator), part.rows), asked)
    assert [(row.name, [(p.partition_index, p.error_code.name) for p in row.partitions]) for row in merged.topics] == [
        ("orders", [(0, "none"), (1, "not_coordinator")]),
        ("payments", [(0, "none"), (1, "none")]),
    ]


def test_response_to_a_rejected_produce_has_no_offset() -> None:
    asked = sample(ApiKey.PRODUCE, 9)
    part = split(asked, lambda row, partition: row.name == "payments" and partition == 0)
    read = through_the_wire(refuse(part, ErrorCode.not_leader_or_follower), asked)
    (topic,) = read.responses
    (row,) = topic.partition_responses
    assert (topic.name, row.index, row.error_code, row.base_offset) == (
        "payments", 0, ErrorCode.not_leader_or_follower, -1,
    )  # fmt: skip


# ---- responses that a fault changes -----------------------------------------------------------------------------

TOPIC_ID = UUID(int=5)


@pytest.mark.parametrize(("version", "topic", "topic_id"), [(12, "orders", None), (13, "", TOPIC_ID)])
def test_error_fault_replaces_fetched_partitions_and_adds_others(
    version: int, topic: str, topic_id: UUID | None
) -> None:
    rows = [PartitionData(n, ErrorCode.none, 5, 5, 0, BATCH) for n in (0, 1)]
    answer = FetchResponse(version, [FetchableTopicResponse(rows, topic, topic_id)], session_id=9)
    selected = [FetchedRow(topic, topic_id, n) for n in (1, 2)]
    read = through_the_wire(
        refuse_fetched(answer, selected, ErrorCode.not_leader_or_follower), request(ApiKey.FETCH, version)
    )
    assert read.session_id == 9
    assert [
        (row.partition_index, row.error_code.name, bytes(row.records or b"")) for row in read.responses[0].partitions
    ] == [
        (0, "none", BATCH),
        (1, "not_leader_or_follower", b""),
        (2, "not_leader_or_follower", b""),
    ]


def metadata() -> MetadataResponse:
    rows = [MetadataResponsePartition(ErrorCode.none, n, 1, 0, (1,), (1,), ()) for n in (0, 1)]
    topics = [MetadataResponseTopic(ErrorCode.none, name, TOPIC_ID, False, rows) for name in ("orders", "payments")]
    return MetadataResponse(9, (), "c", 1, topics)


def test_rejected_metadata_request_returns_the_error_per_topic() -> None:
    changed = refuse_metadata(metadata(), lambda name, _: name == "orders", -1, ErrorCode.leader_not_available)
    read = through_the_wire(changed, request(ApiKey.METADATA, 9))
    assert [(topic.error_code.name, len(topic.partitions)) for topic in read.topics] == [
        ("leader_not_available", 0),
        ("none", 2),
    ]


def test_injected_metadata_error_is_set_per_partition() -> None:
    changed = refuse_metadata(metadata(), lambda name, _: name == "orders", 1, ErrorCode.leader_not_available)
    read = through_the_wire(changed, request(ApiKey.METADATA, 9))
    assert [(row.error_code.name, row.leader_id) for row in read.topics[0].partitions] == [
        ("none", 1),
        ("leader_not_available", -1),
    ]


@pytest.mark.parametrize("api", [ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.HEARTBEAT])
def test_response_with_a_throttle_fault_has_its_throttle_time(api: ApiKey) -> None:
    since = throttle_since(api)
    assert since is not None
    asked = request(api, since, topics=[]) if api is ApiKey.METADATA else sample(api, since)
    answer = metadata() if api is ApiKey.METADATA else respond(asked)
    assert milliseconds(throttled(answer, 250).throttle_time) == 250


def test_corrupted_records_fail_their_checksum() -> None:
    damaged = corrupt(BATCH)
    header = read_header(damaged)
    assert header is not None and not checksum_holds(damaged, 0, header)
    assert corrupt(b"short") == b"short"


def test_corrupt_produce_fault_damages_only_selected_batches() -> None:
    changed = corrupt_produced(sample(ApiKey.PRODUCE, 9), lambda row, n: row.name == "orders" and n == 1)
    assert [row.records == BATCH for topic in changed.topic_data for row in topic.partition_data] == [
        True, False, True, True,
    ]  # fmt: skip


def test_corrupt_fetch_fault_changes_only_responses_with_data() -> None:
    rows = [PartitionData(0, ErrorCode.none, 5, 5, 0, BATCH), PartitionData(1, ErrorCode.none, 5, 5, 0, b"")]
    answer = FetchResponse(12, [FetchableTopicResponse(rows, "orders")])
    assert corrupt_fetched(answer, [FetchedRow("orders", None, 1)]) is None
    changed = corrupt_fetched(answer, [FetchedRow("orders", None, 0)])
    assert changed is not None and changed.responses[0].partitions[0].records == corrupt(BATCH)
