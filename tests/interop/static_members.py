"""Static members whose applications stop polling for some time. Each is the only member of its group.

`python static_members.py LIBRARY BOOTSTRAP TOPIC SESSION_MS GROUP=BUSY_MS …` does the same as StaticMembers.java. A
line of input starts the busy time. The output has a line "GROUP reads" for each member's first record, and a line
"GROUP OUTCOME" for its end: "resumed" if it reads a record that was appended after its busy time, or else the error.
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable

POLL_S = 0.1
GIVES_UP_S = 60.0

Poll = Callable[[], Iterable[int]]
"""Function that polls for POLL_S. It returns the timestamps, in ms, of the records that the consumer received."""

_busy = threading.Event()


class Fatal(Exception):
    """The client library has raised an error from which it does not recover. The message is the reason."""


def report(group: str, outcome: str) -> None:
    sys.stdout.write(f"{group} {outcome}\n")
    sys.stdout.flush()


def confluent(bootstrap: str, topic: str, session_ms: int, group: str) -> tuple[Poll, Callable[[], None]]:
    from confluent_kafka import Consumer, KafkaError

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.instance.id": "only",
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": session_ms // 3,
            "auto.commit.interval.ms": 1000,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])

    def poll() -> Iterable[int]:
        message = consumer.poll(POLL_S)
        error = None if message is None else message.error()
        if error is not None and error.code() == KafkaError._FATAL:
            raise Fatal("FENCED_INSTANCE_ID" if "fenced" in error.str() else error.str())
        return () if message is None or error is not None else (message.timestamp()[1],)

    return poll, consumer.close


def kafka_python(bootstrap: str, topic: str, session_ms: int, group: str) -> tuple[Poll, Callable[[], None]]:
    from kafka import KafkaConsumer
    from kafka.errors import FencedInstanceIdError, KafkaConnectionError

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        group_instance_id="only",
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=session_ms // 3,
        auto_commit_interval_ms=1000,
        auto_offset_reset="earliest",
    )

    def poll() -> Iterable[int]:
        try:
            polled = consumer.poll(timeout_ms=int(POLL_S * 1000))
        except KafkaConnectionError:
            # The broker to which the client sent FindCoordinator is down. The client's next poll uses another broker.
            return ()
        except FencedInstanceIdError as fenced:
            raise Fatal("FENCED_INSTANCE_ID") from fenced
        return [record.timestamp for records in polled.values() for record in records]

    return poll, consumer.close


LIBRARIES = {"confluent-kafka": confluent, "kafka-python": kafka_python}


def consume(poll: Poll, group: str, busy_ms: int) -> str:
    reads = False
    while not _busy.is_set():
        if list(poll()) and not reads:
            reads = True
            report(group, "reads")
    time.sleep(busy_ms / 1000)
    resumed = time.time()
    while time.time() < resumed + GIVES_UP_S:
        if any(timestamp_ms > resumed * 1000 for timestamp_ms in poll()):
            return "resumed"
    return "reads nothing"


def member(library: str, bootstrap: str, topic: str, session_ms: int, group: str, busy_ms: int) -> None:
    poll, close = LIBRARIES[library](bootstrap, topic, session_ms, group)
    try:
        outcome = consume(poll, group, busy_ms)
    except Fatal as fatal:
        outcome = str(fatal)
    report(group, outcome)
    close()


def main(library: str, bootstrap: str, topic: str, session_ms: str, *members: str) -> None:
    threads = []
    for each in members:
        group, _, busy_ms = each.partition("=")
        values = (library, bootstrap, topic, int(session_ms), group, int(busy_ms))
        threads.append(threading.Thread(target=member, args=values))
    for thread in threads:
        thread.start()
    sys.stdin.readline()
    _busy.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    with warnings.catch_warnings():
        # kafka-python reads its schemas with a function of importlib.resources that is deprecated in Python 3.11.
        warnings.simplefilter("ignore", DeprecationWarning)
        main(*sys.argv[1:])
