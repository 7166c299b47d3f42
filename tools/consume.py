"""`zabka consume`: kafka-console-consumer.sh (3.9)."""

from __future__ import annotations

import argparse
import sys
import time
from typing import NamedTuple

from journal.events import TopicPartition
from kafka_protocol.client.admin_client import AdminClient
from kafka_protocol.client.group_admin import GroupAdmin
from kafka_protocol.record_batch import Record
from tools.console import POLL_MS, partitions_of, properties_of
from tools.kafka_command import CommandFailed, asyncio_runtime, parser, run

LATEST, EARLIEST = -1, -2


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


def main(arguments: list[str]) -> int:
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
    properties = properties_of(options.property)

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
    numbers = await partitions_of(client, options.topic)
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
