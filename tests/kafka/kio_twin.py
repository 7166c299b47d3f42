"""Messages written and read by the library kio, for comparison with our codecs."""

from __future__ import annotations

import types
import typing
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from random import Random
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

_ERRORS = list(ErrorCode)
_BOUNDS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 15, "timedelta_i32": 31}


def kio_bytes(payload: Any) -> bytes:
    """Return the body of a message as encoded by kio."""
    buffer = BytesIO()
    entity_writer(type(payload))(buffer, payload)
    return buffer.getvalue()


def kio_read(schema: type[Any], data: bytes) -> Any:
    """Return the body of a message as decoded by kio."""
    payload, size = entity_reader(schema)(data, 0)
    assert size == len(data)
    return payload


def same(ours: Any, kios: Any) -> bool:
    """Return whether all fields of kio's message have the same values in our message."""
    if is_dataclass(kios):
        names = [field.name for field in fields(kios) if not field.name.startswith("__")]
        return all(same(getattr(ours, name), getattr(kios, name)) for name in names if name not in _UNREAD)
    if isinstance(kios, tuple):
        return len(ours) == len(kios) and all(same(a, b) for a, b in zip(ours, kios, strict=True))
    return bool(ours == kios)


_UNREAD = {"snapshot_id", "replica_directory_id"}
"""Fields of KRaft that these brokers neither send nor read."""


def drawn(schema: type[Any], random: Random) -> Any:
    """Return a message of this class with random values, some of them at the limits of their types."""
    hints = typing.get_type_hints(schema)
    values = {}
    for field in fields(schema):
        if not field.name.startswith("__") and field.name not in _UNREAD:
            values[field.name] = _value(hints[field.name], field.metadata.get("kafka_type"), random)
    return schema(**values)


def _value(hint: Any, kafka_type: str | None, random: Random) -> Any:
    if typing.get_origin(hint) is types.UnionType:
        if random.random() < 0.2:
            return None
        hint = next(each for each in typing.get_args(hint) if each is not type(None))
    if typing.get_origin(hint) is tuple:
        (each, _) = typing.get_args(hint)
        return tuple(_value(each, kafka_type, random) for _ in range(random.choice((0, 1, 1, 1, 2, 3))))
    if is_dataclass(hint):
        return drawn(hint, random)  # type: ignore[arg-type]
    return _plain(str(kafka_type), random)


def _plain(kafka_type: str, random: Random) -> Any:
    if kafka_type == "string":
        return random.choice(("", "t", "örtlich.", "x" * random.choice((126, 127, 128, 300))))
    if kafka_type in ("records", "bytes"):
        return random.randbytes(random.choice((0, 1, 126, 127, 128, 400)))
    if kafka_type == "uuid":
        return UUID(int=random.getrandbits(128) | 1)
    if kafka_type == "error_code":
        return random.choice(_ERRORS)
    if kafka_type == "bool":
        return random.random() < 0.5
    if kafka_type == "float64":
        return random.uniform(-1e9, 1e9)
    if kafka_type == "datetime_i64":
        return datetime.fromtimestamp(random.randrange(2_000_000_000), UTC)
    top = 1 << _BOUNDS[kafka_type]
    number = random.choice((-1, 0, 1, random.randrange(-top, top), top - 1))
    return timedelta(milliseconds=max(0, number)) if kafka_type == "timedelta_i32" else number
