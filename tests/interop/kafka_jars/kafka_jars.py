"""Download the jars listed in a pom.xml from a Maven repository. They are stored in the virtual environment."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

KAFKA_VERSION = "3.9.1"
POM = Path(__file__).with_name("pom.xml")
KEPT = Path(sys.prefix) / "kafka-jars" / KAFKA_VERSION
STREAMS_POM = POM.with_name("streams.xml")
STREAMS_KEPT = KEPT.with_name(f"streams-{KAFKA_VERSION}")
SPARK_VERSION = "4.0.0"
SPARK_POM = POM.with_name("spark.xml")
SPARK_KEPT = KEPT.with_name(f"spark-{SPARK_VERSION}")
S3A_POM, S3PROXY_POM = POM.with_name("s3a.xml"), POM.with_name("s3proxy.xml")
HADOOP_VERSION, S3PROXY_VERSION = "3.5.0", "3.1.0"
FETCH_S = 600
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


@functools.cache
def classpath() -> str:
    """Return the class path for Kafka and its tools: `java -cp <this> kafka.Kafka server.properties`.

    The first call downloads the jars. Skips the test with a reason if java, mvn or the network is missing.
    """
    return jars(POM, KEPT, f"kafka_2.13-{KAFKA_VERSION}.jar", "Apache Kafka")


@functools.cache
def streams_classpath() -> str:
    """Return the class path of Kafka Streams.

    As in `classpath`, the first call downloads the jars, and the test is skipped if that is not possible.
    """
    return jars(STREAMS_POM, STREAMS_KEPT, f"kafka-streams-{KAFKA_VERSION}.jar", "Kafka Streams")


@functools.cache
def spark_classpath() -> str:
    """Return the class path of Spark with its Kafka source.

    As in `classpath`, the first call downloads the jars, and the test is skipped if that is not possible.
    """
    return jars(SPARK_POM, SPARK_KEPT, f"spark-sql_2.13-{SPARK_VERSION}.jar", "Spark")


@functools.cache
def s3a_jars() -> list[Path]:
    """Return the jars of Hadoop's S3 module and its dependencies.

    As in `classpath`, the first call downloads the jars, and the test is skipped if that is not possible.
    """
    kept = KEPT.with_name(f"hadoop-aws-{HADOOP_VERSION}")
    jars(S3A_POM, kept, f"hadoop-aws-{HADOOP_VERSION}.jar", "Hadoop's S3A")
    return sorted(kept.glob("*.jar"))


@functools.cache
def s3proxy_classpath() -> str:
    """Return the class path of S3Proxy.

    As in `classpath`, the first call downloads the jars, and the test is skipped if that is not possible.
    """
    kept = KEPT.with_name(f"s3proxy-{S3PROXY_VERSION}")
    return jars(S3PROXY_POM, kept, f"s3proxy-{S3PROXY_VERSION}.jar", "S3Proxy")


def jars(pom: Path, kept: Path, one_of_them: str, whose: str) -> str:
    """Return the class path of the jars in a pom.xml.

    The first call downloads them into `kept`. Skips the test as `classpath` does.
    """
    if shutil.which("java") is None:
        pytest.skip(f"java is not installed: {whose} cannot be run")
    if not (kept / one_of_them).exists():
        _fetch(pom, kept, whose)
    return f"{kept}{os.sep}*"


def _fetch(pom: Path, kept: Path, whose: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip(f"mvn is not installed: the jars of {whose} cannot be fetched")
    kept.parent.mkdir(parents=True, exist_ok=True)
    # Download into a temporary directory, and rename it when complete, so that an interrupted download is never used.
    with tempfile.TemporaryDirectory(dir=kept.parent) as directory:
        whole = Path(directory) / "jars"
        command = [
            maven,
            "-B",
            "-q",
            "--color=never",
            "-f",
            str(pom),
            COPY,
            f"-DoutputDirectory={whole}",
            "-DincludeScope=runtime",
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip(f"the jars of {whose} were not there after {FETCH_S} s")
        if done.returncode:
            output = (done.stdout + done.stderr).strip().splitlines()
            pytest.skip(f"the jars of {whose} cannot be fetched: {output[0] if output else done.returncode}")
        if not kept.exists():
            whole.rename(kept)
