"""Writes a batch to the lake: tasks write its rows to bronze and silver files, and the driver commits all or none.

The write is a map over Arrow batches, which yields descriptions of the files that its tasks wrote. It does not use a
Spark sink, because Spark starts a Python process for each step of planning and committing a sink, three for every batch
of a stream.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame

from zabka.pipeline.entries import check_line
from zabka.pipeline.lake import commits
from zabka.pipeline.lake.commits import Commit, Lines
from zabka.pipeline.lake.silver import typed

QUARANTINED = "__HIVE_DEFAULT_PARTITION__"
"""Directory of lines without a valid type or day. Readers of partitioned directories read this name as null."""
_DAY_US = 86_400_000_000


class Wrote(msgspec.Struct):
    """Files that one task wrote, and the lines in them."""

    files: dict[str, int]
    lines: list[Lines]
    quarantined: int
    latest_us: int


def day_of(wall_us: int | None) -> str:
    """Return the UTC day of a time, or QUARANTINED if the time is not valid."""
    if wall_us is None or not 0 <= wall_us < 253_402_300_800_000_000:
        return QUARANTINED
    return datetime.fromtimestamp(wall_us // 1_000_000, UTC).date().isoformat()


class _Files:
    """Files that one task writes: one in each directory for which it has rows."""

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


def write_batch(frame: DataFrame, lake: Path, batch: int) -> Commit:
    """Write the rows of a batch, which have the columns of `zabka-journal`, and commit the batch.

    If the batch has been committed already, nothing is written. A task that is tried again writes the same files.
    """
    place = commits.path_of(lake, batch)
    if not place.exists():

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            share = 0 if context is None else context.partitionId()
            wrote = _written(batches, lake, f"batch-{batch:09d}-{share:05d}.parquet")
            yield pa.RecordBatch.from_pydict({"wrote": [msgspec.json.encode(wrote)]})

        # Each task returns one row.
        results = frame.mapInArrow(task, "wrote binary").collect()
        wrote = [msgspec.json.decode(bytes(row["wrote"]), type=Wrote) for row in results]
        commits.write(
            lake,
            Commit(
                batch=batch,
                files={name: rows for each in wrote for name, rows in sorted(each.files.items())},
                lines=commits.merged(lines for each in wrote for lines in each.lines),
                quarantined=sum(each.quarantined for each in wrote),
                latest_us=max((each.latest_us for each in wrote), default=0),
            ),
        )
    return commits.decoded(place)


def _written(batches: Iterable[pa.RecordBatch], lake: Path, name: str) -> Wrote:
    files = _Files(lake, name)
    wrote = Wrote({}, [], 0, 0)
    for batch in batches:
        _take(batch, files, wrote)
    files.close()
    wrote.files = dict(files.rows)
    wrote.lines = commits.merged(wrote.lines)
    return wrote


def _take(batch: pa.RecordBatch, files: _Files, wrote: Wrote) -> None:
    rows = pa.Table.from_batches([batch])
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    kinds, walls = rows["type"].to_pylist(), rows["wall_us"].to_pylist()
    for place, (kind, wall_us) in enumerate(zip(kinds, walls, strict=True)):
        places[kind or QUARANTINED, day_of(wall_us)].append(place)
    for (kind, day), chosen in places.items():
        own = rows.take(chosen)
        files.write(f"bronze/type={kind}/day={day}", own.drop_columns(["type"]))
        if kind == QUARANTINED:
            wrote.quarantined += own.num_rows
            continue
        entries = [check_line(body.encode()) for body in own["body"].to_pylist()]
        files.write(f"silver/{kind}/day={day}", typed(kind, own["run"].to_pylist(), entries))
        wrote.latest_us = max(wrote.latest_us, *(entry.wall_us for entry in entries))
        wrote.lines += [
            Lines(run, entry.node, entry.node_seq, entry.node_seq)
            for run, entry in zip(own["run"].to_pylist(), entries, strict=True)
        ]
    wrote.lines = commits.merged(wrote.lines)
