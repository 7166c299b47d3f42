"""The audit as a Spark job: histories in, the table `audits` out.

A history is judged by one task, in one pass, and tasks get about equal shares of bytes; so the work is linear in
events, and a worker holds one history at a time.  Executors read the files where the driver sees them, so that their
directory must be mounted everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructField, StructType

from journal.judges.cause_chains import NAME as CAUSE_CHAINS
from journal.judges.invariants import default_checkers
from journal.judges.zab_invariants import zab_checkers
from journal.reader import BadLine
from journal.sentence_file import read_sentences
from pipeline import versions
from pipeline.audits.histories import History, entries_of
from pipeline.audits.judging import Verdict, judge
from pipeline.inbox import Inbox

AUDITS = "audits"
SHARE_BYTES = 32 * 1024 * 1024
HELD, VIOLATED, NOT_JUDGED = "held", "violated", "not_judged"
INVARIANTS = (*(checker.name for checker in (*default_checkers(), *zab_checkers())), CAUSE_CHAINS)
SCHEMA = StructType(
    [
        StructField("run", StringType()),
        StructField("invariant", StringType()),
        StructField("verdict", StringType()),
        StructField("judged", LongType()),
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
"""One row a run and invariant, and of a violated one a row a violation.

`verdict` is held, violated, or not_judged where nothing in that history had to do with it.  `judged` is how often it
was looked at (null where a judge does not count).  `set_aside` are lines of the run that are no entries.
"""

Row = tuple[Any, ...]


def audit(
    spark: SparkSession, runs: list[History], out: Path, tell: Callable[[int], None] = lambda judged: None
) -> int:
    """Judge every history and write `out/audits`; how many violations there are.  `tell` hears how many are judged.

    The caller holds the lock of `own_place(out)` (`versions.locked`).  Raises versions.NoTable where something else
    lies in the table's place.
    """
    versions.check_table(out / AUDITS)
    judged = [0]

    def one_more(row: bytes) -> None:
        judged[0] += 1
        tell(judged[0])

    inbox = spark.sparkContext.accumulator([], Inbox(one_more))
    shares = _shares(runs)

    def task(share: Iterable[list[bytes]]) -> Iterator[Row]:
        for encoded in share:
            for history in encoded:
                yield from rows(msgspec.json.decode(history, type=History))
                inbox.add([b""])

    frame = spark.createDataFrame(
        spark.sparkContext.parallelize(shares, max(1, len(shares))).mapPartitions(task), SCHEMA
    )
    own = own_place(out)
    number, directory = versions.begin(own)
    frame.write.parquet(str(directory / AUDITS))
    versions.publish(own, number)
    versions.lead(out / AUDITS, f"{own.name}/{AUDITS}")
    versions.vacuum(own, versions.KEPT_S)
    return spark.read.parquet(str(directory / AUDITS)).where(f"verdict = '{VIOLATED}'").count()


def own_place(out: Path) -> Path:
    """Where the table's versions lie: an audit does not wait for the stream that writes the other tables of `out`."""
    return out / f"_{AUDITS}"


def _shares(runs: list[History]) -> list[list[bytes]]:
    """Histories by tasks: the largest first, each task's about SHARE_BYTES or one history."""
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
    """The rows of one history."""
    bad: list[BadLine] = []
    verdict = judge(entries_of(history, bad), read_sentences())
    tail = (history.command, verdict.events, verdict.full, len(bad))
    for invariant in INVARIANTS:
        found = [each for each in verdict.violations if each.invariant == invariant]
        judged = verdict.judged.get(invariant)
        for each in found:
            place = (each.detail, each.node, each.node_seq, each.at_us, each.chain)
            yield (history.run, invariant, VIOLATED, judged, *place, *tail)
        if not found:
            yield (history.run, invariant, _unbroken(invariant, verdict), judged, None, None, None, None, None, *tail)


def _unbroken(invariant: str, verdict: Verdict) -> str:
    return NOT_JUDGED if verdict.judged.get(invariant) == 0 or not verdict.events else HELD


def violations_of(out: Path) -> list[dict[str, Any]]:
    """Every violation that `audit` wrote below `out`, run by run in the order of their times."""
    found: list[dict[str, Any]] = pq.read_table(out / AUDITS, filters=[("verdict", "=", VIOLATED)]).to_pylist()
    return sorted(found, key=lambda row: (row["run"], row["at_us"]))
