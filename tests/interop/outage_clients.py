"""Kafka clients of several libraries as separate programs, each a producer or a consumer in a group, during a test.

`python outage_clients.py LIBRARY ROLE BOOTSTRAP TOPIC GROUP [ACKS]`. A producer sends the numbers 0, 1, 2, … with
acks=all (idempotent) or acks=1 and prints `number partition offset` for each acknowledged one; a consumer prints
`partition offset number` for each record. SIGTERM ends a producer once everything is acknowledged, and a consumer once
it has left its group. A client is never restarted: an error that it does not handle ends the program with a non-zero
code.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
import warnings
from collections.abc import Callable

RATE_PER_S = 25
DELIVERY_S = 120
SESSION_MS = 15_000
"""Session timeout of consumers in ms. It is longer than the time that a commit can wait for the ISR.

Heartbeats wait for the commit, because they use the same connection.
"""

_ending = False


def _end(_number: int, _frame: object) -> None:
    global _ending  # noqa: PLW0603  the one flag of a small program
    _ending = True


def log(*values: object) -> None:
    sys.stdout.write(" ".join(str(value) for value in values) + "\n")
    sys.stdout.flush()


def numbers() -> Callable[[], int | None]:
    """Return a function that returns the next number once it is due, or None when the program should end."""
    begun, count = time.monotonic(), 0

    def due() -> int | None:
        nonlocal count
        if _ending:
            return None
        time.sleep(max(0.0, begun + count / RATE_PER_S - time.monotonic()))
        count += 1
        return count - 1

    return due


# ---- confluent-kafka (librdkafka) ------------------------------------------------------------------------------


def confluent_produce(bootstrap: str, topic: str, acks: str) -> None:
    from confluent_kafka import KafkaError, Message, Producer

    failures: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(f"{message.value()!r}: {error}")
        else:
            log((message.value() or b"").decode(), message.partition(), message.offset())

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "enable.idempotence": acks == "all",
            "message.timeout.ms": DELIVERY_S * 1000,
        }
    )
    due = numbers()
    while (number := due()) is not None:
        producer.produce(topic, str(number).encode(), on_delivery=delivered)
        producer.poll(0)
    left = producer.flush(DELIVERY_S)
    if left or failures:
        raise SystemExit(f"{left} left, {failures[:3]}")


def confluent_consume(bootstrap: str, topic: str, group: str) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "session.timeout.ms": SESSION_MS,
        }
    )
    consumer.subscribe([topic])
    while not _ending:
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is None:
            log(message.partition(), message.offset(), (message.value() or b"").decode())
        elif error.fatal():
            raise SystemExit(str(error))
    consumer.close()


# ---- kafka-python ----------------------------------------------------------------------------------------------


def kafka_python_produce(bootstrap: str, topic: str, acks: str) -> None:
    from kafka import KafkaProducer

    failures: list[str] = []
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        acks=acks if acks == "all" else int(acks),
        enable_idempotence=acks == "all",
        delivery_timeout_ms=DELIVERY_S * 1000,
    )
    due = numbers()
    while (number := due()) is not None:
        sent = producer.send(topic, str(number).encode())
        sent.add_callback(lambda metadata, number=number: log(number, metadata.partition, metadata.offset))
        sent.add_errback(lambda failure, number=number: failures.append(f"{number}: {failure}"))
    producer.flush(timeout=DELIVERY_S)
    producer.close()
    if failures:
        raise SystemExit(str(failures[:3]))


KAFKA_PYTHON_POLL_MS = 10_000
"""Maximum time in ms of a poll, which returns earlier once a record is available.

After a topic's partitions have changed, a poll can time out while its group's leader waits for the SyncGroup response.
kafka-python 3.0.12 then treats the join as completed although it has no result, and stays outside its group forever.
This also happens with Apache Kafka.
"""


def kafka_python_consume(bootstrap: str, topic: str, group: str) -> None:
    from kafka import KafkaConsumer
    from kafka.errors import KafkaConnectionError

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=1000,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=SESSION_MS // 3,
    )
    while not _ending:
        try:
            polled = consumer.poll(timeout_ms=KAFKA_PYTHON_POLL_MS)
        except KafkaConnectionError as refused:
            # kafka-python raises this error if the broker to which it sends FindCoordinator is down. The consumer still
            # works: its next poll uses another broker.
            sys.stderr.write(f"poll raised {refused}\n")
            continue
        for records in polled.values():
            for record in records:
                log(record.partition, record.offset, record.value.decode())
    consumer.close()


# ---- aiokafka --------------------------------------------------------------------------------------------------


async def aiokafka_produce(bootstrap: str, topic: str, acks: str) -> None:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        acks=acks if acks == "all" else int(acks),
        enable_idempotence=acks == "all",
        request_timeout_ms=DELIVERY_S * 1000,
    )
    await producer.start()
    failures: list[str] = []

    def on_sent(number: int, sent: asyncio.Future[object]) -> None:
        failure = sent.exception()
        if failure is not None:
            failures.append(f"{number}: {failure!r}")
        else:
            where = sent.result()
            log(number, where.partition, where.offset)  # type: ignore[attr-defined]

    begun, number = time.monotonic(), 0
    while not _ending:
        await asyncio.sleep(max(0.0, begun + number / RATE_PER_S - time.monotonic()))
        sent = await producer.send(topic, str(number).encode())
        sent.add_done_callback(lambda sent, number=number: on_sent(number, sent))
        number += 1
    await producer.flush()
    await producer.stop()
    if failures:
        raise SystemExit(str(failures[:3]))


async def aiokafka_consume(bootstrap: str, topic: str, group: str) -> None:
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=1000,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=SESSION_MS // 3,
    )
    await consumer.start()
    while not _ending:
        for records in (await consumer.getmany(timeout_ms=200)).values():
            for record in records:
                log(record.partition, record.offset, (record.value or b"").decode())
    await consumer.stop()


def main(library: str, role: str, bootstrap: str, topic: str, group: str, acks: str = "all") -> None:
    signal.signal(signal.SIGTERM, _end)
    arguments = (bootstrap, topic, acks) if role == "produce" else (bootstrap, topic, group)
    if library == "aiokafka":
        aio = {"produce": aiokafka_produce, "consume": aiokafka_consume}[role]
        asyncio.run(aio(*arguments))  # type: ignore[operator]
        return
    with warnings.catch_warnings():
        # kafka-python reads its schemas with a function of importlib.resources that is deprecated in Python 3.11.
        warnings.simplefilter("ignore", DeprecationWarning)
        {
            "confluent-kafka produce": confluent_produce,
            "confluent-kafka consume": confluent_consume,
            "kafka-python produce": kafka_python_produce,
            "kafka-python consume": kafka_python_consume,
        }[f"{library} {role}"](*arguments)  # type: ignore[operator]


if __name__ == "__main__":
    main(*sys.argv[1:])
