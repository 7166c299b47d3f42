"""Spark sessions: quiet, in UTC, with tasks on this very interpreter or on what executors elsewhere are sent of it."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from zabka.pipeline.masters import interpreters, is_local, tried_again
from zabka.pipeline.packed import JOURNALS
from zabka.pipeline.source import JournalSource
from zabka.pipeline.topic.source import TopicSource

DEFAULT_MASTER = "local[2]"
FAILURES = (PySparkException, Py4JError)
"""What Spark raises where a job cannot be done."""
LOGGING = Path(__file__).with_name("log4j2.properties")
_FOR_TABLES = {
    # Behind the source there is one line in a hundred: planning again at each step, and compiling each plan, takes
    # longer than the rows do.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # A step that sorts out rows by their rank before a window does is compiled all the same: the only one.
    "spark.sql.optimizer.windowGroupLimitThreshold": "-1",
    # Rows that lie by run meet without an exchange (`zabka.pipeline.rows`); to broadcast them would be a job of its
    # own.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # A text that is no number, in one line of a journal, is null in its row and does not end the job of all rows.
    "spark.sql.ansi.enabled": "false",
}
_SMALL_PLANS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m -XX:ReservedCodeCacheSize=240m"
"""Java plans more than it computes, for rows are few: its optimizing compiler takes more than it gives, and so do the
collections by which it finds out how many classes Spark has.  Without that compiler there are 48 MB for compiled code,
which a stream fills within minutes, and then Java compiles no more: so it is told to be what it is with it."""
_NO_FILE_SYSTEM = re.compile(r"Class (?P<name>org\.apache\.hadoop\.fs\.[A-Za-z0-9.]+) not found")
"""What Java says where a URI's file system is of a module that PySpark does not bring."""
_ON_A_CLUSTER = {
    "spark.sql.shuffle.partitions": "200",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "true",
    "spark.sql.autoBroadcastJoinThreshold": str(10 * 1024 * 1024),
}
"""Where there may be many cores, rows are shared out among them, and small shares put together again."""


class NoSpark(Exception):
    """There can be no Spark here, or the master cannot be reached; the message says why."""


def open_session(
    master: str = DEFAULT_MASTER,
    app_name: str = "zabka",
    *,
    ui_port: int = 0,
    directory: Path | None = None,
) -> SparkSession:
    """A session that knows `zabka-journal` and `zabka-topic`; with a port, it shows Spark's page.

    The directory is for what executors on other machines are sent; by default it is one for temporary files.  Raises
    NoSpark where there is no Java runtime, and where there is no such master.
    """
    ui = {"spark.ui.enabled": str(ui_port > 0).lower(), "spark.ui.port": str(ui_port)}
    settings = _FOR_TABLES if is_local(master) else _FOR_TABLES | _ON_A_CLUSTER
    spark = _session(master, app_name, directory, JOURNALS, {**settings, **ui}, _SMALL_PLANS)
    for source in (JournalSource, TopicSource):
        spark.dataSource.register(source)
    return spark


@contextmanager
def a_session(
    master: str, app_name: str, directory: Path, needs: str, settings: Mapping[str, str]
) -> Iterator[SparkSession]:
    """A session for tasks that need what that program loads, and which are tried again.  Raises NoSpark."""
    given = {"spark.ui.enabled": "false", **settings}
    spark = _session(tried_again(master), app_name, directory, needs, given, _SMALL_PLANS)
    try:
        yield spark
    finally:
        stop(spark)


def _session(
    master: str, app_name: str, directory: Path | None, needs: str, settings: Mapping[str, str], java: str = ""
) -> SparkSession:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise NoSpark(
            "Spark needs Java 17 or newer, and no `java` is on the PATH: install a Java 17 runtime and try again"
        )
    builder = (
        SparkSession.builder.master(master)
        .appName(app_name)
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={LOGGING.as_uri()} {java}")
    )
    for name, value in settings.items():
        builder = builder.config(name, value)
    # What goes wrong in a call to Java is raised; py4j tells it on standard error, too, with all its stacks.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_no_interruption)
    interrupted = signal.getsignal(signal.SIGINT)
    with interpreters(builder, master, directory or Path(tempfile.gettempdir()), needs) as ready:
        try:
            return ready.getOrCreate()
        except Exception as reason:  # Java's come as several types, and each means that there is no session.
            raise NoSpark(f"no Spark session on {master}: {first_line(reason)}") from None
        finally:
            # Spark's own handler of Ctrl-C calls Java, which fails where a call is under way, as it nearly always is.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, interrupted)


def stop(spark: SparkSession) -> None:
    """End a session; where Java has ended before, as it does at Ctrl-C on a terminal, nothing is left to be ended."""
    with suppress(Py4JError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        spark.stop()


def was_interrupted(failed: BaseException) -> bool:
    """Whether Ctrl-C stands behind a failure.  PySpark tidies up behind a call that is broken off, by further calls;
    where Java has heard of Ctrl-C as well these fail, and that is what is raised."""
    before: BaseException | None = failed
    while before is not None and not isinstance(before, KeyboardInterrupt):
        before = before.__context__
    return before is not None


def _is_no_interruption(record: logging.LogRecord) -> bool:
    """Of a call that Ctrl-C breaks off py4j tells with a stack, past its own logger; the command says it itself.  While
    Spark starts its own handler of Ctrl-C is there, whose call to Java is the one that fails."""
    return record.msg not in ("KeyboardInterrupt while sending command.", "Exception while sending command.")


def first_line(reason: Exception) -> str:
    """What an exception says before its stack of Java; of one that Java raised, what Java's own says."""
    said = reason.java_exception.toString() if isinstance(reason, Py4JJavaError) else str(reason)
    if (lacking := _NO_FILE_SYSTEM.search(said)) is not None:
        return (
            f"the jar of {lacking['name']} is not among Spark's: spark.jars or spark.jars.packages in Spark's "
            "spark-defaults.conf name it (docs/how-to/read-journals-elsewhere.md)"
        )
    return next(iter(said.splitlines()), type(reason).__name__)
