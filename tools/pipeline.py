"""`zabka pipeline …`: the Spark jobs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

jobs_of_spark = typer.Typer(no_args_is_help=True, help="Turn journals into tables with Spark.")
_out = Console()
_err = Console(stderr=True)

Data = Annotated[Path, typer.Option(envvar="ZABKA_DATA", help="A cluster's data directory, or any with journals.")]
Out = Annotated[Path | None, typer.Option(help="Where the Parquet goes; by default DATA/analytics.")]
Master = Annotated[str, typer.Option(help="Any Spark master, such as local[2] or spark://host:7077.")]


@jobs_of_spark.command()
def tables(data: Data = Path(".zabka"), out: Out = None, master: Master = "local[2]") -> None:
    """Read every journal and write controller_reigns, partition_leaderships, isr_changes and availability."""
    from pipeline import jobs
    from pipeline.session import NoJava, open_session
    from pipeline.source import journal_files

    if not data.is_dir() or not journal_files(data):
        _err.print(f"No journals below {data}: start a cluster with `zabka up --data {data}`, or name another --data.")
        raise typer.Exit(2)
    target = out or data / "analytics"
    begin = time.monotonic()
    try:
        with _err.status("starting Spark"):
            spark = open_session(master)
    except NoJava as reason:
        _err.print(str(reason))
        raise typer.Exit(2) from None
    table = Table("table", "rows", title=f"written to {target}")
    with _err.status("reading the journals") as status:
        rows = jobs.write_tables(
            jobs.read_journal(spark, data), target, lambda name, count: status.update(f"{name}: {count} rows")
        )
    for name, count in rows.items():
        table.add_row(name, f"{count:,}")
    _out.print(table)
    if rows["bad_lines"]:
        _err.print(f"{rows['bad_lines']} lines were no entries; they are in {target / 'bad_lines'}")
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
    from pipeline.session import NoJava, open_session

    if not data.is_dir():
        _err.print(f"{data} is no directory: name the cluster's data directory with --data.")
        raise typer.Exit(2)
    target = out or data / "analytics" / "stream"
    try:
        spark = open_session(master)
    except NoJava as reason:
        _err.print(str(reason))
        raise typer.Exit(2) from None
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
