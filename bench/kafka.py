"""Throughput and latency of zabka's brokers compared with Apache Kafka's: `make bench-kafka`.

Each side has three brokers that use three of zabka's ZooKeeper servers. Topics have three replicas, and clients use
librdkafka. Clients and brokers share the cores, so records per second depend on both. CPU time per record counts only
the brokers and is more reliable. `python -m bench.kafka WORK`, WORK in JSON, runs the clients of one workload in a
separate process, so that their CPU time is not counted as a broker's.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from statistics import quantiles
from typing import Annotated, Any

import msgspec
import typer
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.results import Figure, Measurement
from bench.run import Data, Json, Only, Quick, bench_run
from bench.servers import ROOT, CannotMeasure, KafkaCluster, client_security, running_kafka

SIZES, ACKS, CLIENTS, PARTITIONS = (100, 1_000), ("1", "all"), (1, 16, 64), (1, 500)
"""Record sizes, acks settings, client counts and partition counts. `--grid` measures all combinations."""
FEW, PACED_PER_S = 3, 100
"""Number of partitions without `--grid`, and records per second of the producer with a fixed rate."""
WARM_UP_S, LOAD_S_MAX = 4.0, 240.0
IN_FLIGHT = 20_000
"""Maximum number of unacknowledged records of all clients.  With more, latency would be mainly time in the client's
queue.
"""
TURN, READ_AT_ONCE, SAMPLE_EVERY = 100, 5_000, 20
FLUSH_S, WAIT_S, REST_S = 60.0, 30.0, 0.001  # An idle client sleeps, because the brokers need its CPU core.
FIGURES = (
    Figure("records_per_s", "records/s", ",.0f", "more"),
    Figure("mb_per_s", "MB/s", ",.1f", "more"),
    Figure("cpu_us", "CPU µs/record", ",.1f"),
    Figure("p50_ms", "p50 ms", ",.1f"),
    Figure("p99_ms", "p99 ms", ",.1f"),
)


class Work(msgspec.Struct, frozen=True):
    """A workload: clients that produce, at full speed or at a fixed rate, or that fetch previously produced records."""

    acks: str
    """The producer's acks setting; empty if the workload is a fetch."""
    partitions: int
    size: int
    clients: int = 1
    rate: int = 0
    """Records per second to send; 0 for as many as the brokers accept."""
    bootstrap: str = ""
    topic: str = ""
    seconds: float = 0.0
    records: int = 0
    """Number of records in the topic, if the workload is a fetch."""
    authority: str = ""
    """The certificate that verifies the brokers, or "" without TLS."""

    @property
    def title(self) -> str:
        """The name of the workload in the table."""
        verb = f"produce acks={self.acks}" if self.acks else "fetch"
        paced = f", {self.rate}/s" if self.rate else ""
        return f"{verb}, {self.partitions} partitions, {self.size} B, {self.clients} clients{paced}"


def works(grid: bool) -> list[Work]:
    """Return the workloads to measure.

    These are a producer, a consumer and a producer with a fixed rate for each record size or, with `grid`, for each
    combination of the grid.
    """
    if not grid:
        cells = (("all", 0), ("", 0), ("all", PACED_PER_S))
        return [Work(acks, FEW, size, rate=rate) for size in SIZES for acks, rate in cells]
    return [Work(a, p, s, c) for p in PARTITIONS for s in SIZES for a in (*ACKS, "") for c in CLIENTS]


class Result(msgspec.Struct):
    """Number of records, time taken and latency that the clients of a workload measured.

    A producer's latency is from its queue to the acknowledgement; a consumer's is the latency of its requests to the
    slowest broker.
    """

    records: int = 0
    seconds: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0


def produce(work: Work) -> Result:
    """Send records in batches of 16 kB, Kafka's default.  Raises RuntimeError if a record is rejected."""
    latencies_ms: list[float] = []
    result = Result()

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"a record was refused: {error}")
        result.records += 1
        if work.rate or result.records % SAMPLE_EVERY == 0:
            latencies_ms.append((message.latency() or 0.0) * 1000)

    settings: dict[str, Any] = {
        **client_security(work.authority), "bootstrap.servers": work.bootstrap, "acks": work.acks,
        "linger.ms": 0 if work.rate else 5,
        "batch.size": 16_384, "queue.buffering.max.messages": max(TURN, IN_FLIGHT // work.clients),
        "on_delivery": delivered,
    }  # fmt: skip
    producers = [Producer(settings) for _ in range(work.clients)]
    for each in producers:
        each.list_topics(work.topic, timeout=WAIT_S)
    begin = time.perf_counter()
    _send(work, producers, begin)
    for each in producers:
        if each.flush(FLUSH_S):
            raise RuntimeError(f"not every record was acknowledged within {FLUSH_S:.0f} s")
    result.seconds = time.perf_counter() - begin
    if len(latencies_ms) > 1:
        cuts = quantiles(latencies_ms, n=100)
        result.p50_ms, result.p99_ms = cuts[49], cuts[98]
    return result


def _send(work: Work, producers: list[Producer], begin: float) -> None:
    """Send records at the rate of the workload.  If it has no rate, fill the queue of each producer in turn."""
    value = (bytes(range(256)) * (work.size // 256 + 1))[: work.size]
    until, number = begin + work.seconds, 0
    while work.rate and (due := begin + number / work.rate) < until:
        each = producers[number % len(producers)]
        each.poll(0)
        while (wait_s := due - time.perf_counter()) > 0:  # `poll` returns early with an acknowledgement.
            each.poll(wait_s)
        each.produce(work.topic, value)
        number += 1
    while not work.rate and time.perf_counter() < until:
        before = number
        for each in producers:
            try:
                for _ in range(TURN):
                    each.produce(work.topic, value)
                    number += 1
            except BufferError:
                each.poll(0)
        if number == before:
            time.sleep(REST_S)


def fetch(work: Work) -> Result:
    """Read the topic from the beginning.

    The partitions are distributed over the clients. If there is only one partition, all clients read it.
    """
    result = Result()

    def statistics(text: str) -> None:
        brokers = json.loads(text)["brokers"].values()
        times = [broker["rtt"] for broker in brokers if broker["nodeid"] >= 0 and "rtt" in broker]
        result.p50_ms = max([result.p50_ms, *(each["p50"] / 1000 for each in times)])
        result.p99_ms = max([result.p99_ms, *(each["p99"] / 1000 for each in times)])

    settings: dict[str, Any] = {
        **client_security(work.authority), "bootstrap.servers": work.bootstrap, "group.id": "unused",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest", "check.crcs": False, "statistics.interval.ms": 200, "stats_cb": statistics,
    }  # fmt: skip
    consumers = [Consumer(settings) for _ in range(work.clients)]
    for number, each in enumerate(consumers):
        dealt = range(number, work.partitions, work.clients)
        mine = dealt if work.partitions >= work.clients else range(work.partitions)
        each.assign([TopicPartition(work.topic, partition, 0) for partition in mine])
    begin, last = 0.0, time.perf_counter()
    until = last + WAIT_S
    while result.records < work.records and time.perf_counter() < until:
        taken = sum(len(each.consume(READ_AT_ONCE, timeout=0)) for each in consumers)
        if taken == 0:
            time.sleep(REST_S)
            continue
        last = time.perf_counter()
        if result.records == 0:
            begin, until = last, last + work.seconds
        result.records += taken
    result.seconds = last - begin
    for each in consumers:
        each.close()
    return result


def run_clients(module: str, work: msgspec.Struct, title: str) -> str:
    """Run the clients of a workload in a separate process, and return its output.  Raises CannotMeasure."""
    command = [sys.executable, "-m", module, msgspec.json.encode(work).decode()]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LOAD_S_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise CannotMeasure(f"{title}: no result in {LOAD_S_MAX:.0f} s") from None
    if done.returncode:
        raise CannotMeasure(f"{title} failed:\n{done.stderr[-2000:]}")
    return done.stdout


class Bench:
    """Applies load to one cluster, and counts the records of each topic."""

    def __init__(self, cluster: KafkaCluster, seconds: float) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._records: dict[str, int] = {}

    def warm_up(self, seconds: float) -> None:
        """Produce and fetch without recording the results.  Raises CannotMeasure."""
        for acks in ("all", ""):
            self._clients(Work(acks, 1, SIZES[0], 16), "warm-up", seconds)

    def measure(self, work: Work) -> Measurement:
        """Run the clients of a workload and return the measurement.  Raises CannotMeasure."""
        before = self._cluster.cpu_s()
        result = self._clients(work, f"bench-{work.partitions}-{work.size}", self._seconds)
        if not result.records:
            raise CannotMeasure(f"{self._cluster.title}: {work.title}: not one record")
        records_per_s = result.records / result.seconds
        figures = {
            "records_per_s": records_per_s,
            "mb_per_s": records_per_s * work.size / 1e6,
            "cpu_us": (self._cluster.cpu_s() - before) / result.records * 1e6,
        }
        if result.p99_ms:  # librdkafka reports round trips after a fifth of a second.
            figures |= {"p50_ms": result.p50_ms, "p99_ms": result.p99_ms}
        return Measurement(work.title, self._cluster.side, figures)

    def _clients(self, work: Work, topic: str, seconds: float) -> Result:
        if topic not in self._records:
            # The first replica (the leader) rotates over the brokers, as in Kafka's own assignments.
            self._cluster.create_topic(topic, [[1 + (n + r) % 3 for r in range(3)] for n in range(work.partitions)])
            self._records[topic] = 0
        bootstrap, records = self._cluster.bootstrap, self._records[topic]
        whole = msgspec.structs.replace(
            work, bootstrap=bootstrap, topic=topic, seconds=seconds, records=records, authority=self._cluster.authority
        )  # fmt: skip
        answer = run_clients("bench.kafka", whole, f"{self._cluster.title}: {work.title}")
        result = msgspec.json.decode(answer, type=Result)
        if work.acks:
            self._records[topic] += result.records
        return result


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How often each side is measured")] = 3,
    seconds: Annotated[float, typer.Option(min=0.1, help="Duration of each work")] = 4.0,
    grid: Annotated[
        bool,
        typer.Option("--grid", help="1, 16 and 64 clients; 100 and 1,000 bytes; acks 1 and all; 1 and 500 partitions"),
    ] = False,
    tls: Annotated[bool, typer.Option("--tls", help="Clients and brokers connect over TLS")] = False,
    only: Only = None,
    quick: Quick = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Compare zabka's brokers with Apache Kafka: records/s, CPU time of all brokers per record, latency."""
    if quick:
        rounds, seconds = 1, 0.5
    with bench_run("kafka", as_json, data) as run:
        run.compare(f"Three brokers, three replicas{', TLS' if tls else ''}", FIGURES)
        sides = run.sides("kafka", only)
        for number in range(rounds):
            for side in reversed(sides) if number % 2 else sides:
                with running_kafka(side, run.directory / f"{side}-{number}", tls=tls) as cluster:
                    bench = Bench(cluster, seconds)
                    bench.warm_up(min(WARM_UP_S, 2 * seconds))
                    for work in works(grid):
                        run.add(bench.measure(work))


if __name__ == "__main__":
    asked = msgspec.json.decode(sys.argv[1], type=Work)
    print(msgspec.json.encode(produce(asked) if asked.acks else fetch(asked)).decode())
