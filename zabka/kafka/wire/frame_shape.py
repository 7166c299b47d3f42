"""Checks, before kio decodes a message, that the lengths in the message's bytes fit into the frame.

kio's reader allocates memory for as many members as an array declares before it reads the first member, so four
untrusted bytes could kill the process. Therefore every message is first scanned by the schema of its class, and a
length that extends beyond the frame is found before memory is allocated for it. The scan also rejects a null that the
schema does not allow, because kio accepts it.

kio is stricter than Java. It does not accept unknown tagged fields, although a newer client may send one (KIP-482), or
strings that are not UTF-8, which Java reads with U+FFFD. It accepts no booleans except 0 and 1, and no duration of more
than 292,000 years. A message with any of these is rewritten for kio.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from enum import IntEnum
from functools import cache
from struct import Struct
from struct import error as struct_error
from typing import Any, NamedTuple

from zabka.kafka.wire.primitives import TEXT_BYTES_MAX, WireError, read_varint, string, text_of, varint

_I16 = Struct(">h")
_I32 = Struct(">i")
_I64 = Struct(">q")
_DURATION_MS_MAX = (2**63 - 1) // 1000
"""Maximum duration that kio accepts: it counts microseconds in 64 bits."""

_WIDTHS: Mapping[str, int] = {
    **{"int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "error_code": 2, "int32": 4, "uint32": 4},
    **{"timedelta_i32": 4, "int64": 8, "datetime_i64": 8, "float64": 8, "uuid": 16},
}


class _Kind(IntEnum):
    FIXED = 0
    """A field of fixed size: `width` bytes."""
    TEXT = 1
    """A string: a 16-bit length, and that many bytes."""
    BYTES = 2
    """Bytes: a 32-bit length, and that many bytes."""
    COMPACT = 3
    """Compact bytes: a varint that is the length plus one, and that many bytes."""
    ARRAY = 4
    COMPACT_ARRAY = 5
    NULLABLE = 6
    """A nullable struct: one byte; if it is negative, the value is null and nothing follows."""
    TAGGED = 7
    COMPACT_TEXT = 8
    """A compact string: like COMPACT, but with at most as many bytes as TEXT allows."""
    TRUTH = 9
    DURATION = 10
    """A duration: milliseconds in 64 bits."""


class _Step(NamedTuple):
    kind: _Kind
    width: int = 0
    inside: tuple[_Step, ...] = ()
    tags: Mapping[int, tuple[_Step, ...]] = {}
    nullable: bool = False


def _nullable(hint: Any) -> bool:
    return typing.get_origin(hint) in (types.UnionType, typing.Union) and type(None) in typing.get_args(hint)


def _without_none(hint: Any) -> Any:
    if not _nullable(hint):
        return hint
    (inner,) = (each for each in typing.get_args(hint) if each is not type(None))
    return inner


def _primitive(kafka_type: str, flexible: bool, nullable: bool) -> _Step:
    if kafka_type == "bool":
        return _Step(_Kind.TRUTH)
    if kafka_type == "timedelta_i64":
        return _Step(_Kind.DURATION)
    if kafka_type in _WIDTHS:
        return _Step(_Kind.FIXED, _WIDTHS[kafka_type])
    if kafka_type == "string":
        return _Step(_Kind.COMPACT_TEXT if flexible else _Kind.TEXT, nullable=nullable)
    return _Step(_Kind.COMPACT if flexible else _Kind.BYTES, nullable=nullable)


def _field_steps(field: Field[Any], hint: Any, flexible: bool, tagged: bool) -> tuple[_Step, ...]:
    inner, nullable = _without_none(hint), _nullable(hint) and not tagged
    if typing.get_origin(inner) is tuple:
        hinted = typing.get_args(inner)[0]
        member = _without_none(hinted)
        if is_dataclass(member):
            steps = _steps_of(member)
        else:
            steps = (_primitive(field.metadata["kafka_type"], flexible, _nullable(hinted)),)
        return (_Step(_Kind.COMPACT_ARRAY if flexible else _Kind.ARRAY, 0, steps, nullable=nullable),)
    if is_dataclass(inner):
        steps = _steps_of(inner)
        return (_Step(_Kind.NULLABLE, 0, steps),) if nullable else steps
    return (_primitive(field.metadata["kafka_type"], flexible, nullable),)


def _joined(steps: list[_Step]) -> tuple[_Step, ...]:
    """Combine consecutive steps of fixed size into one step."""
    joined: list[_Step] = []
    for step in steps:
        if step.kind is _Kind.FIXED and joined and joined[-1].kind is _Kind.FIXED:
            joined[-1] = _Step(_Kind.FIXED, joined[-1].width + step.width)
        else:
            joined.append(step)
    return tuple(joined)


def _steps_of(schema: Any) -> tuple[_Step, ...]:
    return _steps(schema)


@cache
def _steps(schema: Any) -> tuple[_Step, ...]:
    hints = typing.get_type_hints(schema)
    steps: list[_Step] = []
    tags: dict[int, tuple[_Step, ...]] = {}
    for field in fields(schema):
        tag = field.metadata.get("tag")
        made = _field_steps(field, hints[field.name], schema.__flexible__, tag is not None)
        if tag is None:
            steps += made
        else:
            tags[int(tag)] = made
    if schema.__flexible__:
        steps.append(_Step(_Kind.TAGGED, tags=tags))
    return _joined(steps)


class _Amendment(NamedTuple):
    """New bytes that replace the bytes between two positions of a message."""

    begin: int
    end: int
    instead: bytes


def check_shape(schema: type[Any], data: bytes, at: int) -> int:
    """Check a message of class `schema` that begins at `at`, and return the position of its end. Raises WireError."""
    try:
        end = _walk(_steps_of(schema), data, at, len(data))
    except (struct_error, IndexError):
        raise WireError("it ends early") from None
    if end > len(data):
        raise WireError("it ends early")
    return end


def as_java_reads(schema: type[Any], data: bytes, at: int) -> bytes:
    """Rewrite a message so that kio can decode everything that Java can.

    The message is of class `schema`, begins at `at` in `data`, and has passed `check_shape`. Known tagged fields do not
    change. Raises WireError if a string becomes longer than allowed.
    """
    amendments: list[_Amendment] = []
    _walk(_steps_of(schema), data, at, len(data), amendments)
    parts, done = [], 0
    for begin, end, instead in amendments:
        parts += [data[done:begin], instead]
        done = end
    return b"".join([*parts, data[done:]])


def _amended_text(data: bytes, before: int, begin: int, end: int, is_compact: bool) -> list[_Amendment]:
    found = data[begin:end]
    readable = text_of(found)
    return [] if readable.encode() == found else [_Amendment(before, end, string(readable, is_compact))]


def _amended_truth(data: bytes, at: int) -> list[_Amendment]:
    return [_Amendment(at, at + 1, b"\x01")] if data[at] > 1 else []


def _amended_duration(data: bytes, at: int) -> list[_Amendment]:
    (duration_ms,) = _I64.unpack_from(data, at)
    nearest_ms = max(-_DURATION_MS_MAX, min(duration_ms, _DURATION_MS_MAX))
    return [] if nearest_ms == duration_ms else [_Amendment(at, at + 8, _I64.pack(nearest_ms))]


def _walk(steps: tuple[_Step, ...], data: bytes, at: int, end: int, amendments: list[_Amendment] | None = None) -> int:
    for step in steps:
        kind = step.kind
        if kind is _Kind.FIXED:
            at += step.width
        elif kind is _Kind.TRUTH:
            if amendments is not None:
                amendments += _amended_truth(data, at)
            at += 1
        elif kind is _Kind.DURATION:
            if amendments is not None:
                amendments += _amended_duration(data, at)
            at += 8
        elif kind is _Kind.COMPACT:
            size, at = read_varint(data, at)
            at += _length(size - 1, step)
        elif kind is _Kind.COMPACT_TEXT:
            size, begin = read_varint(data, at)
            before, at = at, begin + _text_length(size - 1, step)
            if amendments is not None:
                amendments += _amended_text(data, before, begin, at, True)
        elif kind is _Kind.TEXT:
            before, begin = at, at + 2
            at = begin + _length(_I16.unpack_from(data, at)[0], step)
            if amendments is not None:
                amendments += _amended_text(data, before, begin, at, False)
        elif kind is _Kind.BYTES:
            at += 4 + _length(_I32.unpack_from(data, at)[0], step)
        elif kind is _Kind.COMPACT_ARRAY:
            count, at = read_varint(data, at)
            at = _members(_length(count - 1, step), step.inside, data, at, end, amendments)
        elif kind is _Kind.ARRAY:
            count = _length(_I32.unpack_from(data, at)[0], step)
            at = _members(count, step.inside, data, at + 4, end, amendments)
        elif kind is _Kind.TAGGED:
            at = _tagged(step.tags, data, at, end, amendments)
        else:
            at = at + 1 if data[at] & 0x80 else _walk(step.inside, data, at + 1, end, amendments)
        if at > end:
            raise WireError("a length reaches beyond its end")
    return at


def _length(announced: int, step: _Step) -> int:
    if announced >= 0:
        return announced
    if announced < -1 or not step.nullable:
        raise WireError("null where there must be a value")
    return 0


def _text_length(announced: int, step: _Step) -> int:
    if announced > TEXT_BYTES_MAX:
        raise WireError(f"a string of {announced} bytes")
    return _length(announced, step)


def _members(
    count: int, steps: tuple[_Step, ...], data: bytes, at: int, end: int, amendments: list[_Amendment] | None
) -> int:
    if count > end - at:
        raise WireError(f"an array announces {count} members in {end - at} bytes")
    if len(steps) == 1 and steps[0].kind is _Kind.FIXED:
        return at + count * steps[0].width
    for _ in range(count):
        at = _walk(steps, data, at, end, amendments)
    return at


def _tagged(
    tags: Mapping[int, tuple[_Step, ...]], data: bytes, at: int, end: int, amendments: list[_Amendment] | None
) -> int:
    begin = at
    count, at = read_varint(data, at)
    if count > end - at:
        raise WireError(f"{count} tagged fields in {end - at} bytes")
    known = []
    for _ in range(count):
        before = at
        tag, at = read_varint(data, at)
        size, at = read_varint(data, at)
        if size > end - at:
            raise WireError("a tagged field reaches beyond its end")
        if tag in tags and _walk(tags[tag], data, at, at + size) != at + size:
            raise WireError("a tagged field's length is not its content's")
        at += size
        if tag in tags:
            known.append(data[before:at])
    if amendments is not None and len(known) < count:
        amendments.append(_Amendment(begin, at, varint(len(known)) + b"".join(known)))
    return at
