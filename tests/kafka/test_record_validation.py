from __future__ import annotations

from collections.abc import Iterable
from random import Random

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kafka.produced import error_of, validated, whole
from zabka.kafka.compression import CODECS, PIECE_BYTES, Codec, pack
from zabka.kafka.plain_batch import plain_batch
from zabka.kafka.record_batch import HEADER_SIZE, Record, build_batch, decode_batch, read_header, with_checksum
from zabka.kafka.record_refusals import (
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    RECORD_ERRORS_MAX,
    RecordsRefused,
)
from zabka.kafka.record_rules import Append, TopicRules
from zabka.kafka.record_validation import SLICE_RECORDS, validate

texts = st.none() | st.binary(max_size=150)
records = st.builds(
    Record,
    key=texts,
    value=texts,
    timestamp_ms=st.integers(0, 1 << 42),
    headers=st.lists(st.tuples(st.text(max_size=5), texts), max_size=3).map(tuple),
)


def batch_of(body: bytes, codec: Codec, count: int) -> bytes:
    header = read_header(build_batch([Record(b"k", b"v")]))
    assert header is not None
    header = header._replace(length=HEADER_SIZE - 12 + len(body), attributes=codec, record_count=count)
    return with_checksum(header._replace(last_offset_delta=count - 1), body)[0]


def tiny_records(count: int, key: bytes = b"\x01") -> bytes:
    """Return `count` consecutive records without a value."""
    out = bytearray()
    for number in range(count):
        delta = bytearray()
        value = number << 1
        while value > 0x7F:
            delta.append(value & 0x7F | 0x80)
            value >>= 7
        delta.append(value)
        body = b"\0\0" + bytes(delta) + key + b"\x01\0"
        out += bytes([len(body) << 1]) + body
    return bytes(out)


@given(st.lists(records, min_size=1, max_size=12), st.sampled_from(Codec), st.sampled_from(list(CODECS.values())))
def test_broker_codec_changes_only_the_compression_of_a_batch(rows: list[Record], codec: Codec, target: Codec) -> None:
    valid = validated(build_batch(rows, codec=codec), TopicRules(codec=target))
    (header,) = valid.headers
    assert header.attributes == target
    assert decode_batch(bytes(valid.data), 0, header) == [row._replace(offset=n) for n, row in enumerate(rows)]


@given(st.lists(records, min_size=1, max_size=12), st.sampled_from(Codec))
def test_batch_that_needs_no_change_keeps_the_producers_bytes(rows: list[Record], codec: Codec) -> None:
    data = build_batch(rows, codec=codec)
    assert validated(data).data is data


@given(st.lists(records, min_size=1, max_size=12), st.sampled_from(Codec), st.sampled_from((None, Codec.GZIP)))
def test_log_append_time_replaces_the_timestamps(rows: list[Record], codec: Codec, target: Codec | None) -> None:
    valid = validated(build_batch(rows, codec=codec), TopicRules(stamps=True, codec=target), now_ms=77)
    (header,) = valid.headers
    assert (valid.log_append_time_ms, header.max_timestamp) == (77, 77)
    assert {record.timestamp_ms for record in decode_batch(bytes(valid.data), 0, header)} == {77}


def alike(record: Record, count: int, step_ms: int) -> list[Record]:
    return [record._replace(headers=(), timestamp_ms=1_000_000 + step_ms * n) for n in range(count)]


@given(
    st.one_of(
        st.lists(records, min_size=1, max_size=40),
        st.builds(alike, records, st.integers(1, 150), st.sampled_from((-70, -1, 0, 1, 50))),
    ),
    st.data(),
)
def test_fast_validation_rejects_what_general_validation_rejects(rows: list[Record], data: st.DataObject) -> None:
    batch = bytearray(build_batch(rows))
    for _ in range(data.draw(st.integers(0, 3))):
        batch[data.draw(st.integers(HEADER_SIZE, len(batch) - 1))] = data.draw(st.integers(0, 255))
    header = read_header(bytes(batch))
    assert header is not None
    header = header._replace(max_timestamp=header.max_timestamp + data.draw(st.sampled_from((0, 0, 0, 1, -1))))
    spoiled, header = with_checksum(header, bytes(batch[HEADER_SIZE:]))
    if plain_batch(spoiled, 1 << 20) is not None:
        valid = validated(spoiled)
        assert (valid.data, valid.headers) == (spoiled, [header])


def test_batches_of_ordinary_clients_use_the_fast_validation() -> None:
    for count, size in ((1, 1), (1, 100), (500, 100), (2_000, 5)):
        batch = build_batch([Record(None, b"v" * size, 1_700_000_000_000 + n) for n in range(count)])
        assert plain_batch(batch, 1 << 20) == read_header(batch)


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.sampled_from((0, 1, 63, 64, 3_000)).map(bytes)),
            st.one_of(st.none(), st.sampled_from((0, 1, 62, 63, 64, 65, 100, 5_000)).map(bytes)),
            st.sampled_from((0, 1, 63, 64, 8_191)),
        ),
        min_size=1,
        max_size=100,
    )
)
def test_records_of_common_shapes_use_the_fast_validation(shapes: list[tuple[bytes | None, bytes | None, int]]) -> None:
    first = 1_700_000_000_000
    batch = build_batch([Record(None, None, first), *(Record(key, value, first + ms) for key, value, ms in shapes)])
    assert plain_batch(batch, 1 << 20) == read_header(batch)


@given(st.sampled_from(Codec), st.binary(max_size=200), st.integers(1, 5))
def test_random_record_bytes_raise_only_validation_errors(codec: Codec, garbage: bytes, count: int) -> None:
    for body in (garbage, pack(codec, garbage)):
        for target in (None, Codec.LZ4):
            data = batch_of(body, codec, count)
            if not error_of(data, TopicRules(codec=target)):
                valid = validated(data, TopicRules(codec=target))
                assert len(decode_batch(bytes(valid.data), 0, valid.headers[0])) == count


@pytest.mark.parametrize("codec", Codec)
def test_validation_yields_after_every_slice(codec: Codec) -> None:
    count = 10 * SLICE_RECORDS
    data = batch_of(pack(codec, tiny_records(count)), codec, count)
    work = validate(data, Append(TopicRules(), "orders-0", 0))
    assert sum(1 for _ in work) >= 9


def test_recompression_yields_within_a_large_block() -> None:
    value = bytes(4 << 20)
    body = build_batch([Record(b"k", value)])[HEADER_SIZE:]
    one_chunk = batch_of(bytes(cramjam.snappy.compress_raw(body)), Codec.SNAPPY, 1)
    work = validate(one_chunk, Append(TopicRules(codec=Codec.GZIP), "orders-0", 0))
    assert sum(1 for _ in work) >= len(value) // PIECE_BYTES


def test_validation_of_a_record_with_many_headers_yields() -> None:
    many = tuple((str(n), None) for n in range(20 * SLICE_RECORDS))
    work = validate(build_batch([Record(b"k", b"v", 0, 0, many)]), Append(TopicRules(), "orders-0", 0))
    assert sum(1 for _ in work) >= 19


def refusal(rows: Iterable[Record], rules: TopicRules, now_ms: int = 0) -> RecordsRefused:
    with pytest.raises(RecordsRefused) as refused:
        validated(build_batch(list(rows)), rules, now_ms)
    return refused.value


def test_missing_key_error_contains_index_and_topic() -> None:
    refused = refusal([Record(b"k", b"v"), Record(None, b"v")], TopicRules(compacts=True))
    text = "Compacted topic cannot accept message without key in topic partition orders-0"
    assert refused.error == INVALID_RECORD and list(refused.record_errors) == [(1, text)]
    assert refused.message == (
        "One or more records have been rejected due to 1 record errors in total, and only showing the first three "
        f"errors at most: [RecordError(batchIndex=1, message='{text}')]"
    )


def test_timestamp_out_of_range_error_contains_the_range() -> None:
    refused = refusal([Record(b"k", b"v", 50)], TopicRules(before_max_ms=10, after_max_ms=20), now_ms=100)
    assert refused.error == INVALID_TIMESTAMP
    assert refused.record_errors[0].message == (
        "Timestamp 50 of message with offset 0 is out of range. The timestamp should be within [90, 120]"
    )


def test_timestamp_limit_is_ignored_for_log_append_time() -> None:
    rules = TopicRules(before_max_ms=10, after_max_ms=20, stamps=True)
    assert error_of(build_batch([Record(b"k", b"v", 50)]), rules, 100) == 0


def test_error_message_for_many_invalid_records_is_limited() -> None:
    count = 3 * RECORD_ERRORS_MAX
    data = batch_of(pack(Codec.GZIP, tiny_records(count)), Codec.GZIP, count)
    with pytest.raises(RecordsRefused) as refused:
        validated(data, TopicRules(compacts=True))
    assert len(refused.value.record_errors) == RECORD_ERRORS_MAX
    assert f"due to {count} record errors in total" in str(refused.value.message)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_batch_that_expands_too_far_is_rejected_as_too_large(codec: Codec) -> None:
    data = batch_of(pack(codec, bytes(70 << 20)), codec, 10_000_000)
    assert len(data) < 1 << 20
    assert error_of(data) in (MESSAGE_TOO_LARGE, INVALID_RECORD)


def test_record_decompressed_in_many_chunks_is_joined() -> None:
    noise = Random(1).randbytes(3 << 20)
    for codec in Codec:
        data = build_batch([Record(b"k", noise), Record(b"k", b"v")], codec=codec)
        assert error_of(data, TopicRules(max_message_bytes=4 << 20)) == 0


def test_idempotent_batch_requires_a_base_sequence() -> None:
    assert error_of(build_batch([Record(b"k", b"v")], producer_id=7, producer_epoch=0)) == INVALID_RECORD


def test_validation_in_slices_keeps_every_record() -> None:
    rows = [Record(b"%d" % n, b"v" * (n % 300), n) for n in range(3 * SLICE_RECORDS)]
    data = build_batch(rows, codec=Codec.ZSTD)
    valid = whole(validate(data, Append(TopicRules(codec=Codec.NONE), "orders-0", 0)))
    (header,) = valid.headers
    assert decode_batch(bytes(valid.data), 0, header) == [row._replace(offset=n) for n, row in enumerate(rows)]
