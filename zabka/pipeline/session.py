"""Spark sessions: quiet, in UTC, with tasks on this interpreter, or on a copy that is sent to remote executors."""

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
"""The exceptions that Spark raises when a job fails."""
LOGGING = Path(__file__).with_name("log4j2.properties")
_FOR_TABLES = {
    # Only one line in a hundred passes the source, so adaptive planning and the compilation of plans would take
    # longer than processing the rows.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Otherwise a step that filters rows by rank before a window would be the only step that is compiled.
    "spark.sql.optimizer.windowGroupLimitThreshold": "-1",
    # Rows partitioned by run are joined without an exchange (`zabka.pipeline.rows`); broadcasting them would need
    # a separate job.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # A string that is not a number, in one line of a journal, becomes null in its row and does not fail the whole
    # job.
    "spark.sql.ansi.enabled": "false",
}
_SMALL_PLANS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m -XX:ReservedCodeCacheSize=240m"
"""Java options for small plans.

Java plans more than it computes, so its optimizing compiler costs more than it gains.

The same is true for the garbage collections by which Java finds the size of Spark's classes. Without that compiler Java
has 48 MB for compiled code; a stream fills them within minutes, and then Java compiles no more. So the size is set to
the default that it has with the compiler.
"""
_NO_FILE_SYSTEM = re.compile(r"Class (?P<name>org\.apache\.hadoop\.fs\.[A-Za-z0-9.]+) not found")
"""Java's message if a URI's file system is in a module that PySpark does not contain."""
_ON_A_CLUSTER = {
    "spark.sql.shuffle.partitions": "200",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "true",
    "spark.sql.autoBroadcastJoinThreshold": str(10 * 1024 * 1024),
}
"""Settings for a cluster: rows are distributed among many cores, and small partitions are combined again."""


class NoSpark(Exception):
    """Spark is not available here, or the master cannot be reached; the message states why."""


def open_session(
    master: str = DEFAULT_MASTER,
    app_name: str = "zabka",
    *,
    ui_port: int = 0,
    directory: Path | None = None,
) -> SparkSession:
    """Open a session that knows `zabka-journal` and `zabka-topic`; with a port, it serves Spark's web page.

    The directory is for the archive that is sent to executors on other machines; by default a temporary one. Raises
    NoSpark without a Java runtime, and if there is no such master.
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
    """Provide a session whose tasks are retried and need what the program `needs` loads. Raises NoSpark."""
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
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={LOGGING.as_uri()} {java}")
    )
    for name, value in settings.items():
        builder = builder.config(name, value)
    # Failures of calls to Java are raised; py4j also logs them on standard error with their stacks, and PySpark
    # does the same for failures of SQL conditions.
    for name in ("py4j", "SQLQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_no_interruption)
    interrupted = signal.getsignal(signal.SIGINT)
    with interpreters(builder, master, directory or Path(tempfile.gettempdir()), needs) as ready:
        try:
            return ready.getOrCreate()
        except Exception as reason:  # Java raises several types of errors; each means that there is no session.
            raise NoSpark(f"no Spark session on {master}: {first_line(reason)}") from None
        finally:
            # Spark's own handler of Ctrl-C calls Java, which fails during another call, and a call is nearly always in
            # progress.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, interrupted)


def stop(spark: SparkSession) -> None:
    """End a session. If Java has already ended, as it does after Ctrl-C on a terminal, do nothing."""
    with suppress(Py4JError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        spark.stop()


def was_interrupted(failed: BaseException) -> bool:
    """Return whether Ctrl-C caused a failure.

    PySpark cleans up after an interrupted call with further calls. If Java also received Ctrl-C these fail, and their
    exception is raised instead.
    """
    before: BaseException | None = failed
    while before is not None and not isinstance(before, KeyboardInterrupt):
        before = before.__context__
    return before is not None


def _is_no_interruption(record: logging.LogRecord) -> bool:
    """Filter out py4j's stack trace of a call that Ctrl-C interrupted.

    py4j does not log it through its own logger; the command reports the interruption itself. While Spark starts, its
    own handler of Ctrl-C is installed, whose call to Java fails.
    """
    return record.msg not in ("KeyboardInterrupt while sending command.", "Exception while sending command.")


def first_line(reason: Exception) -> str:
    """Return an exception's message without the Java stack; for an exception that Java raised, Java's own message."""
    message = reason.java_exception.toString() if isinstance(reason, Py4JJavaError) else str(reason)
    if (lacking := _NO_FILE_SYSTEM.search(message)) is not None:
        return (
            f"the jar of {lacking['name']} is not among Spark's: spark.jars or spark.jars.packages in Spark's "
            "spark-defaults.conf name it (docs/how-to/read-journals-elsewhere.md)"
        )
    return next((line for line in message.splitlines() if line), type(reason).__name__)
