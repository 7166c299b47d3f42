"""Journals as a Spark source, for batches and for streams.

`spark.read.format("zabka-journal").load(DIRECTORY)` returns one row per line; `spark.readStream…` does the same while
files grow. A row is either an entry (its run, envelope columns, `type`, and the whole line in `body`) or a quarantined
line (`problem` is the reason, and `body` its beginning). The option `types`, names separated by commas, skips the rows
of all other types, except some that show how long each history lasts. All lines are checked nevertheless.

The stream's offset contains the position up to which every file was read, and the file's mark (`positions`), so a
restart from the checkpoint reads every line exactly once. The option `hold` is a directory on the same file system.
Files are linked into it when they are found, and stay there until they are read to their end, even if they are removed
from their original directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from zabka.pipeline.held import Held
from zabka.pipeline.positions import Offset, advance, ranges_between
from zabka.pipeline.ranges import SCHEMA, FileRange, Share, complete_bytes, read_share, shares
from zabka.pipeline.runs import journal_files, without_copies


def _end(path: Path) -> int:
    """Return the position up to which a file can be read; 0 if the file does not exist.

    Return 1 if the file cannot be opened, so that one Spark task gets the file and reports the reason.
    """
    try:
        return complete_bytes(path)
    except FileNotFoundError:
        return 0
    except OSError:
        return 1


def shares_of(root: Path, types: frozenset[str] | None) -> list[Share]:
    """Return all lines of the journals in a directory, divided into shares. Copies of a run are omitted."""
    files = without_copies(journal_files(root))
    return shares([FileRange(file.run, str(file.path), 0, _end(file.path)) for file in files], types)


class _BatchReader(DataSourceReader):
    def __init__(self, root: Path, types: frozenset[str] | None) -> None:
        self._root = root
        self._types = types

    def partitions(self) -> Sequence[Share]:
        # Spark requires at least one share.
        return shares_of(self._root, self._types) or [Share([], self._types)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share)
        return read_share(partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, root: Path, hold: Path | None, types: frozenset[str] | None) -> None:
        self._held = Held(root, hold)
        self._types = types
        self._target: Offset | None = None
        self._all_now = False

    def initialOffset(self) -> Offset:
        return {}

    def prepareForTriggerAvailableNow(self) -> None:
        self._all_now = True

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        # Advance even while a file waits for an earlier file with the same name: the waiting file already existed when
        # all lines were requested.
        if self._target is None or not self._all_now or self._held.waiting:
            self._target = advance(self._held.files_to_go_on_with(start), start)
        return self._target

    def partitions(self, start: Offset, end: Offset) -> Sequence[Share]:
        return shares(ranges_between(self._held.files(start), start, end), self._types)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share)
        return read_share(partition)

    def commit(self, end: Offset) -> None:
        self._held.release(end)


class JournalSource(DataSource):
    """The format `zabka-journal`. The option `path` is a directory with journals at any depth, or one file."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "zabka-journal"

    def schema(self) -> StructType:
        """Return the columns. One row is one line of a journal."""
        return SCHEMA

    def _root(self) -> Path:
        path = self.options.get("path")
        if not path:
            raise ValueError("zabka-journal needs a path: the directory whose journals are to be read")
        # Tasks do not run in the driver's directory, so the path must be absolute.
        return Path(path).resolve()

    def _types(self) -> frozenset[str] | None:
        types = self.options.get("types")
        return frozenset(types.split(",")) if types else None

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for batches."""
        return _BatchReader(self._root(), self._types())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader for streams."""
        hold = self.options.get("hold")
        return _StreamReader(self._root(), Path(hold) if hold else None, self._types())
