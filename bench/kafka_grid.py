"""Produce and fetch at 1, 16 and 64 clients, small and large records, one partition and 500, ours and Kafka's.

`python -m bench.kafka_grid`: one table.  The same clients (librdkafka, batches of 16 kB) against both, three replicas
on one machine.  Clients and brokers share its cores, so CPU a record, which counts the brokers alone, says more than
records a second.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
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
from bench.progress import BarProgress

CLIENTS = (1, 16, 64)
SIZES = (100, 1_000)
ACKS = ("1", "all")
PARTITIONS = (1, 500)
WARM_S = 4.0
LOAD_S = 240.0
COLUMNS = ("work", "partitions", "bytes", "clients")
FIGURES = ("records/s", "CPU µs/record", "p99 ms")
WIDTH = 160
"""Of the table in a file."""
EXPECTED_S = 2.5
"""Beside its own seconds a work takes so many: its clients start, and wait for their last answers."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


class Work(NamedTuple):
    """One cell of the grid."""

    verb: str
    """`produce acks=1`, `produce acks=all` or `fetch`."""
    partitions: int
    size: int
    clients: int


class Figure(NamedTuple):
    """What one run of it showed."""

    records_per_s: float
    cpu_us: float
    """CPU time of all brokers together, for each record."""
    p99_ms: float


def works() -> list[Work]:
    """Every cell, those of one topic side by side: what was produced is what is fetched."""
    verbs = [*(f"produce acks={acks}" for acks in ACKS), "fetch"]
    return [Work(v, p, s, c) for p in PARTITIONS for s in SIZES for v in verbs for c in CLIENTS]


def run(cluster: KafkaCluster, work: Work, topic: str, seconds: float, at_hand: int) -> tuple[Figure, int]:
    """The figure, and how many records it was of.  Raises CannotMeasure."""
    before = cluster.cpu_s()
    verb, _, acks = work.verb.partition(" acks=")
    own = ["--size", work.size, "--acks", acks] if acks else ["--partitions", work.partitions, "--records", at_hand]
    options = [
        "--bootstrap",
        cluster.bootstrap,
        "--topic",
        topic,
        "--clients",
        work.clients,
        "--seconds",
        seconds,
        *own,
    ]
    command = [sys.executable, "-m", "bench.kafka_clients", verb, *map(str, options)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LOAD_S, check=False)
    if done.returncode:
        raise CannotMeasure(f"{TITLES[cluster.side]}: {work} failed:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    if not found["records"]:
        raise CannotMeasure(f"{TITLES[cluster.side]}: {work}: not one record")
    cpu_us = (cluster.cpu_s() - before) / found["records"] * 1e6
    return Figure(found["records"] / found["seconds"], cpu_us, found["p99_ms"]), found["records"]


def one_round(cluster: KafkaCluster, seconds: float) -> Iterator[tuple[Work, Figure]]:
    """All works, on a topic for each number of partitions and size of records; first some that count for nothing."""
    cluster.create_topic("warm", [[1, 2, 3]])
    warm = Work("produce acks=all", 1, SIZES[0], CLIENTS[1])
    _, sent = run(cluster, warm, "warm", WARM_S, 0)
    run(cluster, warm._replace(verb="fetch"), "warm", WARM_S, sent)
    at_hand: dict[str, int] = {}
    for work in works():
        topic = f"grid-{work.partitions}-{work.size}"
        if topic not in at_hand:
            # Leaders go round, as Kafka deals them out.
            cluster.create_topic(topic, [[1 + (n + r) % 3 for r in range(3)] for n in range(work.partitions)])
            at_hand[topic] = 0
        figure, records = run(cluster, work, topic, seconds, at_hand[topic])
        if work.verb != "fetch":
            at_hand[topic] += records
        yield work, figure


def said(number: int, side: KafkaSide, work: Work, figure: Figure) -> str:
    """A line for whoever waits."""
    what = f"{work.verb}, {work.partitions} partitions, {work.size} B, {work.clients} clients"
    return f"round {number + 1} {TITLES[side]}: {what}: {figure.records_per_s:,.0f}/s, {figure.cpu_us:.1f} µs"


def print_table(console: Console, found: dict[tuple[Work, KafkaSide], list[Figure]], sides: list[KafkaSide]) -> None:
    """One line a work, the sides' medians side by side."""
    table = Table(*COLUMNS, *(f"{figure} {TITLES[side]}" for figure in FIGURES for side in sides))
    for work in works():
        figures = [Figure(*map(median, zip(*found[work, side], strict=True))) for side in sides]
        cells = [f"{f.records_per_s:,.0f}" for f in figures]
        cells += [f"{f.cpu_us:.1f}" for f in figures] + [f"{f.p99_ms:.0f}" for f in figures]
        table.add_row(work.verb, *map(str, work[1:]), *cells)
    console.print(table)


@app.command()
def main(
    rounds: Annotated[int, typer.Option(help="How often each side is measured.", min=1)] = 1,
    seconds: Annotated[float, typer.Option(help="How long each work takes.", min=0.1)] = 4.0,
    sides: Annotated[str, typer.Option(help="Which, separated by commas.")] = "ours,kafka",
) -> None:
    """Print records/s, CPU a record of all brokers together, and the 99th percentile of the latency."""
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    wanted = sides_to_measure(sides.split(","), console)
    found: dict[tuple[Work, KafkaSide], list[Figure]] = {}
    a_work_s = seconds + EXPECTED_S
    bar = BarProgress(Console(stderr=True), rounds * len(wanted) * len(works()) * a_work_s)
    with interruptible(), tempfile.TemporaryDirectory() as directory, bar:
        for number in range(rounds):
            for side in wanted:
                bar.doing(f"round {number + 1}: {TITLES[side]} starts")
                with running_kafka(side, Path(directory) / f"{side}-{number}") as cluster:
                    for work, figure in one_round(cluster, seconds):
                        found.setdefault((work, side), []).append(figure)
                        bar.done(said(number, side, work, figure), a_work_s)
    print_table(console, found, wanted)


if __name__ == "__main__":
    app()
