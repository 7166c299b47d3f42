"""Whether the lengths in a message's bytes tell the truth: is all that they announce really there?

kio's reader reserves memory for as many members as an array announces, before it reads the first: four bytes from a
stranger could end the process.  So every message is walked through first, by the schema of its class, and a length that
reaches beyond the frame is found before anything is reserved for it; so is a null where the schema allows none, which
kio passes on.

And kio reads no text that is no UTF-8, where Java reads U+FFFD: such a message is written anew for it.
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

from kafka_protocol.wire.primitives import TEXT_BYTES_MAX, WireError, read_varint, string, text_of

_I16 = Struct(">h")
_I32 = Struct(">i")

_WIDTHS: Mapping[str, int] = {
    **{"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "error_code": 2, "int32": 4, "uint32": 4},
    **{"timedelta_i32": 4, "int64": 8, "timedelta_i64": 8, "datetime_i64": 8, "float64": 8, "uuid": 16},
}


class _Kind(IntEnum):
    FIXED = 0
    """`width` bytes."""
    TEXT = 1
    """A 16-bit length, and that many bytes."""
    BYTES = 2
    """A 32-bit length, and that many bytes."""
    COMPACT = 3
    """A varint, one more than the length, and that many bytes."""
    ARRAY = 4
    COMPACT_ARRAY = 5
    NULLABLE = 6
    """One byte, negative where nothing follows."""
    TAGGED = 7
    COMPACT_TEXT = 8
    """As COMPACT, but no longer than a TEXT can be."""


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
    """Fixed widths that follow each other are one."""
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


class _Text(NamedTuple):
    """Where a text and the length before it are."""

    at: int
    begin: int
    end: int
    is_compact: bool


def check_shape(schema: type[Any], data: bytes, at: int) -> int:
    """Walk through a message of that class, which begins at `at`; where it ends.  Raises WireError."""
    try:
        end = _walk(_steps_of(schema), data, at, len(data))
    except (struct_error, IndexError):
        raise WireError("it ends early") from None
    if end > len(data):
        raise WireError("it ends early")
    return end


def with_readable_texts(schema: type[Any], data: bytes, at: int) -> bytes:
    """`data` with a sound message of that class from `at` on, of which each text is UTF-8: what is not is read as Java
    does.  Those in tagged fields stay as they are.  Raises WireError where a text grows beyond what one may have."""
    texts: list[_Text] = []
    _walk(_steps_of(schema), data, at, len(data), texts)
    parts, done = [], 0
    for text in texts:
        found = data[text.begin : text.end]
        readable = text_of(found)
        if readable.encode() != found:
            parts += [data[done : text.at], string(readable, text.is_compact)]
            done = text.end
    return b"".join([*parts, data[done:]])


def _walk(steps: tuple[_Step, ...], data: bytes, at: int, end: int, texts: list[_Text] | None = None) -> int:
    for step in steps:
        kind = step.kind
        if kind is _Kind.FIXED:
            at += step.width
        elif kind is _Kind.COMPACT:
            size, at = read_varint(data, at)
            at += _length(size - 1, step)
        elif kind is _Kind.COMPACT_TEXT:
            size, begin = read_varint(data, at)
            before, at = at, begin + _text_length(size - 1, step)
            if texts is not None:
                texts.append(_Text(before, begin, at, is_compact=True))
        elif kind is _Kind.TEXT:
            before, begin = at, at + 2
            at = begin + _length(_I16.unpack_from(data, at)[0], step)
            if texts is not None:
                texts.append(_Text(before, begin, at, is_compact=False))
        elif kind is _Kind.BYTES:
            at += 4 + _length(_I32.unpack_from(data, at)[0], step)
        elif kind is _Kind.COMPACT_ARRAY:
            count, at = read_varint(data, at)
            at = _members(_length(count - 1, step), step.inside, data, at, end, texts)
        elif kind is _Kind.ARRAY:
            count = _length(_I32.unpack_from(data, at)[0], step)
            at = _members(count, step.inside, data, at + 4, end, texts)
        elif kind is _Kind.TAGGED:
            at = _tagged(step.tags, data, at, end)
        else:
            at = at + 1 if data[at] & 0x80 else _walk(step.inside, data, at + 1, end, texts)
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


def _members(count: int, steps: tuple[_Step, ...], data: bytes, at: int, end: int, texts: list[_Text] | None) -> int:
    if count > end - at:
        raise WireError(f"an array announces {count} members in {end - at} bytes")
    if len(steps) == 1 and steps[0].kind is _Kind.FIXED:
        return at + count * steps[0].width
    for _ in range(count):
        at = _walk(steps, data, at, end, texts)
    return at


def _tagged(tags: Mapping[int, tuple[_Step, ...]], data: bytes, at: int, end: int) -> int:
    count, at = read_varint(data, at)
    if count > end - at:
        raise WireError(f"{count} tagged fields in {end - at} bytes")
    for _ in range(count):
        tag, at = read_varint(data, at)
        size, at = read_varint(data, at)
        if size > end - at:
            raise WireError("a tagged field reaches beyond its end")
        if tag in tags and _walk(tags[tag], data, at, at + size) != at + size:
            raise WireError("a tagged field's length is not its content's")
        at += size
    return at
