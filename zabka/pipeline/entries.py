"""Decides which lines of a journal are entries, and why the others are quarantined.

All jobs and the reader (`zabka.journal.reader`) share one definition. An entry is an object with a type and schema that
this version knows, with every field of that type, and with clock values in range. In addition its numbers must fit into
Spark's columns. Any other line is quarantined with its reason, and the lines after it are not affected.

One decoder reads envelope and event together in one pass. It is generated from the classes of `zabka.journal.events`,
so it also knows new types and fields. Spark parses the event again, unknown fields included, with its own limits: a
line beyond these limits would become a row of nulls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from zabka.journal.events import BY_NAME, SCHEMA_VERSION, Event
from zabka.journal.reader import CLOCK_US_MAX, schema_of

LINE_BYTES_MAX = 8 * 1024 * 1024
"""Maximum length of a line that is read into memory. No node writes a longer line: its journal files end at 16 MB."""
SHOWN_CHARACTERS = 4096
"""Number of characters of a quarantined line that are stored. Its file and position show where the whole line is."""
UNSIGNED = "digest"
"""Name of the only unsigned 64-bit field: the digest of a tree."""

NUMBER_CHARACTERS_MAX, NAME_BYTES_MAX, DEPTH_MAX = 1_000, 50_000, 500
"""Limits of Spark's JSON parser.

They are those of Jackson's `StreamReadConstraints`, except for the depth: Jackson allows twice as much, which not every
Python supports.
"""
_WITHIN_BYTES = 1_000
"""A line of at most this length is not checked, because it cannot exceed the limits of Spark's JSON parser."""

Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Clock = Annotated[int, msgspec.Meta(ge=-CLOCK_US_MAX, le=CLOCK_US_MAX)]
_ENVELOPE: list[tuple[str, Any] | tuple[str, Any, Any]] = [
    ("node", str),
    ("node_seq", Long),
    ("wall_us", _Clock),
    ("mono_us", _Clock),
    ("schema", Annotated[int, msgspec.Meta(le=SCHEMA_VERSION)], SCHEMA_VERSION),
]


def _bounded(kind: Any) -> Any:
    """Return the same type, in which every integer is limited to 64 bits."""
    if kind is int:
        return Long
    inner = tuple(each if each is ... else _bounded(each) for each in get_args(kind))
    if isinstance(kind, UnionType):
        return Union[inner]  # noqa: UP007  (of types that are known only here)
    origin = get_origin(kind)
    return kind if origin is None else origin[inner]


def _check_digest(entry: Any) -> None:
    if not 0 <= entry.digest < 2**64:
        raise ValueError("digest has a number beyond 64 bits")


def _entry_class(name: str, event: type[Event]) -> type[msgspec.Struct]:
    """Return a class for whole lines of an event type: the fields of the envelope and of the event."""
    fields = list(_ENVELOPE)
    types = get_type_hints(event)
    for field in msgspec.structs.fields(event):
        kind = field.type if field.name == UNSIGNED else _bounded(types[field.name])
        if field.required:
            fields.append((field.name, kind))
        elif field.default is not msgspec.NODEFAULT:
            fields.append((field.name, kind, field.default))
        else:
            fields.append((field.name, kind, msgspec.field(default_factory=field.default_factory)))
    own = {"__post_init__": _check_digest} if UNSIGNED in types else {}
    return msgspec.defstruct(
        event.__name__, fields, tag_field="type", tag=name, kw_only=True, gc=False, namespace=own
    )  # fmt: skip


ENTRIES: dict[str, type[msgspec.Struct]] = {name: _entry_class(name, event) for name, event in BY_NAME.items()}
"""Class for the lines of each event type."""
_decoder: Any = msgspec.json.Decoder(Union[tuple(ENTRIES.values())])  # noqa: UP007
_BOUND = re.compile(r"Expected `int` [<>]= -?[0-9]+ - at `\$\.(?P<where>.+)`")
_CLOCKS = ("wall_us", "mono_us")
_TOKEN = re.compile(
    rb'"(?P<text>[^"\\]*(?:\\.[^"\\]*)*)"(?P<names>\s*:)?|(?P<number>-?[0-9][0-9.eE+-]*)|(?P<opens>[\[{])|[\]}]'
)
_TAG = re.compile(r"Invalid value (?P<type>'.*') - at `\$\.type`", re.DOTALL)


class Refused(NamedTuple):
    """Reason why a line is not an entry."""

    reason: str


def check_lines(lines: Sequence[bytes]) -> list[Any] | None:
    """Return the entries in these lines (instances of the classes in ENTRIES), or None if any line is not an entry."""
    try:
        # Check the encoding here, because the JSON decoder does not check the strings that it skips.
        b"\n".join(lines).decode()
        entries = [_decoder.decode(line) for line in lines]
    except (UnicodeDecodeError, RecursionError, msgspec.MsgspecError):
        return None
    return None if any(map(_beyond_bounds, lines)) else entries


def check_line(line: bytes) -> Any:
    """Return the entry in a line (without its newline), or Refused with the reason for its quarantine."""
    try:
        line.decode()
        entry = _decoder.decode(line)
    except UnicodeDecodeError as reason:
        return Refused(f"no UTF-8 at byte {reason.start}")
    except RecursionError:
        return Refused("nested too deeply")
    except msgspec.MsgspecError as reason:
        return Refused(_reason(line, str(reason)))
    beyond = _beyond_bounds(line)
    return entry if beyond is None else Refused(beyond)


def _beyond_bounds(line: bytes) -> str | None:
    """Return the limit of Spark's JSON parser that a line exceeds, or None."""
    if len(line) <= _WITHIN_BYTES:
        return None
    depth = 0
    for token in _TOKEN.finditer(line):
        if token["number"] is not None:
            if len(token["number"]) > NUMBER_CHARACTERS_MAX:
                return f"a number of {len(token['number']):,} characters"
        elif token["text"] is not None:
            if token["names"] is not None and len(token["text"]) > NAME_BYTES_MAX:
                return f"a field's name of {len(token['text']):,} bytes"
        elif token["opens"] is None:
            depth -= 1
        elif (depth := depth + 1) > DEPTH_MAX:
            return "nested too deeply"
    return None


def _reason(line: bytes, message: str) -> str:
    # Check the schema first, because a newer schema may define other types and fields.
    if (schema := schema_of(line)) > SCHEMA_VERSION:
        return f"schema {schema} is newer than {SCHEMA_VERSION}, the newest that is known here"
    if (tag := _TAG.fullmatch(message)) is not None:
        return f"unknown type {tag['type'][:80]}"
    if (bound := _BOUND.fullmatch(message)) is None:
        return message
    return f"{bound['where']} has a number beyond {'any clock' if bound['where'] in _CLOCKS else '64 bits'}"
