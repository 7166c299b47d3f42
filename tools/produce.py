"""`zabka produce`: kafka-console-producer.sh (3.9)."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator
from itertools import islice

from journal.events import TopicPartition
from kafka_protocol.client.admin_client import AdminClient
from kafka_protocol.client.partitioner import partition_for
from kafka_protocol.record_batch import Record
from tools.console import partitions_of, properties_of
from tools.kafka_command import API_TIMEOUT_MS, CommandFailed, parser, run

BATCH_RECORDS_MAX = 500


def main(arguments: list[str]) -> int:
    """Run the producer on standard input; the exit code."""
    made = parser("produce", "Produce the lines of standard input.")
    made.add_argument("--topic", required=True)
    made.add_argument("--property", action="append", default=[], metavar="parse.key=true|key.separator=:")
    made.add_argument("--request-required-acks", "--acks", dest="acks", choices=("all", "-1", "0", "1"), default="-1")
    made.add_argument("--timeout", type=int, default=API_TIMEOUT_MS, help="milliseconds")
    options = made.parse_args(arguments)
    return run(options, lambda client: _produce(client, options))


async def _produce(client: AdminClient, options: argparse.Namespace) -> None:
    properties = properties_of(options.property)
    keyed = properties.get("parse.key", "false").lower() == "true"
    separator = properties.get("key.separator", "\t").encode()
    numbers = await partitions_of(client, options.topic)
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
