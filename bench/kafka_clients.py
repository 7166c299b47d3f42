"""Many clients of one process under measurement: `python -m bench.kafka_clients produce|fetch`.

Like `bench.kafka_load` librdkafka in a process of its own, and one line of JSON.  The clients do as much as the brokers
take for so many seconds, so that a slow side costs no more time than a fast one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from statistics import quantiles
from typing import Annotated, Any

import typer
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)

LINGER_MS = 5
BATCH_BYTES = 16_384
IN_FLIGHT = 20_000
"""Records of all clients that wait for an answer: with more, the latency would be that of a queue of ours."""
TURN = 100
READ_AT_ONCE = 5_000
FLUSH_S = 60.0
WAIT_S = 30.0
REST_S = 0.001
STATISTICS_MS = 500
SAMPLE_EVERY = 20

Bootstrap = Annotated[str, typer.Option(help="Brokers to begin with.")]
Topic = Annotated[str, typer.Option(help="The topic.")]
Clients = Annotated[int, typer.Option(help="How many clients.")]
Seconds = Annotated[float, typer.Option(help="How long.")]


def report(records: int, seconds: float, p99_ms: float) -> None:
    """One line of JSON."""
    print(json.dumps({"records": records, "seconds": seconds, "p99_ms": p99_ms}))


class Acknowledged:
    """Counts what was acknowledged, and keeps some latencies.  Raises RuntimeError where a record was refused."""

    def __init__(self) -> None:
        self.records = 0
        self.latencies_ms: list[float] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"a record was refused: {error}")
        self.records += 1
        if self.records % SAMPLE_EVERY == 0:
            self.latencies_ms.append((message.latency() or 0.0) * 1000)

    @property
    def p99_ms(self) -> float:
        """0 for want of samples."""
        return quantiles(self.latencies_ms, n=100)[98] if len(self.latencies_ms) > 1 else 0.0


def producer(bootstrap: str, acks: str, queued: int, on_delivery: Callable[..., None]) -> Producer:
    """A producer of batches of 16 kB, Kafka's default, that chooses the partition as a client without keys does."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "acks": acks,
        "linger.ms": LINGER_MS,
        "batch.size": BATCH_BYTES,
        "queue.buffering.max.messages": queued,
        "on_delivery": on_delivery,
    }
    return Producer(settings)


def take_turns(producers: list[Producer], topic: str, value: bytes, until: float) -> None:
    """Every producer sends as much as its queue takes, in turns, until then (`time.perf_counter`)."""
    while time.perf_counter() < until:
        sent = 0
        for each in producers:
            try:
                for _ in range(TURN):
                    each.produce(topic, value)
                    sent += 1
            except BufferError:
                each.poll(0)
        if sent == 0:
            time.sleep(REST_S)


@app.command()
def produce(
    bootstrap: Bootstrap,
    topic: Topic,
    clients: Clients,
    seconds: Seconds,
    size: Annotated[int, typer.Option(help="Bytes of a record's value.")],
    acks: Annotated[str, typer.Option(help="1 or all.")],
) -> None:
    """Send as many records as are taken; the latency is that of a record from its client's queue to its answer."""
    acknowledged = Acknowledged()
    producers = [producer(bootstrap, acks, max(TURN, IN_FLIGHT // clients), acknowledged) for _ in range(clients)]
    for each in producers:
        each.list_topics(topic, timeout=WAIT_S)
    begin = time.perf_counter()
    take_turns(producers, topic, (bytes(range(256)) * (size // 256 + 1))[:size], begin + seconds)
    for each in producers:
        if each.flush(FLUSH_S):
            raise RuntimeError(f"not every record was acknowledged within {FLUSH_S:.0f} s")
    report(acknowledged.records, time.perf_counter() - begin, acknowledged.p99_ms)


class RoundTrips:
    """The worst broker's 99th percentile of requests, as librdkafka counts them."""

    def __init__(self) -> None:
        self.p99_ms = 0.0

    def __call__(self, statistics: str) -> None:
        brokers = json.loads(statistics)["brokers"].values()
        self.p99_ms = max([self.p99_ms, *(b["rtt"]["p99"] / 1000 for b in brokers if b["nodeid"] >= 0 and "rtt" in b)])


def consumer(bootstrap: str, round_trips: RoundTrips) -> Consumer:
    """A consumer of a group that nobody joins."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "check.crcs": False,
        "statistics.interval.ms": STATISTICS_MS,
        "stats_cb": round_trips,
    }
    return Consumer(settings)


@app.command()
def fetch(
    bootstrap: Bootstrap,
    topic: Topic,
    clients: Clients,
    seconds: Seconds,
    partitions: Annotated[int, typer.Option(help="How many it has; they are dealt out, or all read the only one.")],
    records: Annotated[int, typer.Option(help="At most so many, all clients together.")],
) -> None:
    """Read from the beginning; the latency is that of a client's requests."""
    round_trips = RoundTrips()
    consumers = [consumer(bootstrap, round_trips) for _ in range(clients)]
    for number, each in enumerate(consumers):
        mine = range(number, partitions, clients) if partitions >= clients else range(partitions)
        each.assign([TopicPartition(topic, partition, 0) for partition in mine])
    got, begin, last = 0, 0.0, time.perf_counter()
    until = last + WAIT_S
    while got < records and time.perf_counter() < until:
        taken = sum(len(each.consume(READ_AT_ONCE, timeout=0)) for each in consumers)
        if taken == 0:
            time.sleep(REST_S)
            continue
        last = time.perf_counter()
        if got == 0:
            begin, until = last, last + seconds
        got += taken
    report(got, last - begin if got else 0.0, round_trips.p99_ms)
    for each in consumers:
        each.close()


if __name__ == "__main__":
    app()
