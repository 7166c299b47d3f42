"""Converts the lines of a journal to records of a topic, and records to lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from zabka.kafka.record_batch import Record
from zabka.pipeline.positions import ending_of
from zabka.pipeline.ranges import LongLine, Row, long_line, rows_of
from zabka.pipeline.runs import placed

POSITION, SIZE, MARK = "position", "size", "mark"
"""Record headers: a line's position in its file, the full size of a truncated line, and the file's mark (`mark_of`)."""
LINE_BYTES_MAX = 900_000
"""Maximum length of a line that is published completely.

Brokers reject records above a megabyte by default; no node writes such long lines.
"""
SHOWN_BYTES = 16_384
_INT64_MAX = 2**63 - 1


def record_of(key: str, mark: str, position: int, line: bytes, size: int | None = None) -> Record:
    """Return the record for a line without its newline. `key` is the path of the file that contains the line.

    If `line` is only the beginning of the line, `size` is the size of the whole line.
    """
    headers: tuple[tuple[str, bytes | None], ...] = ((POSITION, b"%d" % position), (MARK, mark.encode()))
    if size is not None or len(line) > LINE_BYTES_MAX:
        return Record(key.encode(), line[:SHOWN_BYTES], headers=(*headers, (SIZE, b"%d" % (size or len(line)))))
    return Record(key.encode(), line, headers=headers)


def place_of(record: Record) -> tuple[str, int] | None:
    """Return the file and the position of the line in a record; None for a record that is not a line of a journal."""
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
    """Return the mark of a record's file; "" if the record has none."""
    return (dict(record.headers).get(MARK) or b"").decode("ascii", "replace")


def ending_in(record: Record) -> str:
    """Return the checksum that identifies a record's line in its file; "" for a truncated line."""
    return "" if is_cut(record) else ending_of(record.value or b"")


def is_cut(record: Record) -> bool:
    """Return whether the record contains only the beginning of the line."""
    return SIZE in dict(record.headers)


def _number(text: bytes | None) -> int | None:
    """Parse a record header as a number of bytes. Return None if it is invalid.

    Any client can write records to the topic, so the header can contain anything.
    """
    return int(text) if text is not None and text.isdigit() and len(text) <= len(str(_INT64_MAX)) else None


def end_of(record: Record) -> int:
    """Return the position in the file at which the line after a record's line begins."""
    place, size = place_of(record), dict(record.headers).get(SIZE)
    assert place is not None and record.value is not None
    return place[1] + (int(size) if size is not None else len(record.value)) + 1


def rows_of_records(records: Sequence[Record], requested: frozenset[type] | None) -> Iterator[Row]:
    """Yield the rows for these records, in order. Records that are not lines of journals are skipped."""
    placed_records = [(place, record) for record in records if (place := place_of(record)) is not None]
    for key, group in groupby(placed_records, lambda each: each[0][0]):
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
            yield from rows_of(file.run, file.path.name, lines, starts, requested)
