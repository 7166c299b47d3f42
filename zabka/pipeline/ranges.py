"""Reads byte ranges of journal files as rows for Spark: whole lines, in batches of columns.

A block of lines is decoded at once: if all of them are entries, as they nearly always are, each line costs one step of
Python. If a block contains a line that is not an entry, its lines are checked one by one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType

from zabka.pipeline.entries import ENTRIES, LINE_BYTES_MAX, SHOWN_CHARACTERS, Refused, check_line, check_lines

SCHEMA = StructType(
    [
        StructField("run", StringType()),
        StructField("node", StringType()),
        StructField("node_seq", LongType()),
        StructField("wall_us", LongType()),
        StructField("mono_us", LongType()),
        StructField("type", StringType()),
        StructField("body", StringType()),
        StructField("file", StringType()),
        StructField("position", LongType()),
        StructField("problem", StringType()),
    ]
)
_LONGS = {"node_seq", "wall_us", "mono_us", "position"}
ARROW_SCHEMA = pa.schema([(name, pa.int64() if name in _LONGS else pa.string()) for name in SCHEMA.names])
BLOCK_BYTES = LINE_BYTES_MAX
"""Size of a block. A line that does not end within a block is longer than any line that a node writes."""
SHARE_BYTES = 16 * 1024 * 1024
UNREADABLE = "the file cannot be read"
"""Beginning of the error message for a file that cannot be read, which has no rows."""
BATCH_ROWS = 20_000
BATCH_BYTES = 16 * 1024 * 1024
_FAULT, _START = ENTRIES["fault_injected"], ENTRIES["node_started"]
_NAMES = {kind: name for name, kind in ENTRIES.items()}

Row = tuple[str, str | None, int | None, int | None, int | None, str | None, str, str, int, str | None]


class FileRange(NamedTuple):
    """A range of bytes of one file, which begins and ends at line ends."""

    run: str
    path: str
    begin: int
    end: int


class Block(NamedTuple):
    """Whole lines of a file, without their newlines, and the position of the first one."""

    position: int
    lines: list[bytes]


class LongLine(NamedTuple):
    """A line that is too long to be read: its position, its beginning, and its size."""

    position: int
    begin: bytes
    size: int


class Share(InputPartition):
    """The work of one task: byte ranges to read, and the event types of the rows to return (None for all)."""

    def __init__(self, ranges: list[FileRange], types: frozenset[str] | None) -> None:
        self.ranges = ranges
        self.types = types


def shares(ranges: list[FileRange], types: frozenset[str] | None) -> list[Share]:
    """Split the ranges into shares of about SHARE_BYTES. Long ranges are split, short ones combined."""
    pieces = [piece for part in ranges for piece in _pieces(part)]
    made: list[Share] = []
    size = SHARE_BYTES
    for piece in pieces:
        if size >= SHARE_BYTES:
            made.append(Share([], types))
            size = 0
        made[-1].ranges.append(piece)
        size += piece.end - piece.begin
    return made


def _pieces(part: FileRange) -> Iterator[FileRange]:
    begin = part.begin
    # Do not split a removed file. The task that reads it reports the removal.
    if part.end - begin > SHARE_BYTES * 3 // 2 and Path(part.path).exists():
        with Path(part.path).open("rb") as file:
            while part.end - begin > SHARE_BYTES * 3 // 2:
                file.seek(begin + SHARE_BYTES)
                while (rest := file.readline(BLOCK_BYTES)) and not rest.endswith(b"\n"):
                    pass
                yield part._replace(begin=begin, end=(cut := file.tell()))
                begin = cut
    if part.end > begin:
        yield part._replace(begin=begin)


def complete_bytes(path: Path, begin: int = 0) -> int:
    """Return the position at which a file's last complete line ends. Raises OSError if the file cannot be read."""
    size = path.stat().st_size
    with path.open("rb") as file:
        while size > begin:
            step = max(begin, size - BLOCK_BYTES)
            file.seek(step)
            found = file.read(size - step).rfind(b"\n")
            if found >= 0:
                return step + found + 1
            size = step
    return begin


def blocks(file: BinaryIO, begin: int, end: int) -> Iterator[Block | LongLine]:
    """Yield the lines of a byte range of an open file."""
    position = begin
    while position < end:
        file.seek(position)
        data = file.read(min(BLOCK_BYTES, end - position))
        cut = data.rfind(b"\n")
        if cut >= 0:
            yield Block(position, data[:cut].split(b"\n"))
            position += cut + 1
            continue
        size = len(data)
        while (more := file.readline(BLOCK_BYTES)) and not more.endswith(b"\n"):
            size += len(more)
        if not more:
            return
        size += len(more)
        yield LongLine(position, data, size)
        position += size


def read_share(share: Share) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task's share."""
    return batches(row for part in share.ranges for row in read_range(part, share.types))


def batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Group rows into batches of columns for Spark."""
    held: list[Row] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row[6])
        if len(held) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield _batch(held)
            held, size = [], 0
    if held:
        yield _batch(held)


def _batch(rows: list[Row]) -> pa.RecordBatch:
    columns = [_column(column, field.type) for column, field in zip(zip(*rows, strict=True), ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return the array that `pa.array` returns, without loading pandas, which costs each Python worker 0.5 s."""
    absent = values.count(None)
    if absent == len(values):
        return pa.nulls(absent, kind)
    if absent:
        return pa.array(values, kind)
    if pa.types.is_integer(kind):
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(array("q", values))])
    texts = [value.encode() for value in values]
    ends = array("i", accumulate(map(len, texts), initial=0))
    return pa.Array.from_buffers(kind, len(texts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))])


def read_range(part: FileRange, types: frozenset[str] | None = None) -> Iterator[Row]:
    """Yield the rows of one byte range.

    With `types`, rows of other types are skipped, with two exceptions: the latest row of each block by either clock,
    which shows how long the history lasts, and the rows that show that a node ran (`_signs_of_life`). A file that was
    removed after it was found yields no rows; a file that cannot be read yields a row with the reason.
    """
    name = Path(part.path).name
    try:
        with Path(part.path).open("rb") as file:
            yield from read_file(part.run, name, file, (part.begin, part.end), types)
    except FileNotFoundError:
        return
    except OSError as reason:
        yield _quarantined(part.run, b"", name, part.begin, f"{UNREADABLE}: {part.path}: {reason.strerror}")


def read_file(
    run: str, name: str, file: BinaryIO, part: tuple[int, int], types: frozenset[str] | None = None
) -> Iterator[Row]:
    """Yield the rows of a part of an open file, between two positions."""
    requested = requested_classes(types)
    for block in blocks(file, *part):
        if isinstance(block, LongLine):
            yield long_line(run, name, block)
        else:
            lengths = accumulate(map(len, block.lines), initial=block.position)
            starts = [start + newlines for newlines, start in enumerate(lengths)]
            yield from rows_of(run, name, block.lines, starts, requested)


def requested_classes(types: frozenset[str] | None) -> frozenset[type] | None:
    """Return the classes of the entries that have these types, and the class of quarantined lines.

    None stands for all types or classes.
    """
    return None if types is None else frozenset([Refused, *(ENTRIES[each] for each in types if each in ENTRIES)])


def rows_of(
    run: str, file: str, lines: Sequence[bytes], starts: Sequence[int], requested: frozenset[type] | None
) -> Iterator[Row]:
    """Yield the rows for some lines of a file. `starts` contains the position of each line."""
    found: Sequence[Any] = check_lines(lines) or [check_line(line) for line in lines]
    for place in range(len(found)) if requested is None else _chosen(found, requested):
        entry, line = found[place], lines[place]
        if type(entry) is Refused:
            yield _quarantined(run, line, file, starts[place], entry.reason)
        else:
            yield (
                run, entry.node, entry.node_seq, entry.wall_us, entry.mono_us, _NAMES[type(entry)], line.decode(),
                file, starts[place], None,
            )  # fmt: skip


def long_line(run: str, file: str, line: LongLine) -> Row:
    """Return the row for a line that is too long to be read."""
    return _quarantined(run, line.begin, file, line.position, f"a line of {line.size:,} bytes")


def _chosen(found: Sequence[Any], requested: frozenset[type]) -> list[int]:
    """Return the indexes of the lines of a block that are needed.

    These are requested and quarantined lines, the latest entries by either clock, and the entries that show that a node
    ran (`_signs_of_life`).
    """
    kinds = [type(entry) for entry in found]
    chosen = {place for place, kind in enumerate(kinds) if kind in requested}
    places = [place for place, kind in enumerate(kinds) if kind is not Refused] if Refused in kinds else None
    entries = found if places is None else [found[place] for place in places]
    if not entries:
        return sorted(chosen)
    walls, monos = [entry.wall_us for entry in entries], [entry.mono_us for entry in entries]
    more = {walls.index(max(walls)), monos.index(max(monos)), *_signs_of_life(entries)}
    return sorted(chosen | (more if places is None else {places[place] for place in more}))


def _signs_of_life(entries: Sequence[Any]) -> set[int]:
    """Return the indexes of the entries that show that a node ran.

    These are each node's first and last entry, its first entry after each pause, and its last entry before a start. No
    other entry shows that a simulated process resumed, or how long a process ran if its end was not recorded. The pause
    may be in an earlier block, and the start in a later one.
    """
    nodes = [entry.node for entry in entries]
    lasts = dict(zip(nodes, range(len(nodes)), strict=True))
    firsts = dict(zip(reversed(nodes), reversed(range(len(nodes))), strict=True))
    pauses = [place for place, entry in enumerate(entries) if type(entry) is _FAULT and is_pause(entry)]
    starts = [place for place, entry in enumerate(entries) if type(entry) is _START and place > firsts[nodes[place]]]
    found = {*firsts.values(), *lasts.values()}
    for place in pauses:
        with suppress(ValueError):
            found.add(nodes.index(entries[place].target, place))
    for place in starts:
        found.add(next(before for before in range(place - 1, -1, -1) if nodes[before] == nodes[place]))
    return found


def is_pause(fault: Any) -> bool:
    """Return whether an injected fault pauses a simulated process.

    The host agent of a real cluster reports pauses in another event.
    """
    return bool(fault.kind == "pause" and fault.source == fault.target)


def _quarantined(run: str, line: bytes, file: str, position: int, reason: str) -> Row:
    text = line[: 4 * SHOWN_CHARACTERS].decode("utf-8", "replace")[:SHOWN_CHARACTERS]
    return (run, None, None, None, None, None, text, file, position, reason)
