"""`zabka pipeline …`: the Spark jobs."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

jobs_of_spark = typer.Typer(no_args_is_help=True, help="Turn journals into tables with Spark.")
_out = Console()
_err = Console(stderr=True)

Data = Annotated[
    Path, typer.Option(envvar="ZABKA_DATA", help="A cluster's data directory, any with journals, or one journal.")
]
Out = Annotated[
    Path | None,
    typer.Option(help="Where the Parquet goes; by default DATA/analytics, or analytics beside a single journal."),
]
Master = Annotated[str, typer.Option(help="Any Spark master, such as local[2] or spark://host:7077.")]


_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/")
"""As `Path` leaves it: with one of its slashes."""


def _local(option: str, path: Path) -> Path:
    """The path from the root, so that it means the same to every task.  Ends the command where it is a URI."""
    if (uri := _URI.match(str(path))) is not None:
        _err.print(
            f"{option} is a URI ({uri['scheme']}://…): journals are read from directories, and tables written to them. "
            "Mount that place, or copy the journals here."
        )
        raise typer.Exit(2)
    return path.resolve()


def _target(out: Path | None, data: Path, name: str) -> Path:
    """Where tables go: as told, below the directory of journals, or beside a single journal."""
    if out is not None:
        return _local("--out", out)
    return (data if data.is_dir() else data.parent) / name


def _session(master: str) -> SparkSession:
    """A session of that master.  Ends the command, with the reason, where there can be none."""
    from pipeline.session import NoJava, open_session

    if master.startswith("sc://"):
        _err.print(
            f"{master} is a Spark Connect server, which does not know the journals: "
            "name the master behind it, such as spark://host:7077."
        )
        raise typer.Exit(2)
    try:
        return open_session(master)
    except NoJava as reason:
        _err.print(str(reason))
        raise typer.Exit(2) from None


@jobs_of_spark.command()
def tables(data: Data = Path(".zabka"), out: Out = None, master: Master = "local[2]") -> None:
    """Read every journal and write controller_reigns, partition_leaderships, isr_changes and availability."""
    from pipeline import jobs
    from pipeline.runs import journal_files

    data = _local("--data", data)
    if not journal_files(data):
        _err.print(f"No journals below {data}: start a cluster with `zabka up --data {data}`, or name another --data.")
        raise typer.Exit(2)
    target = _target(out, data, "analytics")
    begin = time.monotonic()
    with _err.status("starting Spark"):
        spark = _session(master)
    table = Table("table", "rows", title=f"written to {target}")
    with _err.status("reading the journals") as status:
        rows = jobs.write_tables(
            jobs.read_journal(spark, data), target, lambda name, count: status.update(f"{name}: {count} rows")
        )
    for name, count in rows.items():
        table.add_row(name, f"{count:,}")
    _out.print(table)
    if rows["bad_lines"]:
        _err.print(f"{rows['bad_lines']} lines were set aside; {target / 'bad_lines'} says where they are and why")
    _err.print(f"{time.monotonic() - begin:.1f} s")
    spark.stop()


@jobs_of_spark.command()
def stream(
    data: Data = Path(".zabka"),
    out: Out = None,
    master: Master = "local[2]",
    follow: Annotated[bool, typer.Option(help="Go on until interrupted; otherwise end with what is there.")] = False,
) -> None:
    """Stream journals into Parquet, exactly once, from where the last run stopped."""
    from pipeline import jobs

    data = _local("--data", data)
    if not data.exists():
        _err.print(f"There is no {data}: name the cluster's data directory with --data.")
        raise typer.Exit(2)
    target = _target(out, data, "analytics/stream")
    spark = _session(master)
    queries = jobs.stream_events(spark, data, target, follow=follow)
    _err.print(f"streaming {data} into {target}" + ("; Ctrl-C ends it" if follow else ""))
    try:
        for query in queries:
            query.awaitTermination()
    except KeyboardInterrupt:
        for query in queries:
            query.stop()
    spark.stop()


def main(arguments: list[str]) -> int:
    """Run one of the jobs; the exit code."""
    jobs_of_spark(arguments, prog_name="zabka pipeline")
    return 0
