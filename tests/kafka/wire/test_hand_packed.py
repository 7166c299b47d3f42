from __future__ import annotations

import struct
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.kafka.kio_twin import drawn, kio_bytes, kio_read, same
from zabka.kafka.wire.api_versions import SUPPORTED
from zabka.kafka.wire.control_wire import (
    LEADER_AND_ISR_VERSION,
    UPDATE_METADATA_VERSION,
    pack_leader_and_isr,
    pack_update_metadata,
)
from zabka.kafka.wire.fetch_wire import pack_fetch, pack_fetch_request, read_fetch_request, read_fetch_response
from zabka.kafka.wire.frame_reader import FRAME_SIZE, FrameReader, FrameTooLarge
from zabka.kafka.wire.frames import decode_request, encode_request
from zabka.kafka.wire.kafka_schema import ApiKey, request, request_class, respond, response_class
from zabka.kafka.wire.metadata_messages import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    pack_metadata,
    pack_rows_in_slices,
)
from zabka.kafka.wire.primitives import WireError
from zabka.kafka.wire.produce_wire import (
    pack_produce,
    pack_produce_request,
    read_produce_request,
    read_produce_response,
)

CODECS = {
    (ApiKey.FETCH, "request"): (request_class, read_fetch_request, pack_fetch_request),
    (ApiKey.FETCH, "response"): (response_class, read_fetch_response, pack_fetch),
    (ApiKey.PRODUCE, "request"): (request_class, read_produce_request, pack_produce_request),
    (ApiKey.PRODUCE, "response"): (response_class, read_produce_response, pack_produce),
}
SERVED = [(key, kind, version) for key, kind in CODECS for version in range(SUPPORTED[key][0], SUPPORTED[key][1] + 1)]
DRAWS = 8


@pytest.mark.parametrize(("key", "kind", "version"), SERVED)
def test_our_codec_packs_messages_as_kio_does(key: ApiKey, kind: str, version: int) -> None:
    schema_of, read, pack = CODECS[key, kind]
    random = Random(version)
    for _ in range(DRAWS):
        message = drawn(schema_of(key, version), random)
        data = kio_bytes(message)
        ours, end = read(data, 0, version)
        assert end == len(data)
        assert same(ours, message)
        assert b"".join(pack(message)) == data
        assert b"".join(pack(ours)) == data


@pytest.mark.parametrize(("key", "kind", "version"), SERVED)
def test_damaged_message_is_rejected_or_decoded_as_kio_does(key: ApiKey, kind: str, version: int) -> None:
    schema_of, read, _ = CODECS[key, kind]
    schema = schema_of(key, version)
    random = Random(version)
    for _ in range(3 * DRAWS):
        data = bytearray(kio_bytes(drawn(schema, random)))
        for _ in range(random.choice((1, 1, 3))):
            data[random.randrange(len(data))] = random.choice((0, 1, 127, 128, 255))
        if random.random() < 0.3:
            del data[random.randrange(len(data)) :]
        try:
            ours, end = read(bytes(data), 0, version)
        except Exception:
            # Our frame reader raises a WireError for every failure. kio may accept other bytes.
            continue
        if end == len(data):
            try:
                message = kio_read(schema, bytes(data))
            except Exception:
                continue
            assert same(ours, message)


@pytest.mark.parametrize("version", [3, 9])
def test_decoded_produce_records_are_a_view_of_the_frame(version: int) -> None:
    rows = [{"name": "t", "partition_data": [{"index": 0, "records": b"r" * 500}]}]
    asked = request(ApiKey.PRODUCE, version, acks=1, timeout=1, topic_data=rows)
    frame = encode_request(1, "c", asked)[FRAME_SIZE.size :]
    records = decode_request(frame).payload.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame


def test_fetch_response_does_not_copy_its_records() -> None:
    records = b"r" * 500
    row = {"partition_index": 0, "records": records}
    answer = respond(request(ApiKey.FETCH, 12), responses=[{"topic": "t", "partitions": [row]}])
    assert any(piece is records for piece in pack_fetch(answer))


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff"])
def test_array_of_impossible_length_is_rejected(count: bytes) -> None:
    frame = encode_request(1, "c", request(ApiKey.PRODUCE, 3, acks=1))[FRAME_SIZE.size :]
    with pytest.raises(WireError):
        decode_request(frame[:-4] + count)


@pytest.mark.parametrize("version", [8, 9])
def test_compact_topic_name_is_limited_to_32767_characters(version: int) -> None:
    def decoded(name: str) -> Any:
        topics = [{"name": name, "partition_data": []}]
        return decode_request(encode_request(1, "c", request(ApiKey.PRODUCE, version, topic_data=topics))[4:])

    longest = "t" * 32_767
    assert decoded(longest).payload.topic_data[0].name == longest
    with pytest.raises((WireError, struct.error)):
        decoded(longest + "t")


@pytest.mark.parametrize("piece", [1, 3, 4, 5, 7, 1000])
def test_frames_are_assembled_from_chunks_of_any_size(piece: int) -> None:
    frames = [b"a", b"bc" * 40, b"d" * 3, b"e" * 2000]
    stream = b"".join(FRAME_SIZE.pack(len(frame)) + frame for frame in frames)
    reader = FrameReader(2000)
    found = [frame for at in range(0, len(stream), piece) for frame in reader.feed(stream[at : at + piece])]
    assert found == frames


@pytest.mark.parametrize("size", [0, -1, 2001])
def test_frame_of_an_invalid_size_is_rejected(size: int) -> None:
    with pytest.raises(FrameTooLarge):
        FrameReader(2000).feed(FRAME_SIZE.pack(size))


@pytest.mark.parametrize("version", range(13))
def test_our_codec_encodes_metadata_responses_as_kio_does(version: int) -> None:
    random = Random(version)
    for _ in range(DRAWS):
        message = drawn(response_class(ApiKey.METADATA, version), random)
        ours = metadata_as_ours(message, version)
        for _ in pack_rows_in_slices(ours):
            pass
        assert pack_metadata(ours) == kio_bytes(message)


def metadata_as_ours(message: Any, version: int) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(
            topic.error_code,
            topic.name,
            getattr(topic, "topic_id", None),
            getattr(topic, "is_internal", False),
            [
                MetadataResponsePartition(
                    error_code=row.error_code,
                    partition_index=row.partition_index,
                    leader_id=row.leader_id,
                    leader_epoch=getattr(row, "leader_epoch", -1),
                    replica_nodes=row.replica_nodes,
                    isr_nodes=row.isr_nodes,
                    offline_replicas=getattr(row, "offline_replicas", ()),
                )
                for row in topic.partitions
            ],
            getattr(topic, "topic_authorized_operations", 0),
        )
        for topic in message.topics
    ]
    return MetadataResponse(
        version=version,
        brokers=[
            MetadataResponseBroker(at.node_id, at.host, at.port, getattr(at, "rack", None)) for at in message.brokers
        ],
        cluster_id=getattr(message, "cluster_id", None),
        controller_id=getattr(message, "controller_id", -1),
        topics=topics,
        throttle_time=getattr(message, "throttle_time", timedelta(0)),
        cluster_authorized_operations=getattr(message, "cluster_authorized_operations", 0),
    )


def test_packed_partition_entry_is_reused_by_several_versions() -> None:
    row = MetadataResponsePartition(
        error_code=ErrorCode.none,
        partition_index=0,
        leader_id=1,
        leader_epoch=2,
        replica_nodes=(1, 2),
        isr_nodes=(1, 2),
        offline_replicas=(),
    )
    assert row.bytes_of(12) is row.bytes_of(9)
    assert row.bytes_of(1) != row.bytes_of(12)


@pytest.mark.parametrize(
    ("key", "version", "pack"),
    [
        (ApiKey.LEADER_AND_ISR, LEADER_AND_ISR_VERSION, pack_leader_and_isr),
        (ApiKey.UPDATE_METADATA, UPDATE_METADATA_VERSION, pack_update_metadata),
    ],
)
def test_our_codec_encodes_control_requests_as_kio_does(key: ApiKey, version: int, pack: Any) -> None:
    random = Random(version)
    for _ in range(3 * DRAWS):
        message = drawn(request_class(key, version), random)
        assert b"".join(pack(message)) == kio_bytes(message)


def test_large_metadata_response_is_packed_in_slices() -> None:
    rows = [
        MetadataResponsePartition(
            error_code=ErrorCode.none,
            partition_index=number,
            leader_id=1,
            leader_epoch=2,
            replica_nodes=(1, 2),
            isr_nodes=(1, 2),
            offline_replicas=(),
        )
        for number in range(10_000)
    ]
    answer = MetadataResponse(12, (), "c", 1, [MetadataResponseTopic(ErrorCode.none, "t", partitions=rows)])
    assert sum(1 for _ in pack_rows_in_slices(answer)) == 10
    assert sum(1 for _ in pack_rows_in_slices(answer)) == 0
    assert b"".join(row.bytes_of(12) for row in rows) in pack_metadata(answer)
