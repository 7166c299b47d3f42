"""Readers for journal files and for lines of a growing file. Invalid lines are collected, and never fatal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from zabka.journal.events import SCHEMA_VERSION, Entry, entry_from_dict

CLOCK_US_MAX = 2**53
"""Maximum value of a clock in a journal, in microseconds: 285 years after the clock's zero.

With this limit, sums and differences of times fit into 64 bits.
"""

_decoder = msgspec.json.Decoder(dict[str, Any])


class _Schema(msgspec.Struct):
    schema: int = SCHEMA_VERSION


_decode_schema = msgspec.json.Decoder(_Schema).decode


class BadLine(NamedTuple):
    """A line that could not be decoded as an entry: its position and the reason."""

    file: str
    number: int
    reason: str


def node_files(directory: Path, node: str | None = None) -> list[Path]:
    """Return the journal files in a directory, of one node or of all nodes. Each node's oldest file comes first.

    A file name contains the first node_seq in twelve digits; other files are ignored.
    """
    return sorted(directory.glob(f"{node or '*'}.{'[0-9]' * 12}.jsonl"))


def split_lines(data: bytes) -> Iterator[bytes]:
    """Yield the complete lines of a byte string, without their newlines.

    Only a newline ends a line. (`splitlines` also splits at other line separators, which an entry's strings may
    contain.) Bytes after the last newline are not a complete line.
    """
    begin = 0
    while (end := data.find(b"\n", begin)) >= 0:
        yield data[begin:end]
        begin = end + 1


def schema_of(line: bytes) -> int:
    """Return the schema version in a line, which is an event or the header of a file.

    It is SCHEMA_VERSION if the line has no schema or cannot be read.
    """
    try:
        return _decode_schema(line).schema
    except (msgspec.MsgspecError, RecursionError):
        return SCHEMA_VERSION


def decode_line(line: bytes) -> Entry:
    """Decode the entry in one line.

    Raises ValueError with a reason if the line is not an entry, has a newer schema than this code, or contains a number
    of more than 64 bits or a time above CLOCK_US_MAX. No node writes such values. A state with such a number could not
    be stored, and such a time would be used as the present time from then on.
    """
    try:
        raw = _decoder.decode(line)
        _check_schema(raw)
        if _is_any_beyond_64_bits(raw.values()):
            raise ValueError("a number is out of range: beyond 64 bits")
        entry = entry_from_dict(raw)
    except KeyError as missing:
        raise ValueError(f"unknown or missing {missing}") from None
    except (msgspec.MsgspecError, TypeError) as bad:
        raise ValueError(str(bad)) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if type(entry.node) is not str or not all(
        type(number) is int for number in (entry.node_seq, entry.wall_us, entry.mono_us, entry.seq)
    ):
        raise ValueError("a field of the envelope has the wrong type")
    if max(abs(entry.wall_us), abs(entry.mono_us)) > CLOCK_US_MAX:
        raise ValueError("a moment is out of range: beyond any clock")
    return entry


def _check_schema(raw: dict[str, Any]) -> None:
    """Raise ValueError if the line's schema is newer than this code.

    Called before the rest of the line is decoded, because a newer schema may define other types and fields.
    """
    schema = raw.get("schema", SCHEMA_VERSION)
    if type(schema) is not int:
        raise ValueError("a field of the envelope has the wrong type")
    if schema > SCHEMA_VERSION:
        raise ValueError(f"schema {schema} is newer than {SCHEMA_VERSION}, the newest that is known here")


def _is_any_beyond_64_bits(values: Iterable[Any]) -> bool:
    """Return whether one of the values is a number of more than 64 bits.

    The digest of a tree has 64 bits without a sign. This function is called for every line: checking the decoded values
    takes a third of the time of searching the line for long numbers.
    """
    for value in values:
        kind = type(value)
        if kind is int:
            if not -(2**63) <= value < 2**64:
                return True
        elif kind is list:
            if _is_any_beyond_64_bits(value):
                return True
        elif kind is dict and _is_any_beyond_64_bits(value.values()):
            return True
    return False


def read_file(path: Path, bad: list[BadLine] | None = None) -> Iterator[Entry]:
    """Yield the entries of one file. Invalid lines are added to `bad`; an incomplete last line is skipped."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield decode_line(line)
            except ValueError as reason:
                if bad is not None:
                    bad.append(BadLine(path.name, number, str(reason)))


def read_directory(directory: Path, bad: list[BadLine] | None = None) -> Iterator[Entry]:
    """Yield the entries of all nodes in a directory and its subdirectories, node by node."""
    for path in node_files(directory):
        yield from read_file(path, bad)


def merge(entries: Iterable[Entry]) -> list[Entry]:
    """Merge the entries of several nodes into one history by wall clock. The order within each node is preserved."""
    by_node: dict[str, list[Entry]] = {}
    for entry in entries:
        by_node.setdefault(entry.node, []).append(entry)
    keyed: list[tuple[int, str, int, Entry]] = []
    for node, own in by_node.items():
        latest = 0
        for entry in sorted(own, key=lambda e: e.node_seq):
            # Sort by the highest time of the node so far, because the order of a node's own entries must not change if
            # its clock jumps back.
            latest = max(latest, entry.wall_us)
            keyed.append((latest, node, entry.node_seq, entry))
    return [row[3] for row in sorted(keyed, key=lambda row: row[:3])]


def last_node_seq(directory: Path, node: str) -> int:
    """Return the highest node_seq that a node has written, 0 if there is none."""
    for path in reversed(node_files(directory, node)):
        newest = 0
        for line in split_lines(path.read_bytes()):
            try:
                newest = max(newest, int(_decoder.decode(line)["node_seq"]))
            except (msgspec.MsgspecError, KeyError, ValueError, TypeError, RecursionError):
                continue
        if newest:
            return newest
        # If the file has no readable entry, use the number in its name, which is that of its first line.
        begin = int(path.name.rsplit(".", 2)[1])
        if begin > 1:
            return begin - 1
    return 0
