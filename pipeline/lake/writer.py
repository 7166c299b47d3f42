"""Spark's sink for the lake: `frame.write.format("zabka-lake").option("batch", N).mode("append").save(LAKE)`.

The frame has the columns of `zabka-journal`.  Tasks write their rows as files of bronze and silver, and Spark's driver
commits them all or none, by `commits`.  A batch that was committed is not written again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pipeline.entries import check_line
from pipeline.lake import commits
from pipeline.lake.commits import Commit, Lines
from pipeline.lake.silver import typed
from pipeline.ranges import SCHEMA

SET_ASIDE = "__HIVE_DEFAULT_PARTITION__"
"""Where lines without a type lie, by the name that readers of partitioned directories take for null."""
_DAY_US = 86_400_000_000


@dataclass
class Wrote(WriterCommitMessage):
    """What one task wrote."""

    files: dict[str, int]
    lines: list[Lines]
    set_aside: int
    latest_us: int


def day_of(wall_us: int | None) -> str:
    """The day of a moment, in UTC; lines without one are of no day."""
    if wall_us is None or not 0 <= wall_us < 253_402_300_800_000_000:
        return SET_ASIDE
    return datetime.fromtimestamp(wall_us // 1_000_000, UTC).date().isoformat()


class _Files:
    """The files of one task: one for each directory that it has rows for."""

    def __init__(self, lake: Path, name: str) -> None:
        self._lake = lake
        self._name = name
        self._writers: dict[str, pq.ParquetWriter] = {}
        self.rows: dict[str, int] = defaultdict(int)

    def write(self, directory: str, rows: pa.Table) -> None:
        file = f"{directory}/{self._name}"
        if file not in self._writers:
            (self._lake / directory).mkdir(parents=True, exist_ok=True)
            self._writers[file] = pq.ParquetWriter(self._aside(file), rows.schema, compression="zstd")
        self._writers[file].write_table(rows)
        self.rows[file] += rows.num_rows

    def _aside(self, file: str) -> Path:
        path = self._lake / file
        return path.with_name(f".{path.name}.new")

    def close(self) -> None:
        for file, writer in self._writers.items():
            writer.close()
            self._aside(file).replace(self._lake / file)


class _Writer(DataSourceArrowWriter):
    def __init__(self, lake: Path, batch: int) -> None:
        self._lake = lake
        self._batch = batch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Wrote:
        context = TaskContext.get()
        share = 0 if context is None else context.partitionId()
        files = _Files(self._lake, f"batch-{self._batch:09d}-{share:05d}.parquet")
        wrote = Wrote(files.rows, [], 0, 0)
        if not commits.path_of(self._lake, self._batch).exists():
            for batch in iterator:
                _take(batch, files, wrote)
            files.close()
        return Wrote(dict(files.rows), commits.merged(wrote.lines), wrote.set_aside, wrote.latest_us)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if commits.path_of(self._lake, self._batch).exists():
            return
        wrote = [each for each in messages if isinstance(each, Wrote)]
        commits.write(
            self._lake,
            Commit(
                batch=self._batch,
                files={name: rows for each in wrote for name, rows in sorted(each.files.items())},
                lines=commits.merged(lines for each in wrote for lines in each.lines),
                set_aside=sum(each.set_aside for each in wrote),
                latest_us=max((each.latest_us for each in wrote), default=0),
            ),
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Leave what was written: nobody names it, and the batch's next try writes the same files."""


def _take(batch: pa.RecordBatch, files: _Files, wrote: Wrote) -> None:
    rows = pa.Table.from_batches([batch])
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    kinds, walls = rows["type"].to_pylist(), rows["wall_us"].to_pylist()
    for place, (kind, wall_us) in enumerate(zip(kinds, walls, strict=True)):
        places[kind or SET_ASIDE, day_of(wall_us)].append(place)
    for (kind, day), chosen in places.items():
        own = rows.take(chosen)
        files.write(f"bronze/type={kind}/day={day}", own.drop_columns(["type"]))
        if kind == SET_ASIDE:
            wrote.set_aside += own.num_rows
            continue
        entries = [check_line(body.encode()) for body in own["body"].to_pylist()]
        files.write(f"silver/{kind}/day={day}", typed(kind, own["run"].to_pylist(), entries))
        wrote.latest_us = max(wrote.latest_us, *(entry.wall_us for entry in entries))
        wrote.lines += [
            Lines(run, entry.node, entry.node_seq, entry.node_seq)
            for run, entry in zip(own["run"].to_pylist(), entries, strict=True)
        ]
    wrote.lines = commits.merged(wrote.lines)


class LakeSink(DataSource):
    """`zabka-lake`: option `path` is the lake's directory, `batch` the number of the batch that is written."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "zabka-lake"

    def schema(self) -> StructType:
        """The columns that it takes: those of `zabka-journal`."""
        return SCHEMA

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """For one batch."""
        return _Writer(Path(self.options["path"]), int(self.options["batch"]))
