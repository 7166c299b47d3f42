from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kafka.produced import error_of, validated, whole
from zabka.kafka.compression import Codec, pack, unpack
from zabka.kafka.message_set import (
    NOTHING_FITS,
    CannotConvert,
    Message,
    convert_down,
    message_checksum_holds,
    read_message,
    write_message,
)
from zabka.kafka.record_batch import Record, build_batch, decode_batch, patch_batches
from zabka.kafka.record_refusals import CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE
from zabka.kafka.record_rules import TopicRules

OLD = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
texts = st.none() | st.binary(max_size=60)
rows = st.lists(
    st.builds(Record, texts, texts, st.integers(0, 1 << 42), st.just(0), st.just(())), min_size=1, max_size=8
)


def message_set(records: list[Record], magic: int, codec: Codec) -> bytes:
    relative = magic and codec
    messages = [
        Message(n if relative else 0, magic, 0, record.timestamp_ms if magic else -1, record.key, record.value)
        for n, record in enumerate(records)
    ]
    inner = b"".join(map(write_message, messages))
    if codec is Codec.NONE:
        return inner
    newest = max(record.timestamp_ms for record in records)
    last = len(records) - 1
    return write_message(Message(last, magic, codec, newest, None, pack(codec, inner, magic=magic)))


def messages_of(data: bytes) -> list[Message]:
    found = []
    at = 0
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        assert message_checksum_holds(data, at + 12, end)
        found.append(read_message(data, at, end))
        at = end
    return found


def test_message_of_magic_0_has_the_bytes_of_the_documentation() -> None:
    # Fields as in Kafka's protocol guide, "Message sets": offset, size, crc, magic, attributes, key, value.
    body = b"\0\0" + b"\xff\xff\xff\xff" + b"\0\0\0\1v"
    expected = struct.pack(">qiI", 5, 4 + len(body), zlib.crc32(body)) + body
    assert write_message(Message(5, 0, 0, -1, None, b"v")) == expected


@given(rows, st.sampled_from((0, 1)), st.sampled_from(OLD))
def test_message_set_in_a_produce_request_is_stored_as_a_batch(records: list[Record], magic: int, codec: Codec) -> None:
    valid = validated(message_set(records, magic, codec))
    (header,) = valid.headers
    assert (header.magic, header.attributes, header.record_count) == (2, codec, len(records))
    expected = [
        record._replace(offset=n, timestamp_ms=record.timestamp_ms if magic else -1) for n, record in enumerate(records)
    ]
    assert decode_batch(bytes(valid.data), 0, header) == expected


@given(rows, st.sampled_from((0, 1)), st.sampled_from(OLD), st.integers(0, 1 << 40))
def test_batch_in_the_log_is_converted_to_messages_for_a_fetch(
    records: list[Record], magic: int, codec: Codec, base: int
) -> None:
    valid = validated(build_batch(records, codec=codec))
    stored, _ = patch_batches(valid.data, valid.headers, base, 3)
    messages = messages_of(whole(convert_down(stored, magic, base, 3)))
    if codec is not Codec.NONE:
        (wrapper,) = messages
        assert (wrapper.offset, wrapper.attributes, wrapper.magic) == (base + len(records) - 1, codec, magic)
        assert wrapper.value is not None
        messages = messages_of(unpack(codec, wrapper.value, magic=magic))
    first = 0 if magic and codec else base
    assert [(m.offset, m.key, m.value) for m in messages] == [
        (first + n, r.key, r.value) for n, r in enumerate(records)
    ]
    assert [m.timestamp_ms for m in messages] == [record.timestamp_ms if magic else -1 for record in records]


def test_down_converted_fetch_returns_only_requested_messages() -> None:
    data = build_batch([Record(b"k", b"%d" % n) for n in range(5)])
    assert [m.value for m in messages_of(whole(convert_down(data, 1, 3, 100)))] == [b"3", b"4"]


def test_down_conversion_stops_before_the_first_zstd_batch() -> None:
    plain, zstd = build_batch([Record(b"k", b"v")]), build_batch([Record(b"k", b"w")], codec=Codec.ZSTD)
    assert len(messages_of(whole(convert_down(plain + zstd, 1, 0, 100)))) == 1
    with pytest.raises(CannotConvert) as refused:
        whole(convert_down(zstd, 1, 0, 100))
    assert refused.value.error == UNSUPPORTED_COMPRESSION_TYPE


def test_conversion_of_no_records_gives_an_incomplete_message() -> None:
    data = build_batch([Record(b"k", b"v")])
    assert whole(convert_down(data, 1, 5, 100)) == NOTHING_FITS
    assert whole(convert_down(b"", 1, 5, 100)) == b""


def test_message_set_can_be_recompressed_with_another_codec() -> None:
    records = [Record(b"k", b"%d" % n, n) for n in range(1_000)]
    (header,) = validated(message_set(records, 1, Codec.GZIP), TopicRules(codec=Codec.ZSTD)).headers
    assert (header.attributes, header.record_count) == (Codec.ZSTD, 1_000)


@given(st.data(), st.sampled_from((0, 1)), st.sampled_from(OLD))
def test_damaged_message_is_reported_as_corrupt(data: st.DataObject, magic: int, codec: Codec) -> None:
    good = message_set([Record(b"k", b"v" * 30, 5)], magic, codec)
    bad = bytearray(good)
    bad[data.draw(st.integers(17, len(good) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert error_of(bytes(bad)) == CORRUPT_MESSAGE
