"""Which line is an entry: what every job takes, and why it sets the others aside.

One definition for all jobs, and the reader's own (`journal.reader`): an object of a type and schema that this version
knows, with every field that the type has.  Beyond that it must fit Spark's columns.  A line that does not is set aside
with its reason, and nothing after it suffers.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from journal.events import BY_NAME, SCHEMA_VERSION

LINE_BYTES_MAX = 8 * 1024 * 1024
"""No node writes a line this long (its journal's files end at 16 MB); a longer one is not even read into memory."""
SHOWN_CHARACTERS = 4096
"""So much of a line that was set aside is kept with its reason; file and position say where the rest is."""

_INT64 = range(-(2**63), 2**63)
_UINT64 = range(2**64)
_LONG_NUMBER = re.compile(rb"[0-9]{19}")


class Envelope(msgspec.Struct, gc=False):
    """Who wrote a line, which of its lines it is, when, and what it tells."""

    node: str
    node_seq: int
    wall_us: int
    mono_us: int
    type: str
    schema: int = SCHEMA_VERSION


_envelope = msgspec.json.Decoder(Envelope)
_bodies = {name: msgspec.json.Decoder(kind) for name, kind in BY_NAME.items()}
_anything = msgspec.json.Decoder()


class Refused(NamedTuple):
    """Why a line is no entry."""

    reason: str


def check_line(line: bytes) -> Envelope | Refused:
    """The envelope of the entry in a line (without its newline), or why the line is set aside."""
    try:
        # The decoders pass over text that they do not keep without looking at its bytes.
        line.decode()
        envelope = _envelope.decode(line)
        if envelope.schema > SCHEMA_VERSION:
            return Refused(f"schema {envelope.schema} is newer than {SCHEMA_VERSION}, the newest that is known here")
        body = _bodies.get(envelope.type)
        if body is None:
            return Refused(f"unknown type {envelope.type[:80]!r}")
        body.decode(line)
        if _LONG_NUMBER.search(line) and (name := _too_large(_anything.decode(line))) is not None:
            return Refused(f"{name} has a number beyond 64 bits")
    except UnicodeDecodeError as reason:
        return Refused(f"no UTF-8 at byte {reason.start}")
    except RecursionError:
        return Refused("nested too deeply")
    except msgspec.MsgspecError as reason:
        return Refused(str(reason))
    return envelope


def _too_large(entry: dict[str, object]) -> str | None:
    """The first field with a number that no column holds; a tree's digest alone is unsigned, and no table has it."""
    for name, value in entry.items():
        waiting, fits = [value], _UINT64 if name == "digest" else _INT64
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                waiting += value.values()
            elif isinstance(value, list):
                waiting += value
            elif isinstance(value, int) and value not in fits:
                return name
    return None
