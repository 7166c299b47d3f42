"""A line of a journal as a record of a topic, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from zabka.kafka.record_batch import Record
from zabka.pipeline.positions import ending_of
from zabka.pipeline.ranges import LongLine, Row, long_line, rows_of
from zabka.pipeline.runs import placed

POSITION, SIZE, MARK = "position", "size", "mark"
"""Headers: where the line begins in its file, how long one is of which only the beginning is here, and by what the file
begins (`mark_of`)."""
LINE_BYTES_MAX = 900_000
"""Brokers take no record above a megabyte unless they are told to; no node writes a line that is nearly as long."""
SHOWN_BYTES = 16_384
_INT64_MAX = 2**63 - 1


def record_of(key: str, mark: str, position: int, line: bytes, size: int | None = None) -> Record:
    """A line of the file at that path, without its newline; `size` is its own where `line` is only its beginning."""
    headers: tuple[tuple[str, bytes | None], ...] = ((POSITION, b"%d" % position), (MARK, mark.encode()))
    if size is not None or len(line) > LINE_BYTES_MAX:
        return Record(key.encode(), line[:SHOWN_BYTES], headers=(*headers, (SIZE, b"%d" % (size or len(line)))))
    return Record(key.encode(), line, headers=headers)


def place_of(record: Record) -> tuple[str, int] | None:
    """The file that a record is of, and the position in it; None of a record that is no line of a journal."""
    headers = dict(record.headers)
    position, size = _number(headers.get(POSITION)), _number(headers.get(SIZE))
    if record.key is None or record.value is None or position is None or (size is None and SIZE in headers):
        return None
    if position + (size or len(record.value)) + 1 > _INT64_MAX:
        return None
    try:
        return record.key.decode(), position
    except UnicodeDecodeError:
        return None


def mark_in(record: Record) -> str:
    """By what a record's file begins, as the record says; "" where it does not."""
    return (dict(record.headers).get(MARK) or b"").decode("ascii", "replace")


def ending_in(record: Record) -> str:
    """By what a record's line is known again in its file; "" of one that is cut."""
    return "" if is_cut(record) else ending_of(record.value or b"")


def is_cut(record: Record) -> bool:
    """Is only the beginning of the line in the record?"""
    return SIZE in dict(record.headers)


def _number(text: bytes | None) -> int | None:
    """What a header says, where that is a number that may count bytes: anybody may put records into a topic."""
    return int(text) if text is not None and text.isdigit() and len(text) <= len(str(_INT64_MAX)) else None


def end_of(record: Record) -> int:
    """Where the line after a record's begins, in its file."""
    place, size = place_of(record), dict(record.headers).get(SIZE)
    assert place is not None and record.value is not None
    return place[1] + (int(size) if size is not None else len(record.value)) + 1


def rows_of_records(records: Sequence[Record], wanted: frozenset[type] | None) -> Iterator[Row]:
    """The rows of some records, in their order; records that are no lines of journals are passed over."""
    told = [(place, record) for record in records if (place := place_of(record)) is not None]
    for key, group in groupby(told, lambda each: each[0][0]):
        file = placed(Path(), key)
        lines: list[bytes] = []
        starts: list[int] = []
        for (_, position), record in group:
            line = record.value or b""
            if (size := dict(record.headers).get(SIZE)) is not None:
                yield long_line(file.run, file.path.name, LongLine(position, line, int(size) + 1))
            else:
                lines.append(line)
                starts.append(position)
        if lines:
            yield from rows_of(file.run, file.path.name, lines, starts, wanted)
