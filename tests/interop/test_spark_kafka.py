"""Spark's Kafka source reads topics of our brokers, as a batch and as a stream."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.interop_brokers import BrokerCluster, broker_cluster
from tests.interop.kafka_jars import spark_classpath

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

PROGRAM = Path(__file__).parent / "kafka_jars" / "SparkReads.java"
OPENED = ("java.lang", "java.lang.invoke", "java.net", "java.nio", "java.util", "java.util.concurrent", "sun.nio.ch")
"""Java 17 packages that must be opened for Spark (org.apache.spark.launcher.JavaModuleOptions)."""
PARTITIONS = 3
WITHIN_S = 240


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    spark_classpath()
    with broker_cluster(tmp_path_factory.mktemp("spark")) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("orders", PARTITIONS, 3)])["orders"].result(30)
        yield running


@pytest.fixture(scope="module")
def stored(cluster: BrokerCluster) -> dict[tuple[int, int], tuple[str, str]]:
    """Produce records. Return the key and value of each acknowledged record, keyed by (partition, offset)."""
    return {**produced(cluster, 0, 1500)}


def produced(cluster: BrokerCluster, first: int, count: int) -> dict[tuple[int, int], tuple[str, str]]:
    acknowledged: dict[tuple[int, int], tuple[str, str]] = {}

    def delivered(error: object, message: Any) -> None:
        assert error is None
        place = (message.partition(), message.offset())
        acknowledged[place] = (message.key().decode(), message.value().decode())

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in range(first, first + count):
        producer.produce("orders", key=f"k{number % 50}", value=f"order {number}", on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(30) == 0
    return acknowledged


def read(how: str, cluster: BrokerCluster, directory: Path) -> list[dict[str, Any]]:
    """Run Spark. Return all rows in its output directory, including those of earlier runs."""
    done = subprocess.run(
        [
            "java", "-Xmx600m", "-XX:TieredStopAtLevel=1",
            *(f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in OPENED),
            "-cp", spark_classpath(), str(PROGRAM), how, cluster.bootstrap, "orders",
            str(directory / "rows"), str(directory / "checkpoint"),
        ],
        capture_output=True, text=True, timeout=WITHIN_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for file in (directory / "rows").glob("*.json") for line in file.read_text().splitlines()]


def places(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted((row["partition"], row["offset"]) for row in rows)


def contents(rows: list[dict[str, Any]]) -> dict[tuple[int, int], tuple[str, str]]:
    return {(row["partition"], row["offset"]): (row["key"], row["value"]) for row in rows}


def test_spark_batch_contains_every_record_once_at_its_offset(
    cluster: BrokerCluster, stored: dict[tuple[int, int], tuple[str, str]], tmp_path: Path
) -> None:
    rows = read("batch", cluster, tmp_path)
    assert places(rows) == sorted(stored)
    assert contents(rows) == stored


def test_spark_stream_continues_after_its_checkpoint(
    cluster: BrokerCluster, stored: dict[tuple[int, int], tuple[str, str]], tmp_path: Path
) -> None:
    """A second run of a Spark stream continues after the checkpoint of the first.

    Each run reads the available records in several micro-batches. More records are produced between the runs.
    """
    first = read("stream", cluster, tmp_path)
    assert places(first) == sorted(stored)
    stored |= produced(cluster, 1500, 700)
    both = read("stream", cluster, tmp_path)
    assert places(both) == sorted(stored)
    assert contents(both) == stored
