"""Journals as a Spark source, for batches and for streams.

`spark.read.format("zabka-journal").load(DIRECTORY)` gives one row a line; `spark.readStream…` the same as files grow.
A row is either an entry (its run, envelope columns, `type`, and the whole line in `body`) or a line that was set aside
(`problem` says why, and `body` shows how it begins).  Option `types`, names with commas between, leaves the rows of all
other types out, but for the last line of each share of the work: so it shows where a journal ends.  All lines are
checked all the same.

The stream's offset is the byte position reached in every file, so a restart from its checkpoint reads every line once:
not a line is skipped, and none is read twice.  A last line without its newline is not there yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pipeline.entries import LINE_BYTES_MAX, SHOWN_CHARACTERS, Refused, check_line
from pipeline.runs import JournalFile, journal_files, without_copies

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
CHUNK_BYTES = 8 * 1024 * 1024
SHARE_BYTES = 16 * 1024 * 1024
BATCH_ROWS = 10_000
BATCH_BYTES = 16 * 1024 * 1024

Row = tuple[str, str | None, int | None, int | None, int | None, str | None, str, str, int, str | None]


class FileRange(NamedTuple):
    """A run of bytes of one file, which begins and ends at line ends."""

    run: str
    path: str
    begin: int
    end: int


class Share(InputPartition):
    """What one task reads: some runs of bytes, and of which types it gives rows (None for all)."""

    def __init__(self, ranges: list[FileRange], types: frozenset[str] | None) -> None:
        self.ranges = ranges
        self.types = types


def shares(ranges: list[FileRange], types: frozenset[str] | None) -> list[Share]:
    """The ranges as shares of about SHARE_BYTES: a long one in pieces, short ones together."""
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
    with Path(part.path).open("rb") as file:
        while part.end - begin > SHARE_BYTES * 3 // 2:
            file.seek(begin + SHARE_BYTES)
            while (rest := file.readline(CHUNK_BYTES)) and not rest.endswith(b"\n"):
                pass
            yield part._replace(begin=begin, end=(cut := file.tell()))
            begin = cut
    if part.end > begin:
        yield part._replace(begin=begin)


def complete_bytes(path: Path, begin: int = 0) -> int:
    """How far into a file its last complete line ends."""
    size = path.stat().st_size
    with path.open("rb") as file:
        while size > begin:
            step = max(begin, size - CHUNK_BYTES)
            file.seek(step)
            found = file.read(size - step).rfind(b"\n")
            if found >= 0:
                return step + found + 1
            size = step
    return begin


def read_share(share: Share) -> Iterator[pa.RecordBatch]:
    """The rows of a share."""
    rows: list[Row] = []
    size = 0
    for part in share.ranges:
        for row in read_range(part, share.types):
            rows.append(row)
            size += len(row[6])
            if len(rows) >= BATCH_ROWS or size >= BATCH_BYTES:
                yield _batch(rows)
                rows, size = [], 0
    if rows:
        yield _batch(rows)


def _batch(rows: list[Row]) -> pa.RecordBatch:
    columns = [
        pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), ARROW_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


def read_range(part: FileRange, types: frozenset[str] | None = None) -> Iterator[Row]:
    """The rows of one run of bytes."""
    name = Path(part.path).name
    position = part.begin
    with Path(part.path).open("rb") as file:
        file.seek(position)
        while position < part.end:
            line = file.readline(LINE_BYTES_MAX)
            if not line:
                return
            after = position + len(line)
            if not line.endswith(b"\n"):
                while (more := file.readline(LINE_BYTES_MAX)) and not more.endswith(b"\n"):
                    after += len(more)
                after += len(more)
                yield _aside(part.run, line, name, position, f"a line of {after - position:,} bytes")
            else:
                line = line[:-1]
                found = check_line(line)
                if isinstance(found, Refused):
                    yield _aside(part.run, line, name, position, found.reason)
                elif types is None or found.type in types or after >= part.end:
                    yield (
                        part.run, found.node, found.node_seq, found.wall_us, found.mono_us, found.type, line.decode(),
                        name, position, None,
                    )  # fmt: skip
            position = after


def _aside(run: str, line: bytes, file: str, position: int, reason: str) -> Row:
    text = line[: 4 * SHOWN_CHARACTERS].decode("utf-8", "replace")[:SHOWN_CHARACTERS]
    return (run, None, None, None, None, None, text, file, position, reason)


class _BatchReader(DataSourceReader):
    def __init__(self, root: Path, types: frozenset[str] | None) -> None:
        self._root = root
        self._types = types

    def partitions(self) -> Sequence[Share]:
        files = without_copies(journal_files(self._root))
        return shares(
            [FileRange(file.run, str(file.path), 0, complete_bytes(file.path)) for file in files], self._types
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share)
        return read_share(partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, root: Path, types: frozenset[str] | None) -> None:
        self._root = root
        self._types = types
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:
        return {}

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends({})

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        # A file never shrinks; one that rotation removed keeps its place in the offset, so that nothing is read twice.
        ends = self._ends(start) if self._target is None else self._target
        return {**start, **{name: max(end, start.get(name, 0)) for name, end in ends.items()}}

    def _files(self) -> dict[str, JournalFile]:
        return {_name(self._root, file.path): file for file in journal_files(self._root)}

    def _ends(self, start: dict[str, int]) -> dict[str, int]:
        return {name: complete_bytes(file.path, start.get(name, 0)) for name, file in self._files().items()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Share]:
        files = self._files()
        ranges = [
            FileRange(files[name].run, str(files[name].path), start.get(name, 0), end[name])
            for name in sorted(end)
            if name in files and end[name] > start.get(name, 0)
        ]
        return shares(ranges, self._types)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share)
        return read_share(partition)


def _name(root: Path, path: Path) -> str:
    return path.name if path == root else str(path.relative_to(root))


class JournalSource(DataSource):
    """`zabka-journal`: option `path` is the directory whose journals are read, at any depth, or one file."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "zabka-journal"

    def schema(self) -> StructType:
        """The columns: one row holds one line of a journal."""
        return SCHEMA

    def _root(self) -> Path:
        path = self.options.get("path")
        if not path:
            raise ValueError("zabka-journal needs a path: the directory whose journals are to be read")
        # Tasks do not run where the driver does: the path must not hang on a working directory.
        return Path(path).resolve()

    def _types(self) -> frozenset[str] | None:
        types = self.options.get("types")
        return frozenset(types.split(",")) if types else None

    def reader(self, schema: StructType) -> DataSourceReader:
        """For batches."""
        return _BatchReader(self._root(), self._types())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For streams."""
        return _StreamReader(self._root(), self._types())
