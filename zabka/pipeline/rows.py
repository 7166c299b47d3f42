"""Rows of a journal for all tables. Intermediate results that several tables need are computed once.

On one machine the rows of a run are in one partition, in memory (or on disk if they do not fit), and so are all results
computed from them. Then grouping, ordering or joining by run and other columns needs no exchange, and a table is one
stage. On a cluster an intermediate result is written as Parquet and read again, so that it survives the machine that
computed it. In both cases, the plans that use a result begin with its stored rows. (With Spark's cache, each table's
plan would still contain the plans of all earlier frames, and planning took longer than the work.)
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from zabka.pipeline.masters import is_local
from zabka.pipeline.stepped_clocks import without_steps


class Journal:
    """Rows of a journal (the columns of `zabka-journal`), and frames computed from them. It is thread-safe.

    An event that was written twice counts once. On a cluster frames are stored in a directory that all its machines can
    read: `stage`, or by default a local temporary directory, which is removed when the process exits.

    `types` are the event types of the rows of a small journal, which the driver has read; otherwise None.
    """

    def __init__(
        self, source: DataFrame, stage: Path | None = None, types: AbstractSet[str | None] | None = None
    ) -> None:
        if stage is None:
            stage = Path(tempfile.mkdtemp(prefix="zabka-"))
            # Remove the directory only at exit, because frames that read it can outlive this object.
            atexit.register(shutil.rmtree, stage, ignore_errors=True)
        self.stage = stage
        self.types = types
        self._in_memory = is_local(str(source.sparkSession.sparkContext.master))
        self._source = self._laid(source)
        self._lock = Lock()
        self._made: dict[str, tuple[Lock, list[DataFrame]]] = {}
        self._reading: Future[None] | None = None

    @property
    def rows(self) -> DataFrame:
        """All rows of the journal, with wall clocks corrected for their steps (`stepped_clocks`).

        The journals are read once, at the first use. On one machine they are read in the background, so that the caller
        can plan tables; `read` waits for them.
        """
        rows = self.once("rows", lambda: without_steps(_without_duplicates(self._source)))
        self._start_reading(rows)
        return rows

    def _start_reading(self, rows: DataFrame) -> None:
        with self._lock:
            if self._in_memory and self.types is None and self._reading is None:
                thread = ThreadPoolExecutor(1)
                self._reading = thread.submit(_fill, rows)
                thread.shutdown(wait=False)

    def read(self) -> None:
        """Wait until the rows that the background thread reads have been read. Raises Spark's exception if this
        fails.
        """
        if self._reading is not None:
            self._reading.result()

    def break_off(self) -> None:
        """Cancel the running Spark jobs."""
        self._source.sparkSession.sparkContext.cancelAllJobs()

    def once(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """Return the frame of that name. `make` creates it at the first call."""
        with self._lock:
            lock, made = self._made.setdefault(name, (Lock(), []))
        with lock:
            if not made:
                made.append(self._kept(name, make()))
        return made[0]

    def in_order(self, frame: DataFrame, order: Sequence[str]) -> DataFrame:
        """Sort the rows by `order`, which begins with `run`. On one machine, the rows of each run are in one
        partition.
        """
        return frame.sortWithinPartitions(*order) if self._in_memory else frame.orderBy(*order)

    def _laid(self, source: DataFrame) -> DataFrame:
        return source.repartition("run") if self._in_memory else source

    def _kept(self, name: str, frame: DataFrame) -> DataFrame:
        if self._in_memory:
            return frame.localCheckpoint(eager=False)
        place = str(self.stage / name)
        frame.write.parquet(place)
        return frame.sparkSession.read.schema(frame.schema).parquet(place)


def _fill(kept: DataFrame) -> None:
    """Compute the rows of a cached frame, so that they are in the cache.

    Counting the rows would also do this, but needs a second Spark stage.
    """
    kept.write.format("noop").mode("overwrite").save()


def _without_duplicates(rows: DataFrame) -> DataFrame:
    """Remove the duplicates of events. Quarantined lines are never duplicates."""
    place = f.when(f.col("problem").isNotNull(), f.concat_ws("@", "file", "position"))
    return rows.withColumn("place", place).dropDuplicates(["run", "node", "node_seq", "body", "place"]).drop("place")
