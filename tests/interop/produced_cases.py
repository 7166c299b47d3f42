"""Valid and invalid records that producers can send. Each case is sent to Apache Kafka and to our broker."""

from __future__ import annotations

import os
import struct
import time
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import cramjam
from crc32c import crc32c

from zabka.kafka.compression import Codec, pack
from zabka.kafka.message_set import Message, write_message
from zabka.kafka.record_batch import CHECKED_FROM, HEADER, HEADER_SIZE, Record, build_batch, read_header

TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "timed": {"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "60000"},
    "gzipped": {"compression.type": "gzip"},
    "zstandard": {"compression.type": "zstd"},
    "lz4": {"compression.type": "lz4", "compression.lz4.level": "12"},
    "snappy": {"compression.type": "snappy"},
    "bare": {"compression.type": "uncompressed"},
    "small": {"max.message.bytes": "500"},
    "small-bare": {"max.message.bytes": "500", "compression.type": "uncompressed"},
    "listed": {},
    "unconverted": {"message.downconversion.enable": "false"},
    "stamped-gzip": {"message.timestamp.type": "LogAppendTime", "compression.type": "gzip"},
}
NOW_MS = int(time.time() * 1000)


class Case(NamedTuple):
    """One Produce request for one partition."""

    name: str
    topic: str
    records: bytes
    version: int = 9


# ---- batches --------------------------------------------------------------------------------------------------


def with_header(data: bytes, **fields: int) -> bytes:
    """Return a batch with changed header fields and a correct checksum."""
    header = read_header(data)
    assert header is not None
    header = header._replace(**fields)
    head = HEADER.pack(*header)
    crc = fields.get("crc", crc32c(data[HEADER_SIZE:], crc32c(head[CHECKED_FROM:])))
    return HEADER.pack(*header._replace(crc=crc)) + data[HEADER_SIZE:]


def of_body(body: bytes, codec: int = 0, count: int = 1, **fields: int) -> bytes:
    """Return a batch with these bytes as its already compressed body."""
    base = build_batch([Record(b"k", b"v", NOW_MS)])[:HEADER_SIZE] + body
    given = {"attributes": codec, "record_count": count, "last_offset_delta": count - 1, "length": 49 + len(body)}
    return with_header(base, **{**given, **fields})


def body_of(records: list[Record]) -> bytes:
    return build_batch(records)[HEADER_SIZE:]


def some(count: int = 3, key: bytes | None = b"k", at_ms: int = NOW_MS) -> list[Record]:
    headers = (("h", b"1"), ("empty", None))
    return [Record(key, b"value %d" % n, at_ms + n, n, headers if n == 1 else ()) for n in range(count)]


BODY = body_of(some())
RECORD = body_of(some(1))


def _codecs() -> Iterator[Case]:
    noise = [Record(b"k", os.urandom(1000), NOW_MS + n) for n in range(150)]
    for codec in Codec:
        for topic in TOPICS:
            if not topic.startswith(("small", "listed", "unconverted")):
                yield Case(f"{codec.name} to {topic}", topic, build_batch(some(), codec=codec))
        yield Case(f"{codec.name} of noise", "plain", build_batch(noise, codec=codec))
        yield Case(f"{codec.name} of noise, made anew", "lz4", build_batch(noise, codec=codec))
        yield Case(f"{codec.name} too large", "small", build_batch(noise, codec=codec))
        yield Case(f"{codec.name} too large when unpacked", "small-bare", build_batch(some(200), codec=codec))
        yield Case(f"garbage as {codec.name}", "plain", of_body(b"garbage, garbage, garbage, garbage", codec))
        yield Case(f"zeros in {codec.name}", "plain", of_body(pack(codec, bytes(5000)), codec, 3))
        yield Case(f"nothing in {codec.name}", "plain", of_body(pack(codec, b""), codec))
        yield Case(f"{codec.name} cut short", "plain", of_body(pack(codec, BODY * 50)[:-12], codec, 150))
        yield Case(f"{codec.name} with one too many", "plain", of_body(pack(codec, BODY), codec, 4))
        yield Case(f"{codec.name} with one too few", "plain", of_body(pack(codec, BODY), codec, 2))
        yield Case(f"{codec.name} of INT_MAX", "plain", of_body(pack(codec, BODY), codec, 2**31 - 1))
        yield Case(f"{codec.name} of none", "plain", of_body(pack(codec, b""), codec, 0))
        yield Case(f"{codec.name} of minus one", "plain", of_body(pack(codec, BODY), codec, -1))
        yield Case(f"{codec.name} with equal offsets", "plain", of_body(pack(codec, RECORD * 3), codec, 3))
        yield Case(f"{codec.name} with equal offsets, made anew", "bare", of_body(pack(codec, RECORD * 3), codec, 3))
        yield Case(f"{codec.name} without keys", "compacted", build_batch(some(5, None), codec=codec))
        yield Case(f"{codec.name} before version 7", "plain", build_batch(some(), codec=codec), 6)
    yield Case("xerial's magic and nothing", "plain", of_body(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01", 2))
    yield Case("raw snappy", "plain", of_body(bytes(cramjam.snappy.compress_raw(BODY)), 2, 3))
    yield Case("two members of gzip", "plain", of_body(pack(Codec.GZIP, BODY[:30]) + pack(Codec.GZIP, BODY[30:]), 1, 3))
    yield Case("gzip and something behind it", "plain", of_body(pack(Codec.GZIP, BODY) + b"behind", 1, 3))
    yield Case("gzip with a wrong trailer", "plain", of_body(pack(Codec.GZIP, BODY)[:-8] + bytes(8), 1, 3))
    yield Case("lz4 and something behind it", "plain", of_body(pack(Codec.LZ4, BODY) + b"behind", 3, 3))
    linked = bytes(cramjam.lz4.compress(BODY))
    yield Case("lz4 of another library", "plain", of_body(linked, 3, 3))
    yield Case("zstd and something behind it", "plain", of_body(pack(Codec.ZSTD, BODY) + b"behind!!", 4, 3))
    for unknown in (5, 6, 7):
        yield Case(f"codec {unknown}", "plain", of_body(BODY, unknown, 3))
        yield Case(f"codec {unknown} before version 7", "plain", of_body(BODY, unknown, 3), 6)


def _headers() -> Iterator[Case]:
    sound = build_batch(some())
    yield Case("sound", "plain", sound)
    yield Case("nothing", "plain", b"")
    yield Case("two batches", "plain", sound + sound)
    yield Case("a batch and a part of one", "plain", sound + sound[:-1])
    yield Case("a batch and a wrong one", "plain", sound + bytes(40))
    yield Case("a part of a batch", "plain", sound[:-1])
    yield Case("half a header", "plain", sound[:30])
    yield Case("wrong crc", "plain", with_header(sound, crc=7))
    yield Case("magic 3", "plain", with_header(sound, magic=3))
    yield Case("magic -1", "plain", with_header(sound, magic=-1))
    yield Case("magic 1 in version 9", "plain", message_set(1))
    for length in (-1, 0, 13, 14, 15, 30, 48):
        data = with_header(sound, length=length)[: max(12 + length, 17)]
        yield Case(f"length {length}", "plain", data)
    yield Case("base offset 5", "plain", with_header(sound, base_offset=5))
    yield Case("leader epoch 9", "plain", with_header(sound, leader_epoch=9))
    yield Case("control batch", "plain", with_header(sound, attributes=0x20))
    yield Case("transactional batch", "plain", with_header(sound, attributes=0x10, producer_id=5, producer_epoch=0))
    yield Case("delete horizon", "plain", with_header(sound, attributes=0x40))
    yield Case("unknown attributes", "plain", with_header(sound, attributes=0x0100))
    yield Case("unknown attributes, stamped", "stamped", with_header(sound, attributes=0x0100))
    yield Case("last offset delta -1", "plain", with_header(sound, last_offset_delta=-1))
    yield Case("last offset delta INT_MAX", "plain", with_header(sound, last_offset_delta=2**31 - 1))
    yield Case("count 1 of 3", "plain", with_header(sound, record_count=1))
    yield Case("count 4 of 3", "plain", with_header(sound, record_count=4, last_offset_delta=3))
    yield Case("wrong max timestamp", "plain", with_header(sound, max_timestamp=7))
    yield Case(
        "wrong max timestamp in gzip", "plain", with_header(build_batch(some(), codec=Codec.GZIP), max_timestamp=7)
    )
    yield Case("producer without sequence", "plain", with_header(sound, producer_id=11, producer_epoch=0))
    yield Case("producer without epoch", "plain", with_header(sound, producer_id=12, base_sequence=0))
    yield Case("producer's first", "plain", with_header(sound, producer_id=13, producer_epoch=0, base_sequence=0))
    yield Case("producer's first again", "plain", with_header(sound, producer_id=13, producer_epoch=0, base_sequence=0))
    yield Case("producer's gap", "plain", with_header(sound, producer_id=13, producer_epoch=0, base_sequence=9))
    yield Case("sequence without producer", "plain", with_header(sound, base_sequence=9))


def _records() -> Iterator[Case]:
    yield Case("a record and nothing behind", "plain", of_body(RECORD))
    yield Case("a record and a byte behind", "plain", of_body(RECORD + b"\0"))
    bodies = {
        "length -1": b"\x01" + RECORD[1:],
        "length 0": b"\0",
        "length too large": b"\x7e" + RECORD[1:],
        "length too small": bytes([RECORD[0] - 2]) + RECORD[1:],
        "six bytes of varint": b"\xff" * 6 + RECORD,
        "attributes 255": RECORD[:1] + b"\xff" + RECORD[2:],
        "key length -2": b"\x0c\0\0\0\x03\x01\0",
        "value length -3": b"\x0c\0\0\0\x01\x05\0",
        "no key and no value": b"\x0c\0\0\0\x01\x01\0",
        "key too long": b"\x0c\0\0\0\x7e\x01\0",
        "value too long": b"\x0c\0\0\0\x01\x7e\0",
        "headers -1": b"\x0c\0\0\0\x01\x01\x01",
        "headers too many": b"\x0c\0\0\0\x01\x01\x7e",
        "header without key": b"\x10\0\0\0\x01\x01\x02\x01\x01",
        "header without value": b"\x12\0\0\0\x01\x01\x02\x02k\x01",
        "header cut": b"\x12\0\0\0\x01\x01\x02\x7ek\x01",
        "offset delta 7": b"\x0c\0\0\x0e\x01\x01\0",
        "offset delta -1": b"\x0c\0\0\x01\x01\x01\0",
        "a long varint": b"\x0e\0\x80\0\0\x01\x01\0",
        "timestamp delta of ten bytes": b"\x1e\0" + b"\xff" * 9 + b"\x01\0\x01\x01\0",
        "timestamp delta of eleven bytes": b"\x20\0" + b"\xff" * 10 + b"\x01\0\x01\x01\0",
    }
    for name, body in bodies.items():
        yield Case(f"record: {name}", "plain", of_body(body))
        yield Case(f"record: {name}, recompressed", "gzipped", of_body(body))


def _times() -> Iterator[Case]:
    for codec in (Codec.NONE, Codec.GZIP):
        for name, at_ms in (("old", NOW_MS - 3_600_000), ("young", NOW_MS + 3_600_000), ("no", -1), ("minus two", -2)):
            for topic in ("timed", "plain", "stamped", "bare"):
                yield Case(
                    f"{codec.name} {name} time to {topic}", topic, build_batch(some(1, at_ms=at_ms), codec=codec)
                )
        mixed = [*some(), *some(2, None, NOW_MS - 3_600_000)]
        yield Case(f"{codec.name} some old", "timed", build_batch(mixed, codec=codec))
        going_back = [Record(b"k", b"v", NOW_MS), Record(b"k", b"v", NOW_MS - 50), Record(b"k", b"v", NOW_MS - 10)]
        yield Case(f"{codec.name} going back", "plain", build_batch(going_back, codec=codec))
        yield Case(f"{codec.name} going back, made anew", "zstandard", build_batch(going_back, codec=codec))
        for topic in ("plain", "stamped", "timed", "gzipped", "bare"):
            data = with_header(build_batch(some(), codec=codec), attributes=codec | 8)
            yield Case(f"{codec.name} stamped by the producer to {topic}", topic, data)
            data = with_header(build_batch(some(), codec=codec), attributes=codec | 8, max_timestamp=-1)
            yield Case(f"{codec.name} stamped with -1 to {topic}", topic, data)


# ---- message sets ---------------------------------------------------------------------------------------------


def message_set(magic: int, codec: int = 0, count: int = 3, key: bytes | None = b"k", **wrapper: object) -> bytes:
    relative = magic and codec
    inner = b"".join(
        write_message(Message(n if relative else 0, magic, 0, NOW_MS + n, key, b"value %d" % n)) for n in range(count)
    )
    if not codec:
        return inner
    value = pack(Codec(codec), inner, magic=magic)
    message = Message(count - 1 if magic else 0, magic, codec, NOW_MS + count - 1, None, value)
    return write_message(message._replace(**wrapper))  # type: ignore[arg-type]


def _message(body: bytes) -> bytes:
    return struct.pack(">qi", 0, 4 + len(body)) + struct.pack(">I", zlib.crc32(body)) + body


def _message_sets() -> Iterator[Case]:
    for magic, version in ((0, 0), (0, 1), (1, 2), (0, 2), (1, 0)):
        for codec in (0, 1, 2, 3):
            for topic in ("plain", "compacted", "stamped", "timed", "gzipped", "bare", "zstandard"):
                name = f"magic {magic} codec {codec} to {topic} in version {version}"
                yield Case(name, topic, message_set(magic, codec), version)
            if version in (1, 2):
                name = f"magic {magic} codec {codec} in version {version}"
                yield Case(f"{name} without keys", "compacted", message_set(magic, codec, key=None), version)
                yield Case(f"{name} twice", "plain", message_set(magic, codec) * 2, version)
                yield Case(f"{name} too large", "small", message_set(magic, codec, 400), version)
                yield Case(f"{name} cut", "plain", message_set(magic, codec)[:-1], version)
    yield Case("magic 2 in version 2", "plain", build_batch(some()), 2)
    yield Case("two of magic 2 in version 2", "plain", build_batch(some()) * 2, 2)
    yield Case("both magics", "plain", message_set(0) + message_set(1), 2)
    yield Case("message and batch", "plain", message_set(1) + build_batch(some()), 2)
    yield Case("nothing in version 2", "plain", b"", 2)
    yield Case("wrong crc in version 2", "plain", message_set(1)[:12] + b"\0\0\0\0" + message_set(1)[16:], 2)
    yield Case("wrapper without value", "plain", message_set(1, 1, value=None), 2)
    yield Case("wrapper of nothing", "plain", message_set(1, 1, value=pack(Codec.GZIP, b"")), 2)
    yield Case("wrapper of garbage", "plain", message_set(1, 1, value=b"garbage"), 2)
    yield Case("wrapper of zeros", "plain", message_set(1, 1, value=pack(Codec.GZIP, bytes(100))), 2)
    yield Case("wrapper of the other magic", "plain", message_set(1, 1, value=pack(Codec.GZIP, message_set(0))), 2)
    yield Case("wrapper of a wrapper", "plain", message_set(1, 1, value=pack(Codec.GZIP, message_set(1, 1))), 2)
    broken = bytearray(message_set(1))
    broken[-1] ^= 1
    yield Case("wrapper of a broken one", "plain", message_set(1, 1, value=pack(Codec.GZIP, broken)), 2)
    yield Case("wrapper of a part", "plain", message_set(1, 1, value=pack(Codec.GZIP, message_set(1)[:-3])), 2)
    yield Case("wrapper at offset 1", "plain", message_set(1, 1, offset=1), 2)
    yield Case("wrapper at offset 0", "plain", message_set(1, 1, offset=0), 2)
    yield Case("wrapper at offset 9", "plain", message_set(1, 1, offset=9), 2)
    yield Case("wrapper of zstd", "plain", message_set(1, 4), 2)
    yield Case("stamped wrapper", "plain", message_set(1, 1, attributes=9), 2)
    yield Case("stamped wrapper to stamped", "stamped", message_set(1, 1, attributes=9), 2)
    yield Case("message of wrong key length", "plain", _message(b"\1\0" + bytes(8) + b"\0\0\0\x7f\xff\xff\xff\xff"), 2)
    yield Case("message of wrong value length", "plain", _message(b"\0\0\xff\xff\xff\xff\0\0\0\x7f"), 1)
    yield Case("message of codec 6", "plain", _message(b"\0\x06\xff\xff\xff\xff\xff\xff\xff\xff"), 1)
    yield Case("message with minus two", "plain", write_message(Message(0, 1, 0, -2, b"k", b"v")), 2)


CASES = [*_headers(), *_codecs(), *_records(), *_times(), *_message_sets()]
