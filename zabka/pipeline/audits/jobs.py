"""The audit as a Spark job, which checks histories and writes the table `audits`.

One task checks a history in one pass, and tasks get about equal numbers of bytes. The work is therefore linear in
events, and a worker has only one history in memory at a time. Executors read the files at the driver's paths, so their
directory must be mounted everywhere. Histories from a topic or a URI are read as a journal's rows, grouped by run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructField, StructType

from zabka.journal.checkers.cause_chains import NAME as CAUSE_CHAINS
from zabka.journal.checkers.invariants import default_checkers
from zabka.journal.checkers.zab_invariants import zab_checkers
from zabka.journal.events import Entry
from zabka.journal.reader import BadLine
from zabka.journal.sentence_file import read_sentences
from zabka.pipeline import versions
from zabka.pipeline.audits.checking import Verdict, check_history
from zabka.pipeline.audits.histories import History, entries_of, in_order, is_one_file, lines_of, seed_command
from zabka.pipeline.inbox import Inbox

AUDITS = "audits"
SHARE_BYTES = 32 * 1024 * 1024
HELD, VIOLATED, NOT_CHECKED = "held", "violated", "not_checked"
INVARIANTS = (*(checker.name for checker in (*default_checkers(), *zab_checkers())), CAUSE_CHAINS)
SCHEMA = StructType(
    [
        StructField("run", StringType()),
        StructField("invariant", StringType()),
        StructField("verdict", StringType()),
        StructField("checked", LongType()),
        StructField("detail", StringType()),
        StructField("node", StringType()),
        StructField("node_seq", LongType()),
        StructField("at_us", LongType()),
        StructField("chain", ArrayType(StringType())),
        StructField("command", StringType()),
        StructField("events", LongType()),
        StructField("full", BooleanType()),
        StructField("set_aside", LongType()),
    ]
)
"""Columns of `audits`: one row per run and invariant, but one row per violation if the invariant is violated.

`verdict` is held, violated, or not_checked if no event of that history concerned the invariant. `checked` is the number
of checks (null if the checker does not count them). `set_aside` is the number of the run's lines that are not entries.
"""

Row = tuple[Any, ...]


def audit(
    spark: SparkSession, runs: list[History], out: Path, progress: Callable[[int], None] = lambda checked: None
) -> int:
    """Check every history, write the table `out/audits`, and return the number of violations.

    `progress` is called with the number of histories checked so far. The caller must have locked `own_place(out)`
    (`versions.locked`). Raises versions.NoTable if the table's path exists and is not a table.
    """
    versions.check_table(out / AUDITS)
    checked = [0]

    def count_one(row: bytes) -> None:
        checked[0] += 1
        progress(checked[0])

    inbox = spark.sparkContext.accumulator([], Inbox(count_one))
    shares = _shares(runs)

    def task(share: Iterable[list[bytes]]) -> Iterator[Row]:
        for encoded in share:
            for history in encoded:
                yield from rows(msgspec.json.decode(history, type=History))
                inbox.add([b""])

    checked_rows = spark.sparkContext.parallelize(shares, max(1, len(shares))).mapPartitions(task)
    return _written(spark.createDataFrame(checked_rows, SCHEMA), out)


def audit_rows(reported: DataFrame, out: Path) -> int:
    """Check every history in a journal's rows, write the table, and return the number of violations, like `audit`.

    The rows can be from any source; their columns are those of `zabka-journal`.
    """

    arrow = to_arrow_schema(SCHEMA)

    def task(own: pa.Table) -> pa.Table:
        run: str = own["run"][0].as_py()
        bad: list[BadLine] = []
        command = seed_command(Path(run).stem) if is_one_file(run) else None
        found = _rows(run, command, in_order(run, lines_of(own, bad)), bad)
        return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in found], arrow)

    versions.check_table(out / AUDITS)
    return _written(reported.groupBy("run").applyInArrow(task, SCHEMA), out)


def _written(found: DataFrame, out: Path) -> int:
    own = own_place(out)
    number, directory = versions.new_version(own)
    found.write.parquet(str(directory / AUDITS))
    versions.publish(own, number)
    versions.lead(out / AUDITS, f"{own.name}/{AUDITS}")
    versions.vacuum(own, versions.KEPT_S)
    return found.sparkSession.read.parquet(str(directory / AUDITS)).where(f"verdict = '{VIOLATED}'").count()


def own_place(out: Path) -> Path:
    """Return the directory with the versions of the table `audits`.

    It is a separate directory, so that an audit does not wait for the stream that writes the other tables of `out`.
    """
    return out / f"_{AUDITS}"


def _shares(runs: list[History]) -> list[list[bytes]]:
    """Distribute histories to tasks, the largest first. Each task has about SHARE_BYTES, or a single history."""
    shares: list[list[bytes]] = []
    size = SHARE_BYTES
    for run in sorted(runs, key=lambda run: -run.size_bytes):
        if size + run.size_bytes > SHARE_BYTES:
            shares.append([])
            size = 0
        shares[-1].append(msgspec.json.encode(run))
        size += run.size_bytes
    return shares


def rows(history: History) -> Iterator[Row]:
    """Yield the rows of the table `audits` for one history."""
    bad: list[BadLine] = []
    return _rows(history.run, history.command, entries_of(history, bad), bad)


def _rows(run: str, command: str | None, entries: Iterable[Entry], bad: list[BadLine]) -> Iterator[Row]:
    verdict = check_history(entries, read_sentences())
    tail = (command, verdict.events, verdict.full, len(bad))
    for invariant in INVARIANTS:
        found = [each for each in verdict.violations if each.invariant == invariant]
        checked = verdict.checked.get(invariant)
        for each in found:
            place = (each.detail, each.node, each.node_seq, each.at_us, each.chain)
            yield (run, invariant, VIOLATED, checked, *place, *tail)
        if not found:
            yield (run, invariant, _unbroken(invariant, verdict), checked, None, None, None, None, None, *tail)


def _unbroken(invariant: str, verdict: Verdict) -> str:
    return NOT_CHECKED if verdict.checked.get(invariant) == 0 or not verdict.events else HELD


def runs_of(out: Path) -> int:
    """Return the number of histories in the table that `audit` wrote to `out`."""
    return len(pq.read_table(out / AUDITS, columns=["run"])["run"].unique())


def violations_of(out: Path) -> list[dict[str, Any]]:
    """Return every violation in the table that `audit` wrote to `out`, sorted by run and time."""
    found: list[dict[str, Any]] = pq.read_table(out / AUDITS, filters=[("verdict", "=", VIOLATED)]).to_pylist()
    return sorted(found, key=lambda row: (row["run"], row["at_us"]))
