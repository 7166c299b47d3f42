"""Send Produce requests to a broker as bytes. Return the responses, and the stored records that can be read back."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from tests.interop.produced_cases import NOW_MS, TOPICS, Case
from zabka.kafka.compression import Codec, unpack
from zabka.kafka.message_set import Message, read_message
from zabka.kafka.record_batch import HEADER_SIZE, BatchHeader, decode_batch, split_batches
from zabka.kafka.wire.frames import decode_response, encode_request
from zabka.kafka.wire.kafka_schema import ApiKey, request

ANSWERS_WITHIN_S = 30
READY_S = 90
FETCH_VERSION = 11
FRESH_MS = 600_000
WINDOW = re.compile(r"within \[-?\d+, -?\d+\]")


class Stored(NamedTuple):
    """A record batch that a case left in the log. Equal batches of two brokers have equal values."""

    header: tuple[Any, ...]
    records: tuple[Any, ...]


class Answer(NamedTuple):
    """A broker's response to a case, and the records that the broker has stored."""

    error: int
    message: str | None
    record_errors: tuple[tuple[int, str | None], ...]
    log_append_time: str
    says_log_start: bool
    stored: tuple[Stored, ...]
    as_messages: dict[int, object]
    """Records as consumers with an older Fetch version read them, keyed by that version."""


class Wire:
    """Connection to a broker."""

    def __init__(self, port: int) -> None:
        self._link = socket.create_connection(("127.0.0.1", port), ANSWERS_WITHIN_S)
        self._number = 0

    def close(self) -> None:
        self._link.close()

    def ask(self, key: ApiKey, version: int, **values: Any) -> Any:
        """Send a request and return the response."""
        self._number += 1
        message = request(key, version, **values)
        self._link.sendall(encode_request(self._number, "cases", message))
        return decode_response(self._take(int.from_bytes(self._take(4), "big")), message)

    def _take(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._link.recv(size - len(parts))
            assert part, "the broker hung up"
            parts += part
        return bytes(parts)

    def produce(self, topic: str, records: bytes, version: int) -> Any:
        """Send a Produce request for one partition and return the response."""
        row = {"index": 0, "records": records}
        data = [{"name": topic, "partition_data": [row]}]
        answer = self.ask(ApiKey.PRODUCE, version, acks=-1, timeout=ANSWERS_WITHIN_S * 1000, topic_data=data)
        return answer.responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int, version: int, partition: int = 0) -> Any:
        """Send a Fetch request for one partition, and return the records."""
        row = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "log_start_offset": -1}
        rows = [{"topic": topic, "partitions": [{**row, "current_leader_epoch": -1}]}]
        values = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "topics": rows}
        answer = self.ask(ApiKey.FETCH, version, **values, session_id=0, session_epoch=-1)
        return answer.responses[0].partitions[0]


def await_topics(port: int, topics: dict[str, dict[str, str]] = TOPICS) -> Wire:
    """Connect to a broker, and wait until it has these topics, which are created if necessary."""
    deadline = time.monotonic() + READY_S
    while True:
        with suppress(OSError, AssertionError):
            wire = Wire(port)
            names = [
                {
                    "name": topic,
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "configs": [{"name": key, "value": value} for key, value in keys.items()],
                }
                for topic, keys in topics.items()
            ]
            wire.ask(ApiKey.CREATE_TOPICS, 2, topics=names, timeout=10_000)
            if all(wire.fetch(topic, 0, FETCH_VERSION).error_code == 0 for topic in topics):
                return wire
            wire.close()
        assert time.monotonic() < deadline, "the topics are not there"
        time.sleep(0.2)


def answer_to(wire: Wire, case: Case) -> Answer:
    """Send a case to a broker. Return the response, and the stored records as they are read back."""
    row = wire.produce(case.topic, case.records, case.version)
    stored: tuple[Stored, ...] = ()
    older: dict[int, object] = {}
    if not row.error_code and row.base_offset >= 0:
        answer = wire.fetch(case.topic, row.base_offset, FETCH_VERSION)
        stored = _stored(bytes(answer.records or b""), row.base_offset)
        for version in (0, 1, 2, 3):
            older[version] = _as_messages(wire.fetch(case.topic, row.base_offset, version), version, row.base_offset)
    time_of_append = getattr(row, "log_append_time", None)
    return Answer(
        int(row.error_code),
        getattr(row, "error_message", None),
        tuple(
            (wrong.batch_index, _timeless(wrong.batch_index_error_message))
            for wrong in getattr(row, "record_errors", ())
        ),
        "none" if time_of_append is None else "its own",
        getattr(row, "log_start_offset", -1) >= 0,
        stored,
        older,
    )


def _timeless(text: str | None) -> str | None:
    """Return an error message with the times in it masked."""
    return None if text is None else WINDOW.sub("within [then, then]", text)


def _time(timestamp_ms: int) -> object:
    """Return a timestamp, or "now" if it is the time at which the broker appended the record."""
    passed = time.time() * 1000 - timestamp_ms
    return "now" if 0 <= passed < FRESH_MS and timestamp_ms > NOW_MS + 1000 else timestamp_ms


def _stored(data: bytes, base_offset: int) -> tuple[Stored, ...]:
    headers = split_batches(data)
    assert headers is not None, "the stored batches are damaged"
    found = []
    position = 0
    for header in headers:
        found.append(Stored(_header_fields(header, base_offset), _records(data, position, header, base_offset)))
        position += header.size
    return tuple(found)


def _header_fields(header: BatchHeader, base_offset: int) -> tuple[Any, ...]:
    return (
        header.base_offset - base_offset,
        header.magic,
        header.attributes,
        header.last_offset_delta,
        _time(header.base_timestamp),
        _time(header.max_timestamp),
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )


def _records(data: bytes, position: int, header: BatchHeader, base_offset: int) -> tuple[Any, ...]:
    codec = Codec(header.attributes & 7)
    if codec is Codec.NONE:
        return (data[position + HEADER_SIZE : position + header.size],)
    try:
        records = decode_batch(data, position, header)
    except Exception as unreadable:
        return (str(unreadable),)
    return tuple(
        record._replace(offset=record.offset - base_offset, timestamp_ms=_time(record.timestamp_ms))  # type: ignore[arg-type]
        for record in records
    )


def _as_messages(row: Any, version: int, base_offset: int) -> object:
    if row.error_code:
        return int(row.error_code)
    data = bytes(row.records or b"")
    return [_message(message, base_offset) for message in _messages(data)]


def _messages(data: bytes) -> Sequence[Message]:
    found = []
    at = 0
    while len(data) - at >= 12:
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if end > len(data):
            break
        found.append(read_message(data, at, end))
        at = end
    return found


def _message(message: Message, base_offset: int) -> object:
    codec = Codec(message.attributes & 7)
    head = (message.offset - base_offset, message.magic, message.attributes, _time(message.timestamp_ms), message.key)
    if codec is Codec.NONE or message.value is None:
        return (*head, message.value)
    inner = _messages(unpack(codec, message.value, magic=message.magic))
    # In a compressed message set, offsets are absolute in magic 0, and relative in magic 1.
    return (*head, [_message(one, 0 if message.magic else base_offset) for one in inner])
