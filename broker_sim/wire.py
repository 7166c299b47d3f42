"""Kafka's frames: size, header and body, as bytes from messages and back.  A shell, because kio.serial does the bytes.

Fetch responses are packed by hand, since kio's writer, being general, takes milliseconds over them; Metadata answers
are remembered, since brokers hand the same one to everybody until something changes.
"""

from __future__ import annotations

from collections import OrderedDict
from io import BytesIO
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from kio.serial import entity_reader, entity_writer

from broker_sim.api_versions import is_supported
from broker_sim.kafka_schema import ApiKey, api_key_of, milliseconds, request_class, response_class, version_of
from controller.ports import KafkaMessage

FRAME_SIZE = Struct(">i")
_I16 = Struct(">h")
_I32 = Struct(">i")
_REQUEST_HEAD = Struct(">hhih")
_REQUEST_START = Struct(">hhi")
_METADATA_REMEMBERED_MAX = 64


class WireError(Exception):
    """The other side sent what is no Kafka frame; the text says why."""


class UnsupportedVersion(Exception):
    """A request, well formed so far, of an API or version that is not served here."""

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        super().__init__(f"API key {api_key} version {version} is not served")
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id


class DecodedRequest(NamedTuple):
    """A request as it came."""

    correlation_id: int
    client_id: str | None
    payload: KafkaMessage


# ---- requests -------------------------------------------------------------------------------------------------


def decode_request(frame: bytes) -> DecodedRequest:
    """Take a frame (without its size) apart.  Raises UnsupportedVersion, or WireError where it is no request."""
    try:
        api_key, version, correlation_id, client_size = _REQUEST_HEAD.unpack_from(frame)
    except struct_error:
        raise WireError("a request header that ends early") from None
    if not is_supported(api_key, version):
        raise UnsupportedVersion(api_key, version, correlation_id)
    schema = request_class(api_key, version)
    offset = _REQUEST_HEAD.size + max(client_size, 0)
    if client_size < -1 or offset > len(frame):
        raise WireError("a client id that ends early")
    try:
        client_id = frame[_REQUEST_HEAD.size : offset].decode() if client_size >= 0 else None
        if schema.__flexible__:
            offset = _skip_tagged_fields(frame, offset)
        payload, size = entity_reader(schema)(frame, offset)
    except Exception as wrong:
        # kio raises many kinds (DecodeError, ValueError, OverflowError, ...) for bytes that do not fit the schema.
        raise WireError(f"a {ApiKey(api_key).name} request that cannot be read: {wrong}") from None
    if offset + size != len(frame):
        raise WireError(f"a {ApiKey(api_key).name} request with {len(frame) - offset - size} bytes left over")
    return DecodedRequest(correlation_id, client_id, payload)


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if offset >= len(data) or shift > 28:
            raise WireError("a number that ends early")
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, offset
        shift += 7


def _skip_tagged_fields(data: bytes, offset: int) -> int:
    count, offset = _read_varint(data, offset)
    for _ in range(count):
        _, offset = _read_varint(data, offset)
        size, offset = _read_varint(data, offset)
        offset += size
    if offset > len(data):
        raise WireError("tagged fields that end early")
    return offset


def encode_request(correlation_id: int, client_id: str, payload: KafkaMessage) -> bytes:
    """A request as a whole frame, size included."""
    client = client_id.encode()
    head = _REQUEST_START.pack(api_key_of(payload), version_of(payload), correlation_id)
    tags = b"\x00" if payload.__flexible__ else b""
    body = _body(payload)
    size = len(head) + 2 + len(client) + len(tags) + len(body)
    return b"".join((FRAME_SIZE.pack(size), head, _I16.pack(len(client)), client, tags, body))


def _body(payload: KafkaMessage) -> bytes:
    buffer = BytesIO()
    entity_writer(type(payload))(buffer, payload)
    return buffer.getvalue()


# ---- responses ------------------------------------------------------------------------------------------------


class ResponseEncoder:
    """Makes response frames; remembers the bodies of the Metadata answers it was last given."""

    __slots__ = ("_remembered",)

    def __init__(self) -> None:
        self._remembered: OrderedDict[int, tuple[KafkaMessage, bytes]] = OrderedDict()

    def encode(self, correlation_id: int, payload: KafkaMessage) -> bytes:
        """A response as a whole frame, size included."""
        head = _I32.pack(correlation_id)
        if payload.__header_schema__.__version__ == 1:
            head += b"\x00"
        api_key = payload.__api_key__
        if api_key == ApiKey.FETCH:
            chunks = pack_fetch(payload)
        elif api_key == ApiKey.METADATA:
            chunks = [self._metadata(payload)]
        else:
            chunks = [_body(payload)]
        size = len(head) + sum(map(len, chunks))
        return b"".join((FRAME_SIZE.pack(size), head, *chunks))

    def _metadata(self, payload: KafkaMessage) -> bytes:
        # By identity: the payload is kept beside its bytes, so its id cannot come to mean another.
        known = self._remembered.get(id(payload))
        if known is not None:
            self._remembered.move_to_end(id(payload))
            return known[1]
        body = _body(payload)
        self._remembered[id(payload)] = (payload, body)
        if len(self._remembered) > _METADATA_REMEMBERED_MAX:
            self._remembered.popitem(last=False)
        return body


def response_correlation_id(frame: bytes) -> int:
    """Which request a response frame (without its size) answers.  Raises WireError."""
    if len(frame) < 4:
        raise WireError("a response header that ends early")
    return int(_I32.unpack_from(frame)[0])


def decode_response(frame: bytes, request: KafkaMessage) -> KafkaMessage:
    """The response to `request` in a frame (without its size).  Raises WireError."""
    schema = response_class(api_key_of(request), version_of(request))
    try:
        offset = 4
        if schema.__header_schema__.__version__ == 1:
            offset = _skip_tagged_fields(frame, offset)
        payload, _ = entity_reader(schema)(frame, offset)
    except Exception as wrong:
        raise WireError(f"a response to {ApiKey(api_key_of(request)).name} that cannot be read: {wrong}") from None
    return payload


# ---- Fetch responses ------------------------------------------------------------------------------------------

_FETCH_HEAD = Struct(">ihi")
_PARTITION_V4 = Struct(">ihqq")
_PARTITION_V5 = Struct(">ihqqq")
_DIVERGING = Struct(">iqb")
_LEADER = Struct(">iib")
_ABORTED = Struct(">qq")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def pack_fetch(payload: KafkaMessage) -> list[bytes]:
    """The body of a Fetch response, versions 4 to 12, in pieces: records are passed on, not copied."""
    version = version_of(payload)
    flexible = version >= 12
    throttle_ms = milliseconds(payload.throttle_time)
    out: list[bytes] = []
    if version >= 7:
        out.append(_FETCH_HEAD.pack(throttle_ms, payload.error_code, payload.session_id))
    else:
        out.append(_I32.pack(throttle_ms))
    out.append(_length(len(payload.responses), flexible))
    for topic in payload.responses:
        name = topic.topic.encode()
        out.append((_varint(len(name) + 1) if flexible else _I16.pack(len(name))) + name)
        out.append(_length(len(topic.partitions), flexible))
        for partition in topic.partitions:
            _pack_partition(out, partition, version)
        if flexible:
            out.append(b"\x00")
    if flexible:
        out.append(b"\x00")
    return out


def _length(count: int, flexible: bool) -> bytes:
    return _varint(count + 1) if flexible else _I32.pack(count)


def _pack_partition(out: list[bytes], partition: KafkaMessage, version: int) -> None:
    flexible = version >= 12
    if version >= 5:
        out.append(
            _PARTITION_V5.pack(
                partition.partition_index,
                partition.error_code,
                partition.high_watermark,
                partition.last_stable_offset,
                partition.log_start_offset,
            )
        )
    else:
        out.append(
            _PARTITION_V4.pack(
                partition.partition_index,
                partition.error_code,
                partition.high_watermark,
                partition.last_stable_offset,
            )
        )
    aborted = partition.aborted_transactions
    if aborted is None:
        out.append(b"\x00" if flexible else b"\xff\xff\xff\xff")
    else:
        out.append(_length(len(aborted), flexible))
        for txn in aborted:
            out.append(_ABORTED.pack(txn.producer_id, txn.first_offset) + (b"\x00" if flexible else b""))
    if version >= 11:
        out.append(_I32.pack(partition.preferred_read_replica))
    records = partition.records
    if records is None:
        out.append(b"\x00" if flexible else b"\xff\xff\xff\xff")
    else:
        out.append(_length(len(records), flexible))
        out.append(records)
    if flexible:
        out.append(_partition_tags(partition))


def _partition_tags(partition: KafkaMessage) -> bytes:
    tags = []
    diverging = partition.diverging_epoch
    if (diverging.epoch, diverging.end_offset) != (-1, -1):
        tags.append(b"\x00\x0d" + _DIVERGING.pack(diverging.epoch, diverging.end_offset, 0))
    leader = partition.current_leader
    if (leader.leader_id, leader.leader_epoch) != (-1, -1):
        tags.append(b"\x01\x09" + _LEADER.pack(leader.leader_id, leader.leader_epoch, 0))
    return _varint(len(tags)) + b"".join(tags)
