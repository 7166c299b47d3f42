"""Creates Spark sessions without log output, in UTC.

Tasks run in this Python interpreter, or in a copy of it that is sent to the executors.
"""

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

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from zabka.pipeline.masters import interpreters, is_local, tried_again
from zabka.pipeline.packed import JOURNALS
from zabka.pipeline.prepared import find_classes_once
from zabka.pipeline.source import JournalSource
from zabka.pipeline.topic.source import TopicSource

DEFAULT_MASTER = "local[2]"
FAILURES = (PySparkException, Py4JError)
"""Exceptions that PySpark raises when a job fails."""
LOGGING = Path(__file__).with_name("log4j2.properties")
_FOR_TABLES = {
    # The source returns only one line in a hundred, so adaptive planning and the compilation of plans would take longer
    # than the processing of the rows.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Evaluate operators with objects instead of closures, which Spark would inspect and serialize one by one.
    "spark.sql.execution.usePartitionEvaluator": "true",
    # Disable the step that filters rows by rank before a window: it would be the only step that is compiled.
    "spark.sql.optimizer.windowGroupLimitThreshold": "-1",
    # Rows partitioned by run are joined without an exchange (`zabka.pipeline.rows`), while a broadcast would need a
    # separate job.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # If a number field contains a string in one line of a journal, set it to null in that row instead of failing the
    # whole job.
    "spark.sql.ansi.enabled": "false",
}
_SMALL_PLANS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m -XX:ReservedCodeCacheSize=240m"
"""Java options for small plans.

Java spends more time on planning than on computing, so its optimizing compiler costs more than it gains. For the same
reason, the initial size for Spark's classes is set: without this option, Java finds the size by several garbage
collections. Without the optimizing compiler, Java reserves 48 MB for compiled code. A stream fills this space within
minutes, and then Java compiles no more, so the size is set to the default that Java has with that compiler.
"""
_FIRST_JARS = (
    "spark-catalyst_", "spark-core_", "spark-sql_", "spark-common-utils_", "spark-sql-api_", "spark-unsafe_",
    "scala-library-",
)  # fmt: skip
"""Jars with most of the classes that Java loads."""
_NO_FILE_SYSTEM = re.compile(r"Class (?P<name>org\.apache\.hadoop\.fs\.[A-Za-z0-9.]+) not found")
"""Java's error message if a URI's file system is in a module that PySpark does not contain."""
_ON_A_CLUSTER = {
    "spark.sql.shuffle.partitions": "200",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "true",
    "spark.sql.autoBroadcastJoinThreshold": str(10 * 1024 * 1024),
}
"""Settings for a cluster: rows are distributed among many cores, and small partitions are combined."""


class NoSpark(Exception):
    """Spark is not available here, or the master cannot be reached. The message states why."""


def open_session(
    master: str = DEFAULT_MASTER,
    app_name: str = "zabka",
    *,
    ui_port: int = 0,
    directory: Path | None = None,
) -> SparkSession:
    """Open a session with the sources `zabka-journal` and `zabka-topic`.

    With a port, Spark's web UI is enabled. `directory` is for the archive that is sent to executors on other machines;
    by default it is a temporary one. Raises NoSpark if there is no Java runtime, or no such master.
    """
    ui = {"spark.ui.enabled": str(ui_port > 0).lower(), "spark.ui.port": str(ui_port)}
    settings = _FOR_TABLES if is_local(master) else _FOR_TABLES | _ON_A_CLUSTER
    spark = _session(master, app_name, directory, JOURNALS, {**settings, **ui}, _SMALL_PLANS)
    for source in (JournalSource, TopicSource):
        spark.dataSource.register(source)
    find_classes_once(spark)
    return spark


@contextmanager
def a_session(
    master: str, app_name: str, directory: Path, needs: str, settings: Mapping[str, str]
) -> Iterator[SparkSession]:
    """Yield a session whose tasks are retried.

    Its executors have every package that the program `needs` (RUNS, JOURNALS or AUDITS) loads. Raises NoSpark.
    """
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
    if first := _class_path():
        builder = builder.config("spark.driver.extraClassPath", first)
    for name, value in settings.items():
        builder = builder.config(name, value)
    # py4j logs failures of calls to Java with their stack traces on standard error, and so does PySpark for invalid SQL
    # conditions. Disable this, because the failures are also raised.
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
            # Remove Spark's own Ctrl-C handler. It calls Java, which fails during another call, and a call is nearly
            # always in progress.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, interrupted)


def _class_path() -> str:
    """Return the class path with Spark's jars that Java should search first.

    Java searches 280 jars in order for each class, and loads thousands of classes. The path is empty for a Spark with
    its own configuration, which can contain a class path.
    """
    home = Path(pyspark.__file__).parent
    if {"SPARK_HOME", "SPARK_CONF_DIR"} & os.environ.keys() or (home / "conf").exists():
        return ""
    return os.pathsep.join(str(path) for name in _FIRST_JARS for path in (home / "jars").glob(f"{name}*.jar"))


def stop(spark: SparkSession) -> None:
    """Stop a session. If Java has already exited, as it does after Ctrl-C on a terminal, do nothing."""
    with suppress(Py4JError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        spark.stop()


def was_interrupted(failed: BaseException) -> bool:
    """Return whether Ctrl-C caused a failure.

    PySpark cleans up after an interrupted call with further calls. If Java also received Ctrl-C, these calls fail, and
    their exception is raised instead.
    """
    before: BaseException | None = failed
    while before is not None and not isinstance(before, KeyboardInterrupt):
        before = before.__context__
    return before is not None


def _is_no_interruption(record: logging.LogRecord) -> bool:
    """Logging filter that drops py4j's stack trace of a call that Ctrl-C interrupted.

    py4j does not log the stack trace through its own logger; the command reports the interruption itself. While Spark
    starts, its own Ctrl-C handler is installed, and the handler's call to Java fails.
    """
    return record.msg not in ("KeyboardInterrupt while sending command.", "Exception while sending command.")


def first_line(reason: Exception) -> str:
    """Return an exception's message without the Java stack trace. For a Java exception, return Java's own message."""
    message = reason.java_exception.toString() if isinstance(reason, Py4JJavaError) else str(reason)
    if (lacking := _NO_FILE_SYSTEM.search(message)) is not None:
        return (
            f"the jar of {lacking['name']} is not among Spark's: spark.jars or spark.jars.packages in Spark's "
            "spark-defaults.conf name it (docs/how-to/read-journals-elsewhere.md)"
        )
    return next((line for line in message.splitlines() if line), type(reason).__name__)
