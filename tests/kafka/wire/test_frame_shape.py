"""A message that is shorter than its length fields say is rejected.

It is rejected before memory for it is allocated.
"""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from tests.fuzz.kafka_targets import filled
from zabka.kafka.wire.api_versions import SUPPORTED
from zabka.kafka.wire.frame_shape import check_shape
from zabka.kafka.wire.frames import ResponseEncoder, WireError, decode_request, decode_response, encode_request
from zabka.kafka.wire.kafka_schema import ApiKey, milliseconds, request, request_class, respond, response_class


def versions(key: ApiKey) -> range:
    lowest, highest = SUPPORTED[key]
    return range(lowest, highest + 1)


def encoded(schema: Any) -> bytes:
    buffer = BytesIO()
    entity_writer(schema)(buffer, filled(schema))
    return buffer.getvalue()


@pytest.mark.parametrize("key", SUPPORTED, ids=lambda key: key.name)
def test_frame_shape_check_ends_at_the_same_byte_as_the_decoder(key: ApiKey) -> None:
    for version in versions(key):
        for schema in (request_class(key, version), response_class(key, version)):
            data = encoded(schema)
            _, size = entity_reader(schema)(data, 0)
            assert check_shape(schema, b"\x00\x00" + data, 2) == size + 2 == len(data) + 2
            for short in range(len(data)):
                with pytest.raises(WireError):
                    check_shape(schema, data[:short], 0)


def test_frame_with_an_array_longer_than_itself_is_rejected() -> None:
    with pytest.raises(WireError, match="announces 2147483647 members in 10 bytes"):
        check_shape(request_class(ApiKey.METADATA, 1), struct.pack(">i", 2**31 - 1) + bytes(10), 0)


def test_compact_array_of_billions_does_not_crash_the_process() -> None:
    # With kio's own reader, the process would allocate 200 GB for this message and abort.
    head = struct.pack(">hhih", ApiKey.DELETE_TOPICS, 6, 1, -1) + b"\x00"
    with pytest.raises(WireError, match="announces"):
        decode_request(head + b"\xff\xff\xff\xff\x7f" + bytes(20))


def test_tagged_field_with_a_wrong_length_is_rejected() -> None:
    schema = request_class(ApiKey.FETCH, 12)
    good = encoded(schema)
    assert good.endswith(b"\x00")
    cluster_id = b"\x01\x00\x03\x02x"
    assert check_shape(schema, good[:-1] + cluster_id[:2] + b"\x02\x02x", 0) == len(good) + 4
    with pytest.raises(WireError, match="not its content's"):
        check_shape(schema, good[:-1] + cluster_id + b"y", 0)


def test_null_in_a_non_nullable_field_is_rejected() -> None:
    # kio decodes a null list as None, but Kafka rejects the request.
    head = struct.pack(">hhih", ApiKey.DESCRIBE_CONFIGS, 4, 1, -1) + b"\x00"
    with pytest.raises(WireError, match="null where there must be a value"):
        decode_request(head + b"\x00\x00\x00\x00")
    with pytest.raises(WireError, match="null"):
        check_shape(request_class(ApiKey.METADATA, 0), struct.pack(">i", -1), 0)
    assert check_shape(request_class(ApiKey.METADATA, 1), struct.pack(">i", -1), 0) == 4


def test_compact_string_has_the_size_limit_of_a_classic_string() -> None:
    # The broker stores group ids in classic strings, which have at most 32,767 bytes. A compact string can be longer,
    # so a longer group id must be rejected.
    def heartbeat(name: str) -> bytes:
        return encode_request(1, "c", request(ApiKey.HEARTBEAT, 4, group_id=name, member_id="m"))[4:]

    longest = "g" * 32_767
    assert decode_request(heartbeat(longest)).payload.group_id == longest  # type: ignore[attr-defined]
    with pytest.raises(WireError, match="a string of 32768 bytes"):
        decode_request(heartbeat(longest + "g"))


INVALID_TEXT = "a\u00a7"
"""Text whose second character is encoded in two bytes. Either byte alone is invalid UTF-8."""
UNREADABLE = b"a\xff\xff"
READ = "a\ufffd\ufffd"


@pytest.mark.parametrize(
    ("key", "values"),
    [
        (ApiKey.PRODUCE, {"topic_data": [{"name": INVALID_TEXT, "partition_data": [{"index": 1, "records": b"r"}]}]}),
        (ApiKey.METADATA, {"topics": [{"name": INVALID_TEXT}]}),
        (
            ApiKey.OFFSET_COMMIT,
            {
                "group_id": INVALID_TEXT,
                "topics": [{"name": INVALID_TEXT, "partitions": [{"committed_metadata": INVALID_TEXT}]}],
            },
        ),
        (ApiKey.OFFSET_DELETE, {"group_id": INVALID_TEXT, "topics": [{"name": "t"}, {"name": INVALID_TEXT}]}),
        (ApiKey.DELETE_GROUPS, {"groups_names": ["g", INVALID_TEXT, "h"]}),
        (
            ApiKey.CREATE_TOPICS,
            {"topics": [{"name": INVALID_TEXT, "configs": [{"name": INVALID_TEXT, "value": None}]}], "timeout": 7},
        ),
    ],
    ids=lambda value: value.name if isinstance(value, ApiKey) else "",
)
def test_invalid_utf_8_is_decoded_as_in_java(key: ApiKey, values: dict[str, Any]) -> None:
    for version in versions(key):
        frame = encode_request(1, f"client {INVALID_TEXT}", request(key, version, **values))[4:]
        sent = frame.replace(INVALID_TEXT.encode(), UNREADABLE)
        assert sent != frame
        read = encode_request(1, f"client {READ}", request(key, version, **_with(values)))[4:]
        assert decode_request(sent + b"behind") == decode_request(read)


def _with(value: Any) -> Any:
    """Return the message with the invalid text replaced by what the decoder returns for it."""
    if isinstance(value, dict):
        return {name: _with(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with(each) for each in value]
    return READ if value == INVALID_TEXT else value


def test_string_of_invalid_utf_8_has_the_same_length_limit() -> None:
    # The decoder replaces each invalid byte by a character of three bytes. The name would then be too long to be
    # returned or stored.
    frame = encode_request(1, "c", request(ApiKey.HEARTBEAT, 4, group_id="g" * 20_000, member_id="m"))[4:]
    read = decode_request(frame.replace(b"g" * 5_000, b"\xff" * 5_000, 1)).payload
    assert read.group_id == "\ufffd" * 5_000 + "g" * 15_000  # type: ignore[attr-defined]
    with pytest.raises(WireError, match="no UTF-8"):
        decode_request(frame.replace(b"g", b"\xff"))


def test_any_nonzero_boolean_byte_is_true_as_in_java() -> None:
    for version in range(4, 13):
        message = request(ApiKey.METADATA, version, topics=[], allow_auto_topic_creation=True)
        frame = encode_request(1, "c", message)[4:]
        at = frame.index(b"\x01", 13)
        for truth in (b"\x02", b"\xff"):
            assert decode_request(frame[:at] + truth + frame[at + 1 :]).payload == message


@pytest.mark.parametrize("sent_ms", [-(2**63), -1, 0, 2**62, 2**63 - 1])
def test_duration_too_long_for_kio_is_clamped_to_its_maximum(sent_ms: int) -> None:
    for version in range(2, 5):
        message = request(ApiKey.OFFSET_COMMIT, version, group_id="g", retention_time=77)
        frame = encode_request(1, "c", message)[4:]
        sent = frame.replace(struct.pack(">q", 77), struct.pack(">q", sent_ms))
        read_ms = milliseconds(decode_request(sent).payload.retention_time)  # type: ignore[attr-defined]
        assert read_ms == (sent_ms if abs(sent_ms) < 2**31 else (1 if sent_ms > 0 else -1) * (2**63 // 1000))


UNKNOWN_FIELDS = b"\x02\x63\x03abc\x62\x00"
"""Two unknown tagged fields, one with three bytes and one empty. The one with the higher tag comes first."""


@pytest.mark.parametrize("key", SUPPORTED, ids=lambda key: key.name)
def test_unknown_tagged_fields_are_skipped(key: ApiKey) -> None:
    # KIP-482: a newer client or broker can send such fields in all flexible versions.
    for version in versions(key):
        schema = request_class(key, version)
        if not schema.__flexible__:
            continue
        message = filled(schema)
        frame = encode_request(1, "c", message)[4:]
        assert frame.endswith(b"\x00"), "the request has no tagged field of its own"
        assert decode_request(frame[:-1] + UNKNOWN_FIELDS + b"behind") == decode_request(frame)
        if key is not ApiKey.API_VERSIONS:
            answer = ResponseEncoder().encode(1, filled(response_class(key, version)))[4:]
            assert answer.endswith(b"\x00"), "nor has the answer"
            assert decode_response(answer[:-1] + UNKNOWN_FIELDS, message) == decode_response(answer, message)


def test_known_tagged_fields_are_read_among_unknown_ones() -> None:
    message = request(ApiKey.API_VERSIONS, 3)
    answer = respond(message, finalized_features_epoch=7)
    frame = ResponseEncoder().encode(1, answer)[4:]
    known = b"\x01\x08" + struct.pack(">q", 7)
    assert frame.endswith(known)
    more = frame.removesuffix(known)
    assert more.endswith(b"\x01"), "one tagged field"
    assert decode_response(more[:-1] + b"\x03\x63\x03abc" + known + b"\x62\x00", message) == answer
