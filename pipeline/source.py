"""Journals as a Spark source, for batches and for streams.

`spark.read.format("zabka-journal").load(DIRECTORY)` gives one row a line; `spark.readStream…` the same as files grow.
A row is either an entry (envelope columns, `type`, and the whole line in `body`) or a bad line (`problem` says why).
The stream's offset is the byte position reached in every file, so a restart from its checkpoint reads every line once:
not a line is skipped, and none is read twice.  A last line without its newline is not there yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import LongType, StringType, StructField, StructType

SCHEMA = StructType(
    [
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
CHUNK_BYTES = 8 * 1024 * 1024

T = TypeVar("T")
Row = tuple[str | None, int | None, int | None, int | None, str | None, str, str, int, str | None]


def journal_files(directory: Path) -> list[Path]:
    """Every journal file below a directory."""
    return sorted(directory.rglob("*.????????????.jsonl"))


class FileRange(InputPartition):
    """A run of bytes of one file."""

    def __init__(self, path: str, begin: int, end: int) -> None:
        self.path = path
        self.begin = begin
        self.end = end


def _ranges(root: Path, begin: dict[str, int], end: dict[str, int]) -> list[FileRange]:
    return [
        FileRange(str(root / name), begin.get(name, 0), end[name])
        for name in sorted(end)
        if end[name] > begin.get(name, 0)
    ]


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


def read_range(part: FileRange) -> Iterator[Row]:
    """The rows of one run of bytes, which begins and ends at line ends."""
    name = Path(part.path).name
    position = part.begin
    with Path(part.path).open("rb") as file:
        file.seek(part.begin)
        while position < part.end:
            line = file.readline()
            if not line:
                return
            yield _row(line, name, position)
            position += len(line)


def _row(line: bytes, file: str, position: int) -> Row:
    text = line.removesuffix(b"\n").decode("utf-8", "replace")
    try:
        raw = json.loads(text)
        return (
            _of(raw, "node", str), _of(raw, "node_seq", int), _of(raw, "wall_us", int), _of(raw, "mono_us", int),
            _of(raw, "type", str), text, file, position, None,
        )  # fmt: skip
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        return (None, None, None, None, None, text, file, position, f"{type(problem).__name__}: {problem}")


def _of(raw: object, key: str, kind: type[T]) -> T:
    if not isinstance(raw, dict):
        raise TypeError("the line is no JSON object")
    value = raw[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{key} is {value!r}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{key} does not fit a column")
    return value


class _BatchReader(DataSourceReader):
    def __init__(self, root: Path) -> None:
        self._root = root

    def partitions(self) -> Sequence[FileRange]:
        ends = {str(path.relative_to(self._root)): complete_bytes(path) for path in journal_files(self._root)}
        return _ranges(self._root, {}, ends)

    def read(self, partition: InputPartition) -> Iterator[Row]:
        assert isinstance(partition, FileRange)
        return read_range(partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, root: Path) -> None:
        self._root = root
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:
        return {}

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends({})

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        # A file never shrinks; one that rotation removed keeps its place in the offset, so that nothing is read twice.
        ends = self._ends(start) if self._target is None else self._target
        return {**start, **{name: max(end, start.get(name, 0)) for name, end in ends.items()}}

    def _ends(self, start: dict[str, int]) -> dict[str, int]:
        return {
            name: complete_bytes(path, start.get(name, 0))
            for path in journal_files(self._root)
            if (name := str(path.relative_to(self._root)))
        }

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[FileRange]:
        return [part for part in _ranges(self._root, start, end) if Path(part.path).exists()]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        assert isinstance(partition, FileRange)
        return read_range(partition)


class JournalSource(DataSource):
    """`zabka-journal`: option `path` is the directory whose journals are read, at any depth."""

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
        return Path(path)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For batches."""
        return _BatchReader(self._root())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For streams."""
        return _StreamReader(self._root())
