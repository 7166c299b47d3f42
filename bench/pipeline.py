"""How fast the pipeline reads journals and makes its tables: `python -m bench.pipeline --lines 1000000`.

The journals are those of simulated runs, each given many names.  Measured are ways to read them (our Python source;
Spark's native text reader with the type looked for in the text and the rest parsed by `from_json`; DuckDB), and the
tables that `zabka pipeline tables` had at first.  CPU seconds are those of this process, the JVM and Python's workers:
they mean the same on a busy machine, where elapsed ones do not.  Spark's start is told apart.  Spark's driver has the
memory that it has unless told otherwise, 1 GB.

`--campaign 100` measures in their place what Spark adds to a hundred simulated runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import duckdb
import typer
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from zabka.pipeline import jobs
from zabka.pipeline.campaign.play import Run, decoded
from zabka.pipeline.campaign.spark_players import spark_players
from zabka.pipeline.gold import TABLES, TYPES
from zabka.pipeline.session import open_session
from zabka.simulation.run import run_with_journal

FIRST_TABLES = ("controller_reigns", "partition_leaderships", "isr_changes", "availability")
_TICKS = os.sysconf("SC_CLK_TCK")


def write_journals(directory: Path, lines: int, seeds: int) -> int:
    """At least so many lines of simulated runs, each run in a file of its own; how many there are."""
    played = [b"".join(run_with_journal(seed, "chaos")[1]) for seed in range(1, seeds + 1)]
    written = copy = 0
    while written < lines:
        for seed, data in enumerate(played, start=1):
            # A copy would count once: each begins with another configuration.
            own = data.replace(b'"tickTime":"500"', b'"tickTime":"500","copy":"%d"' % copy, 1)
            (directory / f"run-{copy:05d}-{seed:02d}.jsonl").write_bytes(own)
            written += own.count(b"\n")
            if written >= lines:
                break
        copy += 1
    return written


def cpu_s() -> float:
    """The CPU time that this process and all its children and theirs have used."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        used[pid] = sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours and pid not in ours}:
        ours |= more
    return sum(used.get(pid, 0) for pid in ours) / _TICKS


@contextmanager
def measured(what: str) -> Iterator[None]:
    """Say how long something took."""
    cpu, begin = cpu_s(), time.perf_counter()
    yield
    print(f"{what:60} {time.perf_counter() - begin:8.1f} s {cpu_s() - cpu:8.1f} CPU-s", flush=True)


def _by_python_source(spark: SparkSession, directory: Path, types: str) -> None:
    reader = spark.read.format("zabka-journal").option("types", types)
    reader.load(str(directory)).write.format("noop").mode("overwrite").save()


def _by_native_text(spark: SparkSession, directory: Path, types: str) -> None:
    """Spark's text reader; the type is looked for in the text before anything is parsed."""
    lines = spark.read.text(f"{directory}/*.jsonl").withColumn("file", f.col("_metadata.file_path"))
    wanted = lines.where(f.col("value").rlike(f'"type":"({types.replace(",", "|")})"'))
    envelope = "node STRING, node_seq BIGINT, wall_us BIGINT, mono_us BIGINT, type STRING, zxid BIGINT"
    parsed = wanted.select("file", f.from_json("value", envelope).alias("e"), "value")
    parsed.select("file", "e.*", "value").write.format("noop").mode("overwrite").save()


def _by_native_json(spark: SparkSession, directory: Path, types: str) -> None:
    """Spark's JSON reader, with the filter pushed down to it."""
    envelope = "node STRING, node_seq BIGINT, wall_us BIGINT, mono_us BIGINT, type STRING, zxid BIGINT, isr ARRAY<INT>"
    lines = spark.read.schema(envelope).json(f"{directory}/*.jsonl")
    lines.where(f.col("type").isin(*types.split(","))).write.format("noop").mode("overwrite").save()


def _by_duckdb(_: SparkSession, directory: Path, types: str) -> None:
    columns = {"type": "VARCHAR", "node": "VARCHAR", "wall_us": "BIGINT", "zxid": "BIGINT", "ephemerals": "VARCHAR[]"}
    connection = duckdb.connect(config={"threads": 2})
    rows = connection.read_json(f"{directory}/*.jsonl", format="newline_delimited", columns=columns, filename=True)
    rows.filter(f"type IN ({', '.join(map(repr, types.split(',')))})").fetchall()


def _campaign(runs: int, cores: int, seconds: float) -> None:
    """A campaign on Spark, and the same seeds by `zabka simulate`, which measures nothing of them.

    Spark's CPU seconds are of all processes, and `simulate`'s of the runs alone.
    """
    own: list[float] = []
    settings = ("drawn.topics=false", f"harm.ms={int(seconds * 1000)}")
    some = [Run(0, seed, "chaos", settings) for seed in range(1, runs + 1)]
    with (
        tempfile.TemporaryDirectory(prefix="zabka-bench-") as made,
        spark_players(f"local[{cores}]", Path(made)) as players,
    ):
        # The first ones start Python's workers.
        players(some[: 2 * cores], lambda row: None)
        before, begin = cpu_s(), time.perf_counter()
        players(some, lambda row: own.append(decoded(row).cpu_s))
        spent, took = cpu_s() - before, time.perf_counter() - begin
    print(f"{runs} runs, {cores} at a time: {took:.1f} s, {spent:.1f} CPU-s, of which the runs {sum(own):.1f} CPU-s")
    asked = [sys.executable, "-m", "zabka.cli.main", "simulate", "--json", "--seeds", f"1-{runs}", "--jobs", str(cores)]
    asked += [word for setting in settings for word in ("--set", setting)]
    # It ends with 1 where a seed found a violation, which is no matter here.
    told = json.loads(subprocess.run(asked, check=False, capture_output=True, text=True).stdout)
    print(f"the same by `zabka simulate`: {told['wall_s']:.1f} s, of which the runs {told['cpu_s']:.1f} CPU-s")
    print(f"Spark adds {took / told['wall_s'] - 1:.1%} of time, {spent / sum(own) - 1:.1%} of CPU seconds", flush=True)


READERS: dict[str, Callable[[SparkSession, Path, str], None]] = {
    "our source, the types that all tables need": _by_python_source,
    "Spark's text reader, filtered, then from_json": _by_native_text,
    "Spark's JSON reader, filter pushed down": _by_native_json,
    "DuckDB's JSON reader, filtered": _by_duckdb,
}


def main(
    lines: Annotated[int, typer.Option(help="So many lines of journal, at least")] = 1_000_000,
    seeds: Annotated[int, typer.Option(help="Of so many seeds")] = 12,
    readers: Annotated[bool, typer.Option(help="Compare the ways to read, too")] = True,
    rounds: Annotated[int, typer.Option(help="The first one warms Java up")] = 2,
    campaign: Annotated[int, typer.Option(help="In place of all that: a campaign of so many runs")] = 0,
    cores: Annotated[int, typer.Option(help="So many tasks of a campaign at a time")] = 2,
) -> None:
    """Measure."""
    if campaign:
        _campaign(campaign, cores, seconds=20)
        return
    with tempfile.TemporaryDirectory(prefix="zabka-bench-") as made:
        directory, out = Path(made) / "journals", Path(made) / "out"
        directory.mkdir()
        count = write_journals(directory, lines, seeds)
        size = sum(path.stat().st_size for path in directory.iterdir())
        print(f"{count:,} lines, {size / 1e6:,.0f} MB, {len(list(directory.iterdir()))} files")
        with measured("Spark's start"):
            spark = open_session("local[2]")
        try:
            first = [table for table in TABLES if table.name in FIRST_TABLES]
            sources = ",".join(sorted({kind for table in first for kind in table.sources}))
            for number in range(1, rounds + 1):
                for name, read in READERS.items() if readers else ():
                    with measured(f"round {number}: {name}"):
                        read(spark, directory, ",".join(TYPES))
                with measured(f"round {number}: the first four tables"):
                    jobs.write_tables(jobs.read_journal(spark, directory, sources), out, wanted=first)
                with measured(f"round {number}: all {len(TABLES)} tables"):
                    jobs.write_tables(jobs.read_journal(spark, directory), out)
        finally:
            spark.stop()


if __name__ == "__main__":
    typer.run(main)
