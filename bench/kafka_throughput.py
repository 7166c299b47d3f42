"""Records through one broker to three replicas, acks=all: `python -m bench.kafka_throughput`, ours and Kafka's.

The same client (librdkafka) against both, one after the other, several rounds; brokers on the same machine over the
same kind of ensemble.  On a busy machine trust CPU a record before records a second.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from bench.ensembles import ROOT
from bench.interrupts import interruptible
from bench.kafka_clusters import TITLES, KafkaCluster, KafkaSide, running_kafka, sides_to_measure
from bench.load import CannotMeasure

PARTITIONS = 3
LOAD_S = 600.0
PACED_PER_S = 100
PACED_S = 5.0
COLUMNS = ("work", "bytes", "", "records/s", "MB/s", "CPU µs/record", "p50 ms", "p99 ms")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


class Figure(NamedTuple):
    """One run of a client."""

    records_per_s: float
    cpu_us: float
    """CPU time of all brokers together, for each record."""
    p50_ms: float
    p99_ms: float


def load(cluster: KafkaCluster, verb: str, topic: str, **options: object) -> Figure:
    """Run a client to its end.  Raises CannotMeasure where it loses records."""
    before = cluster.cpu_s()
    arguments = [f"--{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "bench.kafka_load", verb, f"--bootstrap={cluster.bootstrap}", f"--topic={topic}"]
    done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=LOAD_S, check=False)
    if done.returncode:
        raise CannotMeasure(f"{TITLES[cluster.side]}: {verb} failed:\n{done.stderr[-2000:]}")
    result = json.loads(done.stdout)
    got = result["acknowledged"]
    if result["failed"] or got < int(str(options.get("records", 0))):
        raise CannotMeasure(f"{TITLES[cluster.side]}: {verb} {topic}: {result}")
    cpu_us = (cluster.cpu_s() - before) / got * 1e6
    return Figure(got / result["seconds"], cpu_us, result["p50_ms"], result["p99_ms"])


def one_round(cluster: KafkaCluster, size: int, records: int) -> dict[str, Figure]:
    """Produce, consume what was produced, then produce at a steady rate."""
    topic = f"speed-{size}"
    cluster.create_topic(topic, [[1, 2, 3]] * PARTITIONS)
    load(cluster, "pace", topic, partitions=PARTITIONS, size=size, rate=100, seconds=2)
    return {
        "produce": load(cluster, "produce", topic, partitions=PARTITIONS, records=records, size=size),
        "consume": load(cluster, "consume", topic, partitions=PARTITIONS, records=records),
        "paced": load(cluster, "pace", topic, partitions=PARTITIONS, size=size, rate=PACED_PER_S, seconds=PACED_S),
    }


def medians(figures: list[Figure]) -> Figure:
    """Field by field."""
    return Figure(*(median(values) for values in zip(*figures, strict=True)))


def print_table(console: Console, found: dict[tuple[KafkaSide, int], list[dict[str, Figure]]]) -> None:
    """One line a work, record size and side."""
    table = Table(*COLUMNS)
    for size in dict.fromkeys(size for _, size in found):
        for work in ("produce", "consume", "paced"):
            for side in dict.fromkeys(side for side, _ in found):
                at = medians([each[work] for each in found[side, size]])
                mb = at.records_per_s * size / 1e6
                latency = ("", "") if work == "consume" else (f"{at.p50_ms:.1f}", f"{at.p99_ms:.1f}")
                rate = f"{at.records_per_s:,.0f}"
                table.add_row(work, str(size), TITLES[side], rate, f"{mb:.1f}", f"{at.cpu_us:.1f}", *latency)
    console.print(table)


@app.command()
def main(
    rounds: Annotated[int, typer.Option(help="How often each side is measured.")] = 3,
    records: Annotated[int, typer.Option(help="Records of 100 bytes; a tenth as many of 1,000 bytes.")] = 300_000,
    sides: Annotated[str, typer.Option(help="Which, separated by commas.")] = "ours,kafka",
) -> None:
    """Print records/s, MB/s, CPU a record of all brokers together, and latency."""
    console = Console()
    wanted = sides_to_measure(sides.split(","), console)
    found: dict[tuple[KafkaSide, int], list[dict[str, Figure]]] = {}
    with interruptible(), tempfile.TemporaryDirectory() as directory:
        for number in range(rounds):
            for side in wanted:
                with running_kafka(side, Path(directory) / f"{side}-{number}") as cluster:
                    for size, count in ((100, records), (1000, records // 10)):
                        found.setdefault((side, size), []).append(one_round(cluster, size, count))
                console.print(f"round {number + 1}: {TITLES[side]} done", style="dim")
    print_table(console, found)


if __name__ == "__main__":
    app()
