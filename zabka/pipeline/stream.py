"""The stream: writes growing journals to the lake, and then updates the gold tables.

Every batch is committed to bronze and silver. Then the tables that depend on its events are computed again. Their plans
are created once (`prepared`), and their rows are read once (`lake.needed`). If the stream is killed at any point, it
processes the same batch again after a restart, and writes the same files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StringType, StructField, StructType

from zabka.pipeline import places, versions
from zabka.pipeline.gold import TABLES, TYPES, Table
from zabka.pipeline.lake import commits, compaction
from zabka.pipeline.lake.commits import Commit
from zabka.pipeline.lake.needed import BODIES, LATEST, SIGN_OF_LIFE, Needed
from zabka.pipeline.lake.reports import REPORTS
from zabka.pipeline.lake.writer import write_batch
from zabka.pipeline.prepared import Prepared
from zabka.pipeline.ranges import SCHEMA
from zabka.pipeline.topic.connection import TopicPlace

TRIGGER = "1 second"
BATCH_S = 120.0
"""Maximum wait for a running batch when the stream is stopped. The first batch takes longest."""
AVAILABILITY_EVERY_S = 4.0
"""Interval in seconds for updating the table `availability`, which changes even without new events.

The stream also checks at this interval whether a clock was stepped.
"""
COMPACTION_BATCHES = compaction.FAN_IN
"""Number of batches between two compactions."""
CHECKPOINT, HELD, ROWS, STATUS, PROGRESS = "_checkpoint", "_held", "_rows.arrow", "_status.json", "_progress.json"
GAPS = "gaps"
_BRONZE = StructType([*(field for field in SCHEMA if field.name != "type"), StructField("type", StringType())])
_GAPS = pa.schema([("run", pa.string()), ("node", pa.string()), ("first", pa.int64()), ("last", pa.int64())])


class LostCheckpoint(Exception):
    """There is a lake, but its stream's read positions are missing."""


class Status(msgspec.Struct, kw_only=True):
    """State of the lake when the gold tables were last computed (`_status.json`). Times are in microseconds."""

    batch: int
    lines: int
    quarantined: int = msgspec.field(name="set_aside")
    latest_us: int
    """Time of the latest journal entry in the lake, in microseconds."""
    written_us: int
    """Time at which the lake's tables were computed, in microseconds."""
    made_ms: int
    """Time from the start of the batch until the tables were computed."""
    broken: dict[str, dict[str, int]]
    """For each table, the violated conditions, and the number of rows that violate each of them."""


class Progress(msgspec.Struct, kw_only=True):
    """Spark's status of the query (`_progress.json`). It is updated while the stream runs, and outdated after a
    kill.
    """

    seen_us: int
    message: str
    batch: int | None = None
    """Number of the last completed batch, to which the other fields refer."""
    rows: int = 0
    rows_per_second: float = 0.0
    durations_ms: dict[str, int] = {}
    """Duration of each step of the batch, by Spark's name for the step."""


def note_progress(query: StreamingQuery, lake: Path) -> None:
    """Store Spark's current status of the query."""
    progress = Progress(seen_us=time.time_ns() // 1000, message=query.status["message"])
    if (last := query.lastProgress) is not None:
        progress.batch, progress.rows = last["batchId"], last["numInputRows"]
        progress.rows_per_second = last["processedRowsPerSecond"] or 0.0
        progress.durations_ms = dict(last["durationMs"])
    _put(lake / PROGRESS, progress)


def _put(place: Path, content: Status | Progress) -> None:
    """Write the content to a file, atomically."""
    aside = place.with_name(f"{place.name}.new")
    aside.write_bytes(msgspec.json.encode(content))
    aside.replace(place)


def read_status(lake: Path) -> Status | None:
    """Return the state of the lake, or None if no stream has written one."""
    try:
        return msgspec.json.decode((lake / STATUS).read_bytes(), type=Status)
    except (OSError, msgspec.MsgspecError):
        return None


def read_lake(spark: SparkSession, lake: Path, kinds: tuple[str, ...] = TYPES) -> DataFrame:
    """Return the rows of a lake that the tables need, in the columns of the source `zabka-journal`.

    These are the lines of some types, the quarantined lines, the latest entries of every run by either clock, and lines
    that show that a node ran. Reports of replicas, of which few are kept, also count as lines that show that a node
    ran.
    """
    bronze = spark.read.schema(_BRONZE).parquet(str(lake / "bronze"))
    chosen = bronze.where(f.col("type").isin(*kinds) | f.col("type").isNull())
    kept = tuple(kind for kind in kinds if kind != REPORTS)
    ends = bronze.where(f.col("type").isNotNull() & ~f.col("type").isin(*kept)).groupBy("run")
    moment = f.struct("wall_us", "mono_us")
    latest = ends.agg(f.max_by(moment, "wall_us").alias("by wall"), f.max_by(moment, "mono_us").alias("by mono"))
    # The two rows have different bodies, so that they do not count as the same entry.
    shown = [latest.select("run", f"`{body}`.*", f.lit(body).alias("body")) for body in BODIES]
    others = (
        shown[0].unionByName(shown[1]).withColumn("type", f.lit(LATEST)).unionByName(_signs_of_life(bronze, kept), True)
    )
    return chosen.unionByName(others, allowMissingColumns=True)


def _signs_of_life(bronze: DataFrame, kinds: tuple[str, ...]) -> DataFrame:
    """Return the lines that show that a node ran, without lines of the types `kinds`.

    For each node, these are the first line after each simulated pause, the last line before each start, and the last
    line.
    """
    fault = f.from_json("body", "kind string, source string, target string")
    pauses = (
        bronze.where("type = 'fault_injected'")
        .select("run", f.col("mono_us").alias("since"), fault.alias("fault"))
        .where("fault.kind = 'pause' AND fault.source = fault.target")
        .select("run", f.col("fault.target").alias("node"), "since")
    )
    columns = ["run", "node", "node_seq", "wall_us", "mono_us"]
    is_other = ~f.col("type").isin(*kinds)
    row = f.struct(*columns[2:])
    first = (
        bronze.where(is_other)
        .select(*columns)
        .join(f.broadcast(pauses), ["run", "node"])
        .where("mono_us > since")
        .groupBy("run", "node", "since")
        .agg(f.min_by(row, "mono_us").alias("row"))
        .select("run", "node", "row.*")
    )
    following = f.lead("type").over(Window.partitionBy("run", "node").orderBy("node_seq"))
    last = (
        bronze.where("type IS NOT NULL")
        .select(*columns, "type", following.alias("following"))
        .where(is_other & (f.col("following").isNull() | (f.col("following") == "node_started")))
        .select(*columns)
    )
    return first.unionByName(last).select("*", f.lit(SIGN_OF_LIFE).alias("type"), f.lit(SIGN_OF_LIFE).alias("body"))


class _Trailing:
    """Processes each batch of the stream: commits it, and updates the tables."""

    def __init__(
        self, spark: SparkSession, lake: Path, wanted: Sequence[Table], done: Callable[[Status], None]
    ) -> None:
        self._lake = lake
        self._wanted = wanted
        self._done = done
        self._availability_s = 0.0
        known = commits.read(lake)
        self._since_compaction = 0
        self._lines = commits.merged(each for commit in known for each in commit.lines)
        self._status = Status(
            batch=max((commit.batch for commit in known), default=-1),
            lines=sum(commit.rows for commit in known),
            quarantined=sum(commit.quarantined for commit in known),
            latest_us=max((commit.latest_us for commit in known), default=0),
            written_us=0,
            made_ms=0,
            broken={},
        )
        self._due = {table.name for table in wanted}
        self._types = {kind for commit in known for kind in commit.types}
        self._needed = Needed(lake, TYPES)
        if (lake / "bronze").is_dir():
            self._needed.load_lake(read_lake(spark, lake).toArrow())
        self._tables = Prepared(spark, lake / ROWS)

    def process_batch(self, frame: DataFrame, batch: int) -> None:
        begin = time.monotonic()
        self._note(write_batch(frame, self._lake, batch))
        self._make(begin)
        self._status.written_us = time.time_ns() // 1000
        self._status.made_ms = int((time.monotonic() - begin) * 1000)
        _put(self._lake / STATUS, self._status)
        versions.vacuum(self._lake, versions.KEPT_S)
        self._compact()
        self._done(self._status)

    def _compact(self) -> None:
        self._since_compaction += 1
        if self._since_compaction >= COMPACTION_BATCHES:
            compaction.compact(self._lake)
            self._since_compaction = 0

    def _note(self, commit: Commit) -> None:
        """Add a commit to the state. A commit that is repeated after a kill does not change the state."""
        self._lines = commits.merged([*self._lines, *commit.lines])
        if commit.batch > self._status.batch:
            self._status.batch = commit.batch
            self._status.lines += commit.rows
            self._status.quarantined += commit.quarantined
            self._needed.add_commit(commit)
        self._status.latest_us = max(self._status.latest_us, commit.latest_us)
        self._types |= commit.types
        self._due |= {table.name for table in self._wanted if table.depends_on(commit.types, self._types)}
        if commit.quarantined:
            self._due.add("bad_lines")
        if time.monotonic() - self._availability_s > AVAILABILITY_EVERY_S:
            self._due |= {"availability", "clock_steps"}

    def _make(self, begin: float) -> None:
        """Compute the tables that must be updated, and publish them as a new version."""
        number, directory = versions.new_version(self._lake)
        self._tables.set_rows(self._needed.rows())
        for table in self._wanted:
            if table.name not in self._due:
                versions.keep(self._lake, number, table.name)
        due = [table for table in self._wanted if table.name in self._due]
        for made in self._tables.make(directory, due, self._types):
            if made.broken:
                self._status.broken[made.name] = made.broken
            else:
                self._status.broken.pop(made.name, None)
        if "availability" in self._due:
            self._availability_s = begin
        missing = [gap._asdict() for gap in commits.gaps(self._lines)]
        (directory / GAPS).mkdir()
        pq.write_table(pa.Table.from_pylist(missing, schema=_GAPS), directory / GAPS / "part-00000.parquet")
        versions.publish(self._lake, number)
        self._due = set()


def start(
    spark: SparkSession,
    place: Path | TopicPlace,
    lake: Path,
    *,
    follow: bool,
    wanted: Sequence[Table] = TABLES,
    done: Callable[[Status], None] = lambda status: None,
) -> StreamingQuery:
    """Start the query that reads journals of a directory or topic into a lake, exactly once.

    It continues where the last run stopped. With `follow` the query continues until it is stopped; otherwise it ends
    when everything that exists has been read. The caller must hold the lake's lock (`versions.locked`). Raises
    LostCheckpoint, versions.NoTable, commits.NewerLake, and ValueError if a commit is damaged.
    """
    commits.check_format(lake)
    if any((lake / commits.COMMITS).glob("*.json")) and not (lake / CHECKPOINT / "metadata").exists():
        raise LostCheckpoint(
            f"{lake} holds a lake, but its {CHECKPOINT}, which says how far the journals were read, is gone: "
            "name another --out, or remove the lake, and everything is read again"
        )
    for name in (*(table.name for table in wanted), GAPS):
        versions.check_table(lake / name)
    compaction.settle(lake)
    source = places.stream(spark, place, lake / HELD)
    writer = (
        source.writeStream.foreachBatch(_Trailing(spark, lake, wanted, done).process_batch)
        .option("checkpointLocation", str(lake / CHECKPOINT))
        .queryName(f"zabka-{lake.name}")
    )
    writer = writer.trigger(processingTime=TRIGGER) if follow else writer.trigger(availableNow=True)
    return writer.start()


def stop_query(query: StreamingQuery) -> None:
    """Stop a query. Wait at most BATCH_S for the end of its current batch.

    An interrupted batch would be repeated later, but Spark would log the interruption with stack traces that do not
    help a user.
    """
    deadline = time.monotonic() + BATCH_S
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(0.1)
    query.stop()


def remove_orphans(lake: Path) -> int:
    """Remove files of batches that were never committed; return how many. Do not call it while a stream runs.

    Raises ValueError if commits are missing or damaged. The uncommitted files are then unknown, and no file is removed.
    """
    compaction.settle(lake)
    known = commits.read(lake)
    if not commits.are_complete(known) or _ended_batches(lake) > (known[-1].batch + 1 if known else 0):
        raise ValueError(f"{lake / commits.COMMITS} lacks commits of batches that ended: no file of theirs is removed")
    named = {name for commit in known for name in commit.files}
    removed = 0
    for tree in compaction.TREES:
        for path in sorted((lake / tree).rglob("*.parquet*")):
            if path.relative_to(lake).as_posix() not in named:
                path.unlink()
                removed += 1
    return removed


def _ended_batches(lake: Path) -> int:
    """Return the number of completed batches according to Spark's checkpoint."""
    ended = (int(path.name) for path in (lake / CHECKPOINT / "commits").glob("*") if path.name.isdigit())
    return 1 + max(ended, default=-1)
