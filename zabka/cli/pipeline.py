"""`zabka pipeline …`: the Spark jobs that read journals."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import HEAVY_HEAD
from rich.console import Console

from zabka.cli.command_group import PipedGroup
from zabka.cli.piped_console import PipedConsole, print_table
from zabka.cli.spark_connect import no_connect
from zabka.cli.table_formats import Format, print_rows, print_summaries
from zabka.compose.launch import end_soon
from zabka.ensemble.runtime.extras import Lacking, require

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from zabka.pipeline.places import Place
    from zabka.pipeline.stream import Status


jobs_of_spark = typer.Typer(cls=PipedGroup, no_args_is_help=True, help="Turn journals into tables with Spark.")
_out = PipedConsole(soft_wrap=True)
_err = Console(stderr=True, soft_wrap=True)

Data = Annotated[
    Path, typer.Option(envvar="ZABKA_DATA", help="A cluster's data directory, any with journals, or one journal.")
]
Journals = Annotated[
    str,
    typer.Option(
        "--data",
        envvar="ZABKA_DATA",
        help="A directory with journals, or one journal; kafka://HOST:PORT/TOPIC; or a URI that Hadoop's client reads.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="Directory for the Parquet files; by default DATA/analytics, or analytics next to a single journal."
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config", envvar="ZABKA_COMMAND_CONFIG", help="Client settings for kafka://, a Java properties file."
    ),
]
Ui = Annotated[int, typer.Option(min=0, max=65535, help="A port for Spark's own page; 0 for none.")]
Master = Annotated[str, typer.Option(help="Any Spark master, such as local[2] or spark://host:7077.")]
AllowMissing = Annotated[bool, typer.Option("--allow-missing", help="Exit with 0 although journals could not be read.")]


_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/")
"""Matches a URI, also after `Path` has removed one of its slashes."""


def _place(text: str, command_config: Path | None) -> Place:
    """Parse the --data option, the place of the journals. Exit with an error if it is not valid.

    `command_config` has the settings of clients, if the place is a topic.
    """
    from zabka.broker_sim.client_security import read_client_config
    from zabka.broker_sim.configs.config_def import ConfigError
    from zabka.pipeline.places import place_of
    from zabka.pipeline.topic.connection import TopicPlace

    if text.startswith("sc:"):
        raise _refused(f"{text} is a Spark Connect server: use --data for journals and --master for Spark.")
    try:
        place = place_of(text)
        if isinstance(place, TopicPlace) and command_config is not None:
            read_client_config(command_config)
            return place._replace(command_config=str(command_config.resolve()))
        return place
    except (ConfigError, ValueError) as reason:
        raise _refused(str(reason)) from None


def _local(option: str, path: Path) -> Path:
    """Return the absolute form of an option's path, so that all Spark tasks use the same path.

    Exit with an error if the option is a URI.
    """
    if (uri := _URI.match(str(path))) is not None:
        raise _refused(
            f"{option} is a URI ({uri['scheme']}://…): tables change by the renaming of links, which need a directory. "
            "Mount that place, or copy the tables there afterwards."
        )
    return path.resolve()


def _refused(reason: str) -> typer.Exit:
    _err.print(reason, markup=False)
    return typer.Exit(2)


def _target(out: Path | None, data: Place, name: str) -> Path:
    """Return the directory for the output tables.

    By default, the tables are in the journals' directory, or next to the journal if `data` is a single one. `out`
    replaces this default.
    """
    if out is not None:
        return _local("--out", out)
    if not isinstance(data, Path):
        raise _refused(f"{data} is not a directory of this machine. Name the directory for the tables with --out")
    return (data if data.is_dir() else data.parent) / name


def _session(master: str, ui_port: int, directory: Path) -> SparkSession:
    """Return a Spark session with this master. Exit with an error message if it cannot be started."""
    from zabka.pipeline.packed import NotPacked
    from zabka.pipeline.session import NoSpark, open_session

    if (connect := no_connect(master)) is not None:
        raise _refused(connect)
    try:
        return open_session(master, ui_port=ui_port, directory=directory)
    except (NoSpark, NotPacked) as reason:
        raise _refused(str(reason)) from None


@contextmanager
def _answered() -> Iterator[None]:
    """If the Spark job in this context fails, print the reason in one sentence and exit."""
    from zabka.pipeline import stream as job
    from zabka.pipeline import versions
    from zabka.pipeline.session import FAILURES, first_line, was_interrupted

    try:
        yield
    except (versions.InUse, job.LostCheckpoint, OSError, ValueError, *FAILURES) as reason:
        if was_interrupted(reason):
            raise KeyboardInterrupt from None
        is_sparks = isinstance(reason, FAILURES)
        _err.print(f"The Spark job failed: {first_line(reason)}" if is_sparks else str(reason), markup=False)
    else:
        return
    raise typer.Exit(2)


@jobs_of_spark.command()
def tables(
    data: Journals = ".zabka",
    command_config: CommandConfig = None,
    out: Out = None,
    master: Master = "local[2]",
    ui: Ui = 0,
    allow_missing: AllowMissing = False,
) -> None:
    """Read every journal and write the tables: controller terms, failovers, leaderships, ISRs, losses and more.

    The output ends with a summary: the ends of controller terms, failovers, downtime by partition, lost records, and
    transactions by outcome.
    Exit code 1 if a table violates a rule, or if a journal cannot be read.
    """
    from zabka.pipeline import jobs
    from zabka.pipeline.session import stop
    from zabka.pipeline.summary import summary_of

    place = _place(data, command_config)
    with _answered():
        target = _target(out, place, "analytics")
    _check_journals(place)
    begin = time.monotonic()
    with _err.status("starting Spark"):
        spark = _session(master, ui, target)
    try:
        with _answered(), _err.status("reading the journals") as status:
            written = jobs.write_tables(
                jobs.read_journal(spark, place), target, lambda name, count: status.update(f"{name}: {count:,} rows")
            )
    finally:
        stop(spark)
    _out.print(f"written to {target}")
    print_table(("table", "rows"), ((name, f"{count:,}") for name, count in written.rows.items()), HEAVY_HEAD)
    for line in summary_of(target):
        _out.print(line, markup=False, highlight=False)
    if quarantined := written.rows["bad_lines"]:
        _err.print(f"{quarantined:,} lines were quarantined; {target / 'bad_lines'} lists them with the reason")
    _print_unreadable(written.unreadable)
    for run, node, step_ms in written.clock_steps:
        _err.print(
            f"The wall clock of {node} was stepped by {step_ms / 1000:+,.1f} s (run {run}): its monotonic clock "
            "decides, and its times are those without the step.",
            markup=False,
        )
    _print_broken(written.broken)
    _err.print(f"{time.monotonic() - begin:.1f} s")
    if written.broken or (written.unreadable and not allow_missing):
        raise typer.Exit(1)


def _check_journals(place: Place) -> None:
    """Exit with an error if a local directory has no journals."""
    from zabka.pipeline.runs import journal_files

    with _answered():
        none = isinstance(place, Path) and not journal_files(place)
    if none:
        raise _refused(
            f"No journals in {place}: start a cluster with `zabka up --data {place}`, or name another --data."
        )


def _print_unreadable(reasons: list[str]) -> None:
    for reason in reasons:
        _err.print(f"A journal is missing in the tables: {reason}", markup=False)


@jobs_of_spark.command()
def show(
    table: Annotated[str, typer.Argument(help="Name of the table, such as failovers.")],
    data: Journals = ".zabka",
    command_config: CommandConfig = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory with the tables of an earlier run; by default DATA/analytics, if it has any."),
    ] = None,
    where: Annotated[str | None, typer.Option(help='SQL condition on the columns: "total_ms > 1000".')] = None,
    form: Annotated[Format, typer.Option("--format", help="Form of the output.")] = Format.TEXT,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Read the journals again, although an earlier run wrote tables.")
    ] = False,
    master: Master = "local[2]",
    allow_missing: AllowMissing = False,
) -> None:
    """Print a table, of an earlier run of `tables` or `stream`, or built from the journals of --data.

    Rows of an earlier table are printed without starting Spark, unless --where is given. The text of `incidents` is a
    summary of each incident: what happened, why, and what it cost. The text of other tables omits columns that repeat
    another one: times in microseconds, and the columns `cluster_run` and `simulated_run`. Exit code 1 if a journal
    cannot be read.
    """
    place = _place(data, command_config)
    if fresh and out is not None:
        raise _refused("--fresh reads the journals, and --out names tables of an earlier run: leave one of them out.")
    with _answered():
        stored = None if fresh else _stored(table, place, out)
        rows, unreadable = (
            _built_rows(table, place, where, master)
            if stored is None
            else (_stored_rows(table, stored, where, master), [])
        )
    if table == "incidents" and form is Format.TEXT:
        print_summaries(rows.to_pylist())
    else:
        print_rows(rows.column_names, rows.to_pylist(), form)
    _print_unreadable(unreadable)
    if unreadable and not allow_missing:
        raise typer.Exit(1)


def _stored(table: str, place: Place, out: Path | None) -> Path | None:
    """Return the directory with the table of an earlier run; None if the journals must be read."""
    from zabka.pipeline.selected import stored_tables
    from zabka.pipeline.versions import OLDER_NAMES

    if out is not None:
        return _local("--out", out)
    if not isinstance(place, Path) or not place.is_dir():
        return None
    if OLDER_NAMES.get(table, table) not in stored_tables(place / "analytics"):
        return None
    age_s = time.time() - (place / "analytics" / OLDER_NAMES.get(table, table)).stat().st_mtime
    _err.print(f"{place / 'analytics' / table}, {age_s:.0f} s old; --fresh reads the journals again")
    return place / "analytics"


def _stored_rows(table: str, out: Path, where: str | None, master: str) -> pa.Table:
    from zabka.pipeline.selected import stored_rows, stored_rows_where
    from zabka.pipeline.session import stop

    if where is None:
        return stored_rows(out, table)
    with _err.status("starting Spark"):
        spark = _session(master, 0, out)
    try:
        return stored_rows_where(spark, out, table, where)
    finally:
        stop(spark)


def _built_rows(table: str, place: Place, where: str | None, master: str) -> tuple[pa.Table, list[str]]:
    """Build a table from journals. Return its rows, and an error message for each journal that could not be read."""
    from zabka.pipeline.jobs import read_journal
    from zabka.pipeline.selected import built_rows, check_name, unreadable_journals
    from zabka.pipeline.session import stop

    check_name(table)
    _check_journals(place)
    with _err.status("starting Spark"), TemporaryDirectory(prefix="zabka-") as directory:
        spark = _session(master, 0, Path(directory))
        try:
            journal = read_journal(spark, place)
            return built_rows(journal, table, where), unreadable_journals(journal)
        finally:
            stop(spark)


@jobs_of_spark.command()
def stream(
    data: Journals = ".zabka",
    command_config: CommandConfig = None,
    out: Out = None,
    master: Master = "local[2]",
    follow: Annotated[
        bool, typer.Option(help="Run until interrupted; otherwise stop at the end of the journals.")
    ] = False,
    while_up: Annotated[
        bool, typer.Option("--while-up", help="With --follow: stop when the cluster of --data has stopped.")
    ] = False,
    ui: Ui = 0,
) -> None:
    """Read journals into a lake, exactly once, continuing where the last run stopped, and update the tables."""
    from zabka.pipeline import stream as job
    from zabka.pipeline import versions
    from zabka.pipeline.places import Uri
    from zabka.pipeline.session import stop

    place = _place(data, command_config)
    if isinstance(place, Uri):
        raise _refused(f"{place}: a stream reads a directory of this machine or a topic. Use `tables` for such a URI.")
    with _answered():
        lake = _target(out, place, "analytics")
        exists = not isinstance(place, Path) or place.exists()
    if not exists:
        raise _refused(f"There is no {place}: name the cluster's data directory with --data.")
    if while_up and not isinstance(place, Path):
        raise _refused("--while-up needs the cluster's data directory as --data.")
    with _answered(), versions.locked(lake):
        with _err.status("starting Spark"):
            spark = _session(master, ui, lake)
        try:
            with _asked_to_end() as asked:
                _err.print(f"streaming {place} into {lake}" + ("; press Ctrl-C to stop" if follow else ""))
                query = job.start(spark, place, lake, follow=follow, done=_print_status)
                while not query.awaitTermination(1) and not asked.is_set():
                    job.note_progress(query, lake)
                    if while_up and isinstance(place, Path) and not _is_up(place):
                        # The cluster has stopped. It may have written its last lines after the last check, so read all
                        # files once more.
                        job.stop_query(query)
                        query, while_up = job.start(spark, place, lake, follow=False, done=_print_status), False
            if asked.is_set():
                _err.print("stopping after the current batch")
            job.stop_query(query)
        finally:
            (lake / job.PROGRESS).unlink(missing_ok=True)
            stop(spark)


@contextmanager
def _asked_to_end() -> Iterator[Event]:
    """Yield an event that Ctrl-C and SIGTERM set. Otherwise, the signal would interrupt a call to Java.

    SIGTERM also limits the time until this process ends, so that it does not hold the lake's lock for ever.
    """
    asked = Event()

    def end(number: int, _: FrameType | None) -> None:
        asked.set()
        if number == signal.SIGTERM:
            end_soon()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, end)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_status(status: Status) -> None:
    lag_s = (status.written_us - status.latest_us) / 1e6
    _err.print(
        f"batch {status.batch}: {status.lines:,} lines, {status.quarantined:,} quarantined; tables written in "
        f"{status.made_ms / 1000:.1f} s, {lag_s:.1f} s after the latest entry"
    )
    _print_broken(status.broken)


def _print_broken(broken: dict[str, dict[str, int]]) -> None:
    for name, rules in broken.items():
        for rule, count in rules.items():
            _err.print(f"{name}: rule violated in {count:,} rows: {rule}")


def _is_up(data: Path) -> bool:
    from zabka.compose.files import load_run

    run = load_run(data)
    if run is None:
        return False
    try:
        os.kill(run.agent_pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@jobs_of_spark.command()
def publish(
    topic: Annotated[str, typer.Argument(help="kafka://HOST:PORT/TOPIC; the topic must exist.")],
    data: Data = Path(".zabka"),
    command_config: CommandConfig = None,
    follow: Annotated[
        bool, typer.Option(help="Run until interrupted; otherwise stop at the end of the journals.")
    ] = False,
) -> None:
    """Publish journals to a Kafka topic, each line once, continuing at the topic's end.

    The pipeline's Spark jobs read the topic if --data is the same kafka:// address.
    """
    import asyncio

    from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
    from zabka.pipeline.runs import journal_files
    from zabka.pipeline.topic.alone import NotAlone
    from zabka.pipeline.topic.connection import LostRecords, TopicPlace
    from zabka.pipeline.topic.publish import Recreated
    from zabka.pipeline.topic.publish import publish as published

    place, root = _place(topic, command_config), _local("--data", data)
    if not isinstance(place, TopicPlace):
        raise _refused(f"{topic} names no topic. Use kafka://HOST:PORT/TOPIC")
    with _answered():
        none = not journal_files(root)
    if none and not follow:
        raise _refused(f"No journals in {root}: name another --data.")
    try:
        with _err.status("reading the end of the topic") as line:
            done = asyncio.run(
                published(root, place, follow=follow, progress=lambda lines: line.update(f"{lines:,} lines published"))
            )
    except KeyboardInterrupt:
        _err.print("stopped. The same command continues where the topic ends")
    except (KafkaUnavailable, KafkaRequestFailed, LostRecords, Recreated, NotAlone, OSError) as reason:
        raise _refused(str(reason)) from None
    else:
        cut = f"; of {done.cut:,} only the beginning, because brokers reject longer lines" if done.cut else ""
        _out.print(f"{done.lines:,} lines published{cut}")


@jobs_of_spark.command()
def status(data: Data = Path(".zabka"), out: Out = None) -> None:
    """Print the state of the tables: rows, age, missing lines and violated rules."""
    from zabka.pipeline import versions

    with _answered():
        lake = _target(out, _local("--data", data), "analytics")
        number = versions.current(lake)
        if number:
            _print_tables(lake, number)
            return
    _err.print(f"There are no tables in {lake}: create them with `zabka pipeline tables` or `zabka pipeline stream`.")
    raise typer.Exit(2)


def _print_tables(lake: Path, number: int) -> None:
    import pyarrow.parquet as pq

    from zabka.pipeline import stream as job
    from zabka.pipeline import versions
    from zabka.pipeline.gold import NAMES

    made = versions.directory_of(lake, number)
    _out.print(f"version {number} of {lake}, {time.time() - made.stat().st_mtime:.0f} s old")
    found = [name for name in (*NAMES, job.GAPS) if (made / name).is_dir()]
    counts = [sum(pq.read_metadata(path).num_rows for path in (made / name).glob("*.parquet")) for name in found]
    print_table(("table", "rows"), ((name, f"{rows:,}") for name, rows in zip(found, counts, strict=True)), HEAVY_HEAD)
    stands = job.read_status(lake)
    if stands is not None:
        _print_status(stands)
    if (made / job.GAPS).is_dir():
        for gap in pq.read_table(made / job.GAPS).to_pylist():
            _err.print("missing: lines {first:,} to {last:,} of {node}, run {run}".format(**gap))


@jobs_of_spark.command()
def vacuum(
    data: Data = Path(".zabka"),
    out: Out = None,
    older_than_s: Annotated[float, typer.Option(min=0, help="Keep versions that were replaced more recently.")] = 60.0,
) -> None:
    """Remove replaced versions and files of the lake, and files of batches that were never committed to it."""
    from zabka.pipeline import stream as job
    from zabka.pipeline import versions
    from zabka.pipeline.audits.jobs import own_place
    from zabka.pipeline.lake import compaction

    with _answered():
        lake = _target(out, _local("--data", data), "analytics")
        exists = lake.is_dir()
    if not exists:
        _err.print(f"There is no {lake}.")
        raise typer.Exit(2)
    with _answered(), versions.locked(lake):
        # Fail now if the lake has a newer format, before anything is removed.
        files = job.remove_orphans(lake) + compaction.remove_replaced(lake, older_than_s)
        removed = versions.vacuum(lake, older_than_s)
    own = own_place(lake)
    if own.is_dir():
        with _answered(), versions.locked(own):
            removed += versions.vacuum(own, older_than_s)
    _out.print(f"removed {len(removed)} versions and {files} files; version {versions.current(lake)} is current")


@jobs_of_spark.command()
def audit(
    data: Annotated[
        str,
        typer.Argument(
            help="A directory with journals of any number of runs, one journal, or a lake; "
            "kafka://HOST:PORT/TOPIC; or a URI that Hadoop's client reads."
        ),
    ],
    command_config: CommandConfig = None,
    out: Out = None,
    master: Master = "local[2]",
) -> None:
    """Check every invariant on every journal; exit code 1 if one was violated, with causes and replay command."""
    from zabka.cli.audit import audited
    from zabka.pipeline.lake.commits import COMMITS

    place = _place(data, command_config)
    with _answered():
        # Write the audit of a lake into the lake. Write any other audit into the folder `analytics`.
        target = _target(out, place, "." if isinstance(place, Path) and (place / COMMITS).is_dir() else "analytics")
    if (connect := no_connect(master)) is not None:
        raise _refused(connect)
    raise typer.Exit(audited(place, target, master))


def main(arguments: list[str]) -> int:
    """Run one of the pipeline's subcommands; return the exit code."""
    try:
        if "--help" not in arguments:
            require("spark", "the Spark jobs are")
    except Lacking as missing:
        _err.print(f"zabka: {missing}", markup=False, soft_wrap=True)
        return 1
    jobs_of_spark(arguments, prog_name="zabka pipeline")
    return 0
