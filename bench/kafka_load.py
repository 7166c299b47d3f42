"""One client under measurement, librdkafka through confluent-kafka: `python -m bench.kafka_load produce|pace|consume`.

A process of its own, so that its CPU time is no broker's; prints one line of JSON.
"""

from __future__ import annotations

import json
import time
from statistics import quantiles
from typing import Annotated, Any

import typer
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)

LINGER_MS = 5
BATCH_BYTES = 65_536
QUEUED_MAX = 200_000
FLUSH_S = 120.0
WAIT_S = 60.0
SAMPLE_EVERY = 50

Bootstrap = Annotated[str, typer.Option(help="Brokers to begin with.")]
Topic = Annotated[str, typer.Option(help="The topic.")]
Partitions = Annotated[int, typer.Option(help="How many partitions it has.")]
Records = Annotated[int, typer.Option(help="How many records.")]
Size = Annotated[int, typer.Option(help="Bytes of a record's value.")]


class Tally:
    """What became of the records sent."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.failed = 0
        self.latencies_ms: list[float] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1
            return
        self.acknowledged += 1
        if self.acknowledged % SAMPLE_EVERY == 0:
            self.latencies_ms.append((message.latency() or 0.0) * 1000)

    def report(self, seconds: float) -> None:
        """One line of JSON."""
        cuts = quantiles(self.latencies_ms, n=100) if len(self.latencies_ms) > 1 else [0.0] * 99
        result = {"acknowledged": self.acknowledged, "failed": self.failed, "seconds": seconds}
        print(json.dumps({**result, "p50_ms": cuts[49], "p99_ms": cuts[98]}))


def _producer(bootstrap: str, tally: Tally, **others: object) -> Producer:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "linger.ms": LINGER_MS,
        "batch.size": BATCH_BYTES,
        "queue.buffering.max.messages": QUEUED_MAX,
        "queue.buffering.max.kbytes": 1 << 20,
        "on_delivery": tally,
        **others,
    }
    return Producer(settings)


@app.command()
def produce(bootstrap: Bootstrap, topic: Topic, partitions: Partitions, records: Records, size: Size) -> None:
    """Send records as fast as they are taken, with acks=all."""
    tally = Tally()
    producer = _producer(bootstrap, tally)
    value = bytes(range(256)) * (size // 256 + 1)
    value = value[:size]
    producer.list_topics(topic, timeout=WAIT_S)
    begin = time.perf_counter()
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(FLUSH_S)
    tally.report(time.perf_counter() - begin)


@app.command()
def pace(
    bootstrap: Bootstrap,
    topic: Topic,
    partitions: Partitions,
    size: Size,
    rate: Annotated[int, typer.Option(help="Records a second.")] = 500,
    seconds: Annotated[float, typer.Option(help="How long.")] = 5.0,
) -> None:
    """Send records one by one at a steady rate, with acks=all; every one's latency counts."""
    tally = Tally()
    producer = _producer(bootstrap, tally, **{"linger.ms": 0})
    value = b"x" * size
    producer.list_topics(topic, timeout=WAIT_S)
    begin = time.perf_counter()
    for number in range(int(rate * seconds)):
        wait = begin + number / rate - time.perf_counter()
        producer.poll(max(0.0, wait))
        producer.produce(topic, value, partition=number % partitions)
    producer.flush(FLUSH_S)
    tally.report(time.perf_counter() - begin)


@app.command()
def consume(bootstrap: Bootstrap, topic: Topic, partitions: Partitions, records: Records) -> None:
    """Read so many records from the beginning."""
    tally = Tally()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 4 << 20,
            "check.crcs": False,
        }
    )
    consumer.list_topics(topic, timeout=WAIT_S)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    begin = last = time.perf_counter()
    while tally.acknowledged < records and time.perf_counter() - last < WAIT_S:
        got = consumer.consume(10_000, timeout=1.0)
        if got:
            last = time.perf_counter()
            tally.failed += sum(1 for message in got if message.error())
            tally.acknowledged += len(got)
    tally.report(last - begin)
    consumer.close()


if __name__ == "__main__":
    app()
