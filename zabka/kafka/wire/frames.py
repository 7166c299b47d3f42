"""Encodes and decodes Kafka's frames: size, header and body. kio.serial converts most bodies.

Produce and Fetch have hand-written codecs (`fetch_wire`, `produce_wire`), because kio's general codec takes
milliseconds. Metadata responses are cached, because brokers send the same response to all clients until something
changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator
from dataclasses import replace
from io import BytesIO
from struct import Struct
from struct import error as struct_error
from typing import Any, NamedTuple

from kio.serial import entity_reader, entity_writer
from kio.serial.errors import InvalidUnicode

from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.api_versions import is_supported
from zabka.kafka.wire.control_wire import (
    LEADER_AND_ISR_VERSION,
    UPDATE_METADATA_VERSION,
    pack_leader_and_isr,
    pack_update_metadata,
)
from zabka.kafka.wire.data_messages import FETCH_FLEXIBLE_FROM, PRODUCE_FLEXIBLE_FROM
from zabka.kafka.wire.fetch_wire import pack_fetch, pack_fetch_request, read_fetch_request, read_fetch_response
from zabka.kafka.wire.frame_reader import FRAME_SIZE
from zabka.kafka.wire.frame_shape import as_java_reads, check_shape
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of, last_rows, request_class, response_class, version_of
from zabka.kafka.wire.metadata_messages import MetadataResponse, pack_metadata, pack_rows_in_slices
from zabka.kafka.wire.primitives import EMPTY_TAGS, WireError, length, skip_tags, text_of
from zabka.kafka.wire.produce_wire import (
    pack_produce,
    pack_produce_request,
    read_produce_request,
    read_produce_response,
)

_I16 = Struct(">h")
_I32 = Struct(">i")
_REQUEST_HEAD = Struct(">hhih")
_REQUEST_START = Struct(">hhi")
_METADATA_REMEMBERED_MAX = 64
_STRICTER_THAN_JAVA = (InvalidUnicode, ValueError, KeyError)
"""Exceptions that kio raises for values that Java accepts.

The values are strings, booleans, durations and tagged fields.
"""
_FLEXIBLE_FROM = {ApiKey.PRODUCE: PRODUCE_FLEXIBLE_FROM, ApiKey.FETCH: FETCH_FLEXIBLE_FROM}
_READ_REQUEST: dict[int, Callable[[bytes, int, int], tuple[Any, int]]] = {
    ApiKey.PRODUCE: read_produce_request,
    ApiKey.FETCH: read_fetch_request,
}
_READ_RESPONSE: dict[int, Callable[[bytes, int, int], tuple[Any, int]]] = {
    ApiKey.PRODUCE: read_produce_response,
    ApiKey.FETCH: read_fetch_response,
}
_PACK_RESPONSE: dict[int, Callable[[KafkaMessage], list[bytes]]] = {
    ApiKey.PRODUCE: pack_produce,
    ApiKey.FETCH: pack_fetch,
}
"""Response encoders of the APIs with hand-written codecs; kio encodes all others."""
SHORT_ROWS = 16
"""Maximum number of rows in a response that is encoded without a pause."""
SLICE_BYTES = 8_192
"""Number of bytes that are encoded between two pauses: about a millisecond of work."""


def _request_packer(api_key: int, version: int) -> Callable[[KafkaMessage], list[bytes]] | None:
    if api_key == ApiKey.FETCH:
        return pack_fetch_request
    if api_key == ApiKey.PRODUCE:
        return pack_produce_request
    if (api_key, version) == (ApiKey.LEADER_AND_ISR, LEADER_AND_ISR_VERSION):
        return pack_leader_and_isr
    if (api_key, version) == (ApiKey.UPDATE_METADATA, UPDATE_METADATA_VERSION):
        return pack_update_metadata
    return None


class UnsupportedVersion(Exception):
    """The request is well-formed, but brokers do not support its API or version."""

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        super().__init__(f"API key {api_key} version {version} is not served")
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id


class DecodedRequest(NamedTuple):
    """A decoded request, with its correlation id and its client id."""

    correlation_id: int
    client_id: str | None
    payload: KafkaMessage


# ---- requests -------------------------------------------------------------------------------------------------


def decode_request(frame: bytes) -> DecodedRequest:
    """Decode a request frame without its size field.

    Raises UnsupportedVersion, or WireError if it is not a valid request.
    """
    try:
        api_key, version, correlation_id, client_size = _REQUEST_HEAD.unpack_from(frame)
    except struct_error:
        raise WireError("a request header that ends early") from None
    if not is_supported(api_key, version):
        raise UnsupportedVersion(api_key, version, correlation_id)
    offset = _REQUEST_HEAD.size + max(client_size, 0)
    if client_size < -1 or offset > len(frame):
        raise WireError("a client id that ends early")
    try:
        client_id = text_of(frame[_REQUEST_HEAD.size : offset]) if client_size >= 0 else None
        payload, end = _read_request(frame, offset, api_key, version)
    except Exception as wrong:
        # kio raises various exceptions (DecodeError, ValueError, OverflowError, ...) for bytes that do not match the
        # schema.
        raise WireError(f"a {ApiKey(api_key).name} request that cannot be read: {wrong}") from None
    if end > len(frame):
        raise WireError(f"a {ApiKey(api_key).name} request that ends early")
    # Ignore trailing bytes, as Kafka does: librdkafka's Metadata request for all topics has three bytes too many.
    return DecodedRequest(correlation_id, client_id, payload)


def _read_request(frame: bytes, offset: int, api_key: int, version: int) -> tuple[KafkaMessage, int]:
    by_hand = _READ_REQUEST.get(api_key)
    if by_hand is not None:
        if version >= _FLEXIBLE_FROM[ApiKey(api_key)]:
            offset = skip_tags(frame, offset)
        return by_hand(frame, offset, version)
    schema = request_class(api_key, version)
    if schema.__flexible__:
        offset = skip_tags(frame, offset)
    return _read_by_schema(schema, frame, offset)


def _read_by_schema(schema: type[Any], frame: bytes, offset: int) -> tuple[KafkaMessage, int]:
    end = check_shape(schema, frame, offset)
    try:
        payload, _ = entity_reader(schema)(frame, offset)
    except _STRICTER_THAN_JAVA:
        payload, _ = entity_reader(schema)(as_java_reads(schema, frame, offset), offset)
    return payload, end


def encode_request(correlation_id: int, client_id: str, payload: KafkaMessage) -> bytes:
    """Encode a request as a complete frame with its size field."""
    client = client_id.encode()
    head = _REQUEST_START.pack(api_key_of(payload), version_of(payload), correlation_id)
    tags = b"\x00" if payload.__flexible__ else b""
    by_hand = _request_packer(api_key_of(payload), version_of(payload))
    chunks = [_body(payload)] if by_hand is None else by_hand(payload)
    size = len(head) + 2 + len(client) + len(tags) + sum(map(len, chunks))
    return b"".join((FRAME_SIZE.pack(size), head, _I16.pack(len(client)), client, tags, *chunks))


def _body(payload: KafkaMessage) -> bytes:
    buffer = BytesIO()
    entity_writer(type(payload))(buffer, payload)
    return buffer.getvalue()


# ---- responses ------------------------------------------------------------------------------------------------


class ResponseEncoder:
    """Encodes response frames, and caches the encoded bodies of the last Metadata responses."""

    __slots__ = ("_remembered",)

    def __init__(self) -> None:
        self._remembered: OrderedDict[int, tuple[KafkaMessage, bytes]] = OrderedDict()

    def encode(self, correlation_id: int, payload: KafkaMessage) -> bytes:
        """Encode a response as a complete frame with its size field."""
        return b"".join(self.encode_parts(correlation_id, payload))

    def encode_parts(self, correlation_id: int, payload: KafkaMessage) -> list[bytes]:
        """Encode a response as pieces, without copying records and cached bodies."""
        api_key = api_key_of(payload)
        by_hand = _PACK_RESPONSE.get(api_key)
        if by_hand is not None:
            return _framed(correlation_id, payload, by_hand(payload))
        return _framed(
            correlation_id, payload, [self._metadata(payload) if api_key == ApiKey.METADATA else _body(payload)]
        )

    def encode_in_slices(self, correlation_id: int, payload: KafkaMessage) -> Generator[None, None, list[bytes]]:
        """Encode a response for which `takes_long` is true. The generator pauses after every slice."""
        if isinstance(payload, MetadataResponse):
            yield from pack_rows_in_slices(payload)
            return self.encode_parts(correlation_id, payload)
        body = yield from body_in_slices(payload)
        return _framed(correlation_id, payload, [body])

    def _metadata(self, payload: KafkaMessage) -> bytes:
        # The cache key is the payload's id(). Python cannot reuse that id, because the cache also stores the payload.
        known = self._remembered.get(id(payload))
        if known is not None:
            self._remembered.move_to_end(id(payload))
            return known[1]
        body = pack_metadata(payload) if isinstance(payload, MetadataResponse) else _body(payload)
        self._remembered[id(payload)] = (payload, body)
        if len(self._remembered) > _METADATA_REMEMBERED_MAX:
            self._remembered.popitem(last=False)
        return body


def takes_long(payload: KafkaMessage) -> bool:
    """Return whether a response is so long that it should be encoded in slices."""
    return isinstance(payload, MetadataResponse) or (api_key_of(payload) not in _PACK_RESPONSE and is_long(payload))


def _framed(correlation_id: int, payload: KafkaMessage, chunks: list[bytes]) -> list[bytes]:
    head = _I32.pack(correlation_id)
    # ApiVersions is flexible from version 3 on, but its response header never is.
    if payload.__flexible__ and api_key_of(payload) != ApiKey.API_VERSIONS:
        head += EMPTY_TAGS
    size = len(head) + sum(map(len, chunks))
    return [FRAME_SIZE.pack(size) + head, *chunks]


def response_correlation_id(frame: bytes) -> int:
    """Return the correlation id of a response frame without its size field. Raises WireError."""
    if len(frame) < 4:
        raise WireError("a response header that ends early")
    return int(_I32.unpack_from(frame)[0])


def decode_response(frame: bytes, request: KafkaMessage) -> KafkaMessage:
    """Decode the response to `request` from a frame without its size field. Raises WireError."""
    api_key, version = api_key_of(request), version_of(request)
    by_hand = _READ_RESPONSE.get(api_key)
    try:
        if by_hand is not None:
            offset = skip_tags(frame, 4) if version >= _FLEXIBLE_FROM[ApiKey(api_key)] else 4
            return by_hand(frame, offset, version)[0]
        schema = response_class(api_key, version)
        offset = skip_tags(frame, 4) if schema.__header_schema__.__version__ == 1 else 4
        return _read_by_schema(schema, frame, offset)[0]
    except Exception as wrong:
        raise WireError(f"a response to {ApiKey(api_key).name} that cannot be read: {wrong}") from None


def is_long(answer: KafkaMessage) -> bool:
    """Return whether this response is encoded by kio and ends with many rows."""
    last = last_rows(type(answer))
    rows = None if last is None else getattr(answer, last.field)
    return rows is not None and len(rows) > SHORT_ROWS


def body_in_slices(answer: KafkaMessage) -> Generator[None, None, bytes]:
    """Encode the body of a long response to the same bytes as kio. The generator pauses after every slice.

    kio takes two milliseconds for all configs of one broker, and a request may name a thousand resources. If a response
    ends with its rows, they are encoded one by one.
    """
    last = last_rows(type(answer))
    assert last is not None
    rows = getattr(answer, last.field)
    body = BytesIO()
    entity_writer(type(answer))(body, replace(answer, **{last.field: ()}))
    tags = EMPTY_TAGS if answer.__flexible__ else b""
    body.seek(-len(length(0, answer.__flexible__) + tags), 2)
    body.write(length(len(rows), answer.__flexible__))
    write, turn_at = entity_writer(last.schema), body.tell() + SLICE_BYTES
    for row in rows:
        write(body, row)
        if body.tell() >= turn_at:
            turn_at = body.tell() + SLICE_BYTES
            yield
    body.write(tags)
    return body.getvalue()
