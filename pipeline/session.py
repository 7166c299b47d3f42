"""The Spark session: local by default, quiet, in UTC, with workers on this very interpreter."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.source import JournalSource

DEFAULT_MASTER = "local[2]"
LOGGING = Path(__file__).with_name("log4j2.properties")


class NoJava(Exception):
    """Spark needs a Java runtime and there is none."""


def open_session(master: str = DEFAULT_MASTER, app_name: str = "zabka") -> SparkSession:
    """A session that knows the `zabka-journal` source.  Raises NoJava where there is no Java runtime."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise NoJava(
            "Spark needs Java 17 or newer, and no `java` is on the PATH: install a Java 17 runtime and try again"
        )
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = (
        SparkSession.builder.master(master)
        .appName(app_name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={LOGGING.as_uri()}")
        .getOrCreate()
    )
    spark.dataSource.register(JournalSource)
    return spark
