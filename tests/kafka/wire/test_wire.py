from __future__ import annotations

import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from tests.kafka.kio_twin import drawn, kio_bytes, same
from zabka.kafka.wire.api_versions import SUPPORTED, answer, answer_unknown_version, is_supported
from zabka.kafka.wire.fetch_wire import pack_fetch
from zabka.kafka.wire.frame_reader import FRAME_SIZE
from zabka.kafka.wire.frames import (
    SHORT_ROWS,
    SLICE_BYTES,
    ResponseEncoder,
    UnsupportedVersion,
    decode_request,
    decode_response,
    encode_request,
    response_correlation_id,
    takes_long,
)
from zabka.kafka.wire.kafka_schema import (
    ApiKey,
    fill,
    last_rows,
    request,
    request_class,
    respond,
    response_class,
)
from zabka.kafka.wire.primitives import WireError

ROOT = Path(__file__).resolve().parents[3]
SERVED = [(key, version) for key, (low, high) in SUPPORTED.items() for version in range(low, high + 1)]


def body(frame: bytes) -> bytes:
    (size,) = FRAME_SIZE.unpack_from(frame)
    assert size == len(frame) - 4
    return frame[4:]


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_supported_requests_and_responses_survive_a_round_trip(key: ApiKey, version: int) -> None:
    sent = fill(request_class(key, version), {})
    got = decode_request(body(encode_request(7, "client", sent)))
    assert (got.correlation_id, got.client_id) == (7, "client")
    assert same(got.payload, sent)
    response = fill(response_class(key, version), {})
    frame = body(ResponseEncoder().encode(7, response))
    assert response_correlation_id(frame) == 7
    assert same(decode_response(frame, sent), response)


FETCHED = st.fixed_dictionaries(
    {
        "partition_index": st.integers(0, 9),
        "error_code": st.sampled_from([ErrorCode.none, ErrorCode.offset_out_of_range]),
        "high_watermark": st.integers(-1, 2**40),
        "last_stable_offset": st.integers(-1, 2**40),
        "log_start_offset": st.integers(-1, 2**40),
        "records": st.none() | st.binary(max_size=300),
        "aborted_transactions": st.none() | st.just([{"producer_id": 3, "first_offset": 4}]),
    },
    optional={
        "diverging_epoch": st.fixed_dictionaries({"epoch": st.integers(-1, 9), "end_offset": st.integers(-1, 9)}),
        "current_leader": st.fixed_dictionaries({"leader_id": st.integers(-1, 9), "leader_epoch": st.integers(-1, 9)}),
    },
)


@pytest.mark.parametrize("version", range(4, 13))
@settings(max_examples=15, deadline=None)
@given(
    topics=st.lists(
        st.fixed_dictionaries({"topic": st.text("aé.", max_size=130), "partitions": st.lists(FETCHED, max_size=3)}),
        max_size=3,
    ),
    throttle=st.integers(0, 10_000),
)
def test_our_codec_encodes_fetch_responses_as_kio_does(version: int, topics: Any, throttle: int) -> None:
    values = {"throttle_time": throttle, "session_id": 5, "error_code": 0, "responses": topics}
    payload = fill(response_class(ApiKey.FETCH, version), values)
    assert b"".join(pack_fetch(payload)) == kio_bytes(payload)


def ends_with_rows(key: ApiKey, version: int) -> bool:
    return last_rows(response_class(key, version)) is not None and key not in (ApiKey.PRODUCE, ApiKey.FETCH)


@pytest.mark.parametrize(("key", "version"), [each for each in SERVED if ends_with_rows(*each)])
def test_response_encoded_in_slices_equals_kios_encoding(key: ApiKey, version: int) -> None:
    random, schema = Random(f"{key} {version}"), response_class(key, version)
    last = last_rows(schema)
    assert last is not None
    rows = tuple(drawn(last.schema, random) for _ in range(60))
    answer = replace(drawn(schema, random), **{last.field: rows})
    work, encoder = ResponseEncoder().encode_in_slices(7, answer), ResponseEncoder()
    turns = 0
    while True:
        try:
            next(work)
        except StopIteration as ended:
            assert b"".join(ended.value) == encoder.encode(7, answer)
            break
        turns += 1
    assert takes_long(answer)
    assert turns == 0 or turns >= len(encoder.encode(7, answer)) // (2 * SLICE_BYTES)


def test_encoding_of_a_long_response_yields_after_each_slice() -> None:
    rows = [{"resource_name": "x" * 1_000} for _ in range(100)]
    answer = respond(request(ApiKey.DESCRIBE_CONFIGS, 4), results=rows)
    assert sum(1 for _ in ResponseEncoder().encode_in_slices(1, answer)) == 100 // -(-SLICE_BYTES // 1_012)


def test_short_response_is_encoded_in_one_step() -> None:
    asked = request(ApiKey.DESCRIBE_CONFIGS, 4)
    assert not takes_long(respond(asked, results=[{}] * SHORT_ROWS))
    assert takes_long(respond(asked, results=[{}] * (SHORT_ROWS + 1)))


def test_metadata_response_is_encoded_once_and_cached() -> None:
    encoder = ResponseEncoder()
    asked = request(ApiKey.METADATA, 12)
    payload = respond(asked, brokers=[{"node_id": 1, "host": "h", "port": 9}], topics=[{"name": "t"}])
    first, second = encoder.encode(1, payload), encoder.encode(2, payload)
    assert first[8:] == second[8:]
    assert decode_response(body(first), asked) == payload
    assert encoder._metadata(payload) is encoder._metadata(payload)


def test_cache_of_encoded_metadata_is_limited() -> None:
    encoder = ResponseEncoder()
    for number in range(200):
        encoder.encode(1, respond(request(ApiKey.METADATA, 5), controller_id=number))
    assert len(encoder._remembered) <= 64


@pytest.mark.parametrize("frame", [b"", b"\x00", struct.pack(">hhi", 3, 12, 1), struct.pack(">hhih", 3, 12, 1, 500)])
def test_truncated_request_header_raises_a_wire_error(frame: bytes) -> None:
    with pytest.raises(WireError):
        decode_request(frame)


@pytest.mark.parametrize(("key", "version"), [(999, 0), (ApiKey.METADATA, 13), (ApiKey.PRODUCE, 12), (-5, 3), (18, 99)])
def test_unsupported_and_malformed_requests_are_distinguished(key: int, version: int) -> None:
    with pytest.raises(UnsupportedVersion) as refused:
        decode_request(struct.pack(">hhih", key, version, 31, -1) + b"anything")
    assert refused.value.correlation_id == 31
    assert not is_supported(key, version)


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_random_bytes_after_a_header_decode_or_raise_wire_error(key: ApiKey, version: int) -> None:
    random = Random(key * 100 + version)
    for _ in range(40):
        frame = struct.pack(">hhih", key, version, 1, -1) + random.randbytes(random.randrange(60))
        try:
            decode_request(frame)
        except WireError:
            continue


READ_IN_LITTLE_MEMORY = """
import resource, struct
from contextlib import suppress
from zabka.kafka.wire.frames import decode_request, decode_response
from zabka.kafka.wire.kafka_schema import request
from zabka.kafka.wire.primitives import WireError
from tests.kafka.wire.test_wire import SERVED

resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
for key, version in SERVED:
    for filler in (b"\\x7f\\xff\\xff\\xff" * 16, b"\\xff" * 4 + b"\\x0f", b"\\0" + b"\\xff" * 4 + b"\\x0f"):
        # Some of these inputs can be decoded, because bytes after a complete request are ignored.
        with suppress(WireError):
            decode_request(struct.pack(">hhih", key, version, 1, -1) + filler)
        with suppress(WireError):
            decode_response(struct.pack(">i", 1) + filler, request(key, version))
print("read")
"""


def test_array_of_billions_of_elements_reserves_no_memory() -> None:
    """An array that claims to have billions of elements allocates no memory.

    kio's reader would allocate 16 GB and abort, because this is more than the process may have.
    """
    done = subprocess.run(
        [sys.executable, "-c", READ_IN_LITTLE_MEMORY], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.stdout == "read\n", done.stderr


def test_bytes_after_a_request_are_ignored_as_in_kafka() -> None:
    asked = request(ApiKey.LIST_OFFSETS, 7)
    assert decode_request(body(encode_request(1, "c", asked)) + b"\x00").payload == asked


def test_librdkafkas_metadata_request_for_all_topics_is_decoded() -> None:
    """Metadata version 12 is decoded in the form that librdkafka sends for all topics.

    librdkafka encodes the null list in four bytes instead of one.
    """
    frame = bytes.fromhex("0003000c00000003000772646b61666b610000000000010000")
    assert decode_request(frame).payload.topics is None


@pytest.mark.parametrize("version", range(5))
def test_api_versions_lists_exactly_the_supported_versions(version: int) -> None:
    listed = answer(request(ApiKey.API_VERSIONS, version))
    assert {row.api_key: (row.min_version, row.max_version) for row in listed.api_keys} == SUPPORTED


def test_unsupported_api_versions_request_gets_a_v0_response() -> None:
    refused = answer_unknown_version()
    assert type(refused) is response_class(ApiKey.API_VERSIONS, 0)
    assert refused.error_code is ErrorCode.unsupported_version
    assert [(row.api_key, row.min_version, row.max_version) for row in refused.api_keys] == [(18, 0, 4)]


def test_api_versions_response_has_header_v0_in_every_version() -> None:
    for version in range(5):
        asked = request(ApiKey.API_VERSIONS, version)
        frame = body(ResponseEncoder().encode(9, answer(asked)))
        assert frame[4:6] == b"\x00\x00"  # The error code directly follows the correlation id.
        assert decode_response(frame, asked) == answer(asked)
