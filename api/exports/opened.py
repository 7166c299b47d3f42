"""Reads the runs of an exported HTML file, which can come from an untrusted source."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from typing import Any, NamedTuple

import msgspec
from pydantic import ValidationError

from zabka.api.runs.intake import NoHistory, Taken, read_history
from zabka.api.runs.run_models import Run
from zabka.api.runs.world_clock import on_world_clock
from zabka.journal.messages import Message

UNPACKED_BYTES_MAX = 256 * 1024 * 1024
_RUNS = re.compile(rb'<script type="text/plain" id="runs">([A-Za-z0-9+/=\s]*)</script>')


class Opened(NamedTuple):
    """A run read from an exported file.

    As in stored runs, message times count from the start of the simulated world.
    """

    about: Run
    taken: Taken
    messages: list[Message]


class _Run(msgspec.Struct):
    about: dict[str, Any]
    events: list[msgspec.Raw]
    messages: list[Message] = []
    before: dict[str, Any] | None = None


class _Contents(msgspec.Struct):
    runs: list[_Run]


def is_exported(data: bytes) -> bool:
    """Return whether the bytes are an HTML file, not a journal."""
    return data.lstrip()[:9].lower() == b"<!doctype"


def opened(data: bytes) -> list[Opened]:
    """Return the runs of an exported file, starting with the one that the page shows first. Raises NoHistory."""
    match = _RUNS.search(data)
    if match is None:
        raise NoHistory("it is an HTML file without runs; `zabka export` writes one")
    try:
        unpacking = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        text = unpacking.decompress(base64.b64decode(match[1]), UNPACKED_BYTES_MAX)
        if unpacking.unconsumed_tail:
            raise NoHistory(f"its runs have more than {UNPACKED_BYTES_MAX // 1024 // 1024} MB")
        contents = msgspec.json.decode(text, type=_Contents)
        found = [_opened(run) for run in contents.runs]
    except (binascii.Error, zlib.error, msgspec.MsgspecError, UnicodeDecodeError, ValidationError) as reason:
        raise NoHistory(f"its runs cannot be read: {reason}") from None
    if not found:
        raise NoHistory("it contains no run")
    return sorted(found, key=lambda each: each.about.variant is None)


def _opened(run: _Run) -> Opened:
    if run.before is not None:
        raise NoHistory("it has a part of a run only, without the beginning: open the file itself in a browser")
    messages = list(map(on_world_clock, run.messages))
    return Opened(Run.model_validate(run.about), read_history(b"\n".join(map(bytes, run.events))), messages)
