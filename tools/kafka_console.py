"""`zabka produce` and `zabka consume`: kafka-console-producer.sh and kafka-console-consumer.sh (3.9)."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from journal.events import TopicPartition
from kafka_protocol.client.admin_client import AdminClient
from kafka_protocol.client.client_errors import KafkaRequestFailed
from kafka_protocol.client.group_admin import GroupAdmin
from kafka_protocol.client.partitioner import partition_for
from kafka_protocol.record_batch import Record
from tools.kafka_command import API_TIMEOUT_MS, CommandFailed, asyncio_runtime, parser, run

BATCH_RECORDS_MAX = 500
LATEST, EARLIEST = -1, -2
POLL_MS = 250


def _properties(texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise CommandFailed(f"Invalid command line properties: {text}")
        found[key] = value
    return found


# ---- produce --------------------------------------------------------------------------------------------------


def produce_main(arguments: list[str]) -> int:
    """Run the producer on standard input; the exit code."""
    made = parser("produce", "Produce the lines of standard input.")
    made.add_argument("--topic", required=True)
    made.add_argument("--property", action="append", default=[], metavar="parse.key=true|key.separator=:")
    made.add_argument("--request-required-acks", "--acks", dest="acks", choices=("all", "-1", "0", "1"), default="-1")
    made.add_argument("--timeout", type=int, default=API_TIMEOUT_MS, help="milliseconds")
    options = made.parse_args(arguments)
    return run(options, lambda client: _produce(client, options))


async def _produce(client: AdminClient, options: argparse.Namespace) -> None:
    properties = _properties(options.property)
    keyed = properties.get("parse.key", "false").lower() == "true"
    separator = properties.get("key.separator", "\t").encode()
    numbers = await _partitions(client, options.topic)
    acks = -1 if options.acks == "all" else int(options.acks)
    lines: Iterator[bytes] = iter(sys.stdin.buffer)
    turn = 0
    while batch := await asyncio.to_thread(lambda: list(islice(lines, BATCH_RECORDS_MAX))):
        shares: dict[int, list[Record]] = {}
        for line in batch:
            record = parse_line(line.rstrip(b"\n"), separator if keyed else None)
            shares.setdefault(partition_for(record.key, len(numbers), turn), []).append(record)
        turn += 1
        for number, records in shares.items():
            partition = TopicPartition(options.topic, number)
            await client.produce(partition, records, acks=acks, timeout_ms=options.timeout)


def parse_line(line: bytes, separator: bytes | None) -> Record:
    """A line as a record, with a key before `separator`.  Raises CommandFailed where there is none."""
    now_ms = time.time_ns() // 1_000_000
    if separator is None:
        return Record(None, line, now_ms)
    key, found, value = line.partition(separator)
    if not found:
        raise CommandFailed(f"No key separator found on line number: '{line.decode(errors='replace')}'")
    return Record(key, value, now_ms)


async def _partitions(client: AdminClient, topic: str) -> list[int]:
    deadline = time.monotonic() + API_TIMEOUT_MS / 1000
    while True:
        info = (await client.metadata([topic], create=True)).topics[topic]
        if info.partitions and all(row.leader >= 0 for row in info.partitions):
            return [row.partition for row in info.partitions]
        if info.error is ErrorCode.invalid_topic_exception or time.monotonic() >= deadline:
            raise KafkaRequestFailed(info.error, f"Topic {topic} not present in metadata: {info.error.name.upper()}")
        await asyncio.sleep(POLL_MS / 1000)


# ---- consume --------------------------------------------------------------------------------------------------


class _Shown(NamedTuple):
    """What is printed of a record."""

    timestamp: bool
    partition: bool
    offset: bool
    key: bool
    value: bool
    key_separator: bytes
    line_separator: bytes

    def line(self, record: Record, partition: int) -> bytes:
        parts: list[bytes] = []
        if self.timestamp:
            parts.append(b"CreateTime:%d" % record.timestamp_ms)
        if self.partition:
            parts.append(b"Partition:%d" % partition)
        if self.offset:
            parts.append(b"Offset:%d" % record.offset)
        if self.key:
            parts.append(b"null" if record.key is None else record.key)
        if self.value:
            parts.append(b"null" if record.value is None else record.value)
        return self.key_separator.join(parts) + self.line_separator


def consume_main(arguments: list[str]) -> int:
    """Run the consumer; the exit code."""
    made = parser("consume", "Print the records of a topic.")
    made.add_argument("--topic", required=True)
    made.add_argument("--partition", type=int)
    made.add_argument("--offset", default="latest", help="a number, earliest, latest, or negative: from the end")
    made.add_argument("--from-beginning", action="store_true")
    made.add_argument("--max-messages", type=int, default=-1)
    made.add_argument("--timeout-ms", type=int, default=-1, help="leave where nothing came for so long")
    made.add_argument("--group", help="commit offsets under this name, and begin where it left off")
    made.add_argument("--property", action="append", default=[], metavar="print.key=true|print.offset=true|…")
    options = made.parse_args(arguments)
    if options.offset != "latest" and options.partition is None:
        made.error("The partition is required when offset is specified.")
    return run(options, lambda client: _consume(client, options))


async def _consume(client: AdminClient, options: argparse.Namespace) -> None:
    properties = _properties(options.property)

    def flag(name: str, default: str = "false") -> bool:
        return properties.get(name, default).lower() == "true"

    shown = _Shown(
        timestamp=flag("print.timestamp"),
        partition=flag("print.partition"),
        offset=flag("print.offset"),
        key=flag("print.key"),
        value=flag("print.value", "true"),
        key_separator=properties.get("key.separator", "\t").encode(),
        line_separator=properties.get("line.separator", "\n").encode(),
    )
    numbers = await _partitions(client, options.topic)
    if options.partition is not None:
        numbers = [options.partition]
    groups = GroupAdmin(client, asyncio_runtime()) if options.group else None
    committed = {} if groups is None else await groups.offsets(options.group)
    positions = {
        partition: committed[partition] if partition in committed else await _begin(client, partition, options)
        for partition in (TopicPartition(options.topic, number) for number in numbers)
    }
    printed = 0
    try:
        printed = await _read(client, positions, options, shown)
    finally:
        if groups is not None:
            await groups.commit(options.group, positions)
        print(f"Processed a total of {printed} messages", file=sys.stderr)  # noqa: T201


async def _begin(client: AdminClient, partition: TopicPartition, options: argparse.Namespace) -> int:
    if options.from_beginning or options.offset == "earliest":
        return await client.list_offset(partition, EARLIEST)
    if options.offset == "latest":
        return await client.list_offset(partition, LATEST)
    try:
        offset = int(options.offset)
    except ValueError:
        raise CommandFailed(f"The provided offset value '{options.offset}' is incorrect.") from None
    return offset if offset >= 0 else max(0, await client.list_offset(partition, LATEST) + offset)


async def _read(
    client: AdminClient, positions: dict[TopicPartition, int], options: argparse.Namespace, shown: _Shown
) -> int:
    """Print until enough, or nothing came for long enough; how many records.  Moves `positions` along."""
    printed = 0
    last = time.monotonic()
    while True:
        quiet = True
        for partition, position in positions.items():
            fetched = await client.fetch(partition, position, max_wait_ms=POLL_MS if quiet else 0)
            for record in fetched.records:
                if 0 <= options.max_messages <= printed:
                    return printed
                sys.stdout.buffer.write(shown.line(record, partition.partition))
                positions[partition] = record.offset + 1
                printed += 1
                quiet = False
            sys.stdout.buffer.flush()
        if 0 <= options.max_messages <= printed:
            return printed
        if not quiet:
            last = time.monotonic()
        elif 0 <= options.timeout_ms <= (time.monotonic() - last) * 1000:
            return printed
