"""Compares zabka's and Apache Kafka's transactions per second and their cost (`make bench-transactions`).

Each of the two clusters has three brokers that use three of zabka's ZooKeeper servers. Topics have three replicas. Each
client is a thread with a transactional producer of librdkafka that runs one transaction after another. Clients and
brokers share the cores, so transactions a second depend on both. CPU time per transaction counts only the brokers and
is more reliable. `python -m bench.transactions WORK`, WORK in JSON, runs the producers of one workload.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import quantiles
from typing import Annotated

import msgspec
import typer
from confluent_kafka import Producer

from bench.kafka import run_clients
from bench.results import Figure, Measurement
from bench.run import Data, Json, Only, Quick, bench_run
from bench.servers import CannotMeasure, KafkaCluster, running_kafka

PRODUCERS, RECORDS = (1, 16), (1, 100)
TOPIC, PARTITIONS, SIZE = "paid", 3, 100
WARM_UP_S, WAIT_S = 8.0, 60.0
FIGURES = (
    Figure("transactions_per_s", "transactions/s", ",.0f", "more"),
    Figure("cpu_us", "CPU µs/transaction", ",.0f"),
    Figure("p50_ms", "p50 ms", ",.1f"),
    Figure("p99_ms", "p99 ms", ",.1f"),
)


class Work(msgspec.Struct, frozen=True):
    """Producers that commit transactions of a given number of records of 100 bytes, spread over three partitions."""

    producers: int
    records: int
    bootstrap: str = ""
    seconds: float = 0.0

    @property
    def title(self) -> str:
        """The name of the workload in the table."""
        return f"{self.producers} producers, {self.records} records each"


class Result(msgspec.Struct):
    """Number of committed transactions, and the duration of each from its start to the response to its commit."""

    transactions: int
    seconds: float
    p50_ms: float
    p99_ms: float


def transact(work: Work) -> Result:
    """Run transactions on all producers for the duration of the workload.  Raises KafkaException if one fails."""
    with ThreadPoolExecutor(work.producers) as threads:
        producers = list(threads.map(lambda number: _started(work, number), range(work.producers)))
        begin = time.perf_counter()
        times_ms = [each for ran in threads.map(lambda producer: _run(work, producer), producers) for each in ran]
        seconds = time.perf_counter() - begin
    cuts = quantiles(times_ms, n=100) if len(times_ms) > 1 else times_ms * 99
    return Result(len(times_ms), seconds, cuts[49], cuts[98])


def _started(work: Work, number: int) -> Producer:
    name = f"bench-{work.producers}-{work.records}-{number}"
    producer = Producer({"bootstrap.servers": work.bootstrap, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(WAIT_S)
    return producer


def _run(work: Work, producer: Producer) -> list[float]:
    """Run one producer's transactions, and return the time of each in ms."""
    times_ms: list[float] = []
    until = time.perf_counter() + work.seconds
    while (begin := time.perf_counter()) < until:
        producer.begin_transaction()
        for number in range(work.records):
            producer.produce(TOPIC, bytes(SIZE), partition=(len(times_ms) + number) % PARTITIONS)
        producer.commit_transaction(WAIT_S)
        times_ms.append((time.perf_counter() - begin) * 1000)
    return times_ms


def measure(cluster: KafkaCluster, work: Work) -> Measurement:
    """Run the producers of a workload and return the measurement.  Raises CannotMeasure."""
    before = cluster.cpu_s()
    title = f"{cluster.title}: {work.title}"
    result = msgspec.json.decode(run_clients("bench.transactions", work, title), type=Result)
    if not result.transactions:
        raise CannotMeasure(f"{title}: not one transaction")
    figures = {
        "transactions_per_s": result.transactions / result.seconds,
        "cpu_us": (cluster.cpu_s() - before) / result.transactions * 1e6,
        "p50_ms": result.p50_ms,
        "p99_ms": result.p99_ms,
    }
    return Measurement(work.title, cluster.side, figures)


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How often each side is measured")] = 3,
    seconds: Annotated[float, typer.Option(min=0.1, help="Duration of each work")] = 6.0,
    only: Only = None,
    quick: Quick = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Compare zabka's transactions with Apache Kafka's: transactions/s, CPU time of all brokers per transaction."""
    if quick:
        rounds, seconds = 1, 0.5
    with bench_run("transactions", as_json, data) as run:
        run.compare("Three brokers, three replicas", FIGURES)
        sides = run.sides("kafka", only)
        for number in range(rounds):
            for side in reversed(sides) if number % 2 else sides:
                with running_kafka(side, run.directory / f"{side}-{number}") as cluster:
                    cluster.create_topic(TOPIC, [[1 + (n + r) % 3 for r in range(3)] for n in range(PARTITIONS)])
                    measure(cluster, Work(PRODUCERS[-1], 1, cluster.bootstrap, min(WARM_UP_S, 2 * seconds)))
                    for producers in PRODUCERS:
                        for records in RECORDS:
                            run.add(measure(cluster, Work(producers, records, cluster.bootstrap, seconds)))


if __name__ == "__main__":
    print(msgspec.json.encode(transact(msgspec.json.decode(sys.argv[1], type=Work))).decode())
