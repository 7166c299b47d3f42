"""`zabka consume`: works like kafka-console-consumer.sh of Kafka 3.9."""

from __future__ import annotations

import argparse
import sys
import time
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.cli.console import POLL_MS, partitions_of, properties_of
from zabka.cli.java_numbers import java_int, java_long
from zabka.cli.kafka_command import CommandFailed, asyncio_runtime, parser, run
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client import RETRIED, Fetched, Isolation
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.group_admin import GroupAdmin
from zabka.kafka.record_batch import BatchUnreadable, Record

LATEST, EARLIEST = -1, -2
NAMED = {"latest": LATEST, "earliest": EARLIEST}
PATIENCE_MS = 2_000
"""Maximum wait for the leader of one partition to reply. After that, the next partition is fetched."""


class _Shown(NamedTuple):
    """Options for printing records: the parts to print, the separators, and the string that represents null."""

    timestamp: bool
    partition: bool
    offset: bool
    headers: bool
    key: bool
    value: bool
    key_separator: bytes
    line_separator: bytes
    headers_separator: bytes
    null: bytes

    def line(self, record: Record, partition: int, *, is_stamped: bool = False) -> bytes:
        """Return the output line for a record. `is_stamped` means that the leader set the record's timestamp."""
        parts: list[bytes] = []
        if self.timestamp:
            parts.append(b"%s:%d" % (b"LogAppendTime" if is_stamped else b"CreateTime", record.timestamp_ms))
        if self.partition:
            parts.append(b"Partition:%d" % partition)
        if self.offset:
            parts.append(b"Offset:%d" % record.offset)
        if self.headers:
            headers = [name.encode() + b":" + self._text(value) for name, value in record.headers]
            parts.append(self.headers_separator.join(headers) if headers else b"NO_HEADERS")
        if self.key:
            parts.append(self._text(record.key))
        if self.value:
            parts.append(self._text(record.value))
        return self.key_separator.join(parts) + self.line_separator

    def _text(self, data: bytes | None) -> bytes:
        return self.null if data is None else data


def main(arguments: list[str]) -> int:
    """Run the consumer; return the exit code."""
    made = parser("consume", "Print the records of a topic.")
    made.add_argument("--topic", required=True)
    made.add_argument("--partition", type=java_int)
    made.add_argument("--offset", help="a number, earliest, latest, or negative: from the end")
    made.add_argument("--from-beginning", action="store_true")
    made.add_argument("--max-messages", type=int, default=-1)
    made.add_argument("--timeout-ms", type=int, default=-1, help="exit if no record arrives for that long")
    made.add_argument("--group", help="commit offsets for this group, and start at its committed offsets")
    made.add_argument(
        "--isolation-level",
        choices=("read_committed", "read_uncommitted"),
        default="read_uncommitted",
        help="read_committed leaves out the records of aborted and of open transactions",
    )
    made.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="print.key=true|print.offset=true|…",
        help="print.… of timestamp, partition, offset, headers, key, value; key.separator, headers.separator, "
        "line.separator; null.literal",
    )
    options = made.parse_args(arguments)
    if options.offset is not None and options.partition is None:
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
        headers=flag("print.headers"),
        key=flag("print.key"),
        value=flag("print.value", "true"),
        key_separator=properties.get("key.separator", "\t").encode(),
        line_separator=properties.get("line.separator", "\n").encode(),
        headers_separator=properties.get("headers.separator", ",").encode(),
        null=properties.get("null.literal", "null").encode(),
    )
    isolation = Isolation[options.isolation_level.upper()]
    numbers = await partitions_of(client, options.topic)
    if options.partition is not None:
        if options.partition not in numbers:
            raise CommandFailed(f"Topic {options.topic} has no partition {options.partition}")
        numbers = [options.partition]
    groups = GroupAdmin(client, asyncio_runtime()) if options.group else None
    # With --partition the consumer starts at --offset, even if it has a group
    # (ConsoleConsumer.ConsumerWrapper.seek).
    committed = {} if groups is None or options.partition is not None else await groups.offsets(options.group)
    positions = {
        partition: committed[partition]
        if partition in committed
        else await _begin(client, partition, options, isolation)
        for partition in (TopicPartition(options.topic, number) for number in numbers)
    }
    reader = _Reader(client, positions, EARLIEST if options.from_beginning else LATEST, isolation)
    try:
        await reader.read(shown, options.max_messages, options.timeout_ms)
    finally:
        print(f"Processed a total of {reader.printed} messages", file=sys.stderr)  # noqa: T201
        if groups is not None:
            await groups.commit(options.group, positions)


async def _begin(
    client: AdminClient, partition: TopicPartition, options: argparse.Namespace, isolation: Isolation
) -> int:
    # As in ConsoleConsumerOptions.parseOffset, --offset has precedence over --from-beginning.
    start = options.offset or ("earliest" if options.from_beginning else "latest")
    if start.lower() in NAMED:
        return await client.list_offset(partition, NAMED[start.lower()], isolation=isolation)
    try:
        offset = java_long(start)
    except argparse.ArgumentTypeError:
        raise CommandFailed(f"The provided offset value '{options.offset}' is incorrect.") from None
    return offset if offset >= 0 else max(0, await client.list_offset(partition, LATEST, isolation=isolation) + offset)


class _Reader:
    """Prints records from the current position of each partition, and advances the positions.

    If a partition has no available leader, it is tried again later, and the other partitions are read in the meantime,
    as in Kafka's consumer. If a position is out of range (records were deleted, or lost with a leader), reading
    continues at the latest or earliest offset, as `reset` selects.
    """

    def __init__(
        self, client: AdminClient, positions: dict[TopicPartition, int], reset: int, isolation: Isolation
    ) -> None:
        self._client = client
        self._isolation = isolation
        self._positions = positions
        self._reset = reset
        self._silent: set[TopicPartition] = set()
        """Partitions that have already been reported as unavailable."""
        self.printed = 0

    async def read(self, shown: _Shown, messages_max: int, timeout_ms: int) -> None:
        """Print up to `messages_max` records, and stop early if no record arrives for `timeout_ms`.

        A negative `messages_max` or `timeout_ms` means no limit.
        """
        last = time.monotonic()
        while True:
            quiet = True
            for partition in self._positions:
                found = await self._fetched(partition, POLL_MS if quiet else 0)
                for record in found.records:
                    if 0 <= messages_max <= self.printed:
                        return
                    is_stamped = _is_among(record.offset, found.stamped)
                    sys.stdout.buffer.write(shown.line(record, partition.partition, is_stamped=is_stamped))
                    self._positions[partition] = record.offset + 1
                    self.printed += 1
                    quiet = False
                # Continue after the last offset of the fetched batches, because compaction may have removed their last
                # records.
                self._positions[partition] = max(self._positions[partition], found.next_offset)
                sys.stdout.buffer.flush()
            if 0 <= messages_max <= self.printed:
                return
            if not quiet:
                last = time.monotonic()
            elif 0 <= timeout_ms <= (time.monotonic() - last) * 1000:
                return

    async def _fetched(self, partition: TopicPartition, max_wait_ms: int) -> Fetched:
        """Fetch the next records of a partition; none if there are no new records, or if no leader is available."""
        position = self._positions[partition]
        try:
            found = await self._client.fetch(
                partition, position, max_wait_ms=max_wait_ms, timeout_ms=PATIENCE_MS, isolation=self._isolation
            )
            self._silent.discard(partition)
            return found
        except BatchUnreadable as damaged:
            wrong = f"{partition}: records from offset {position} cannot be read: {damaged}"
            raise CommandFailed(wrong) from None
        except (KafkaUnavailable, KafkaRequestFailed) as reason:
            error = reason.error if isinstance(reason, KafkaRequestFailed) else None
            if error is ErrorCode.offset_out_of_range:
                self._positions[partition] = there = await self._client.list_offset(
                    partition, self._reset, isolation=self._isolation
                )
                _warn(f"{partition}: offset {position} is out of range; continuing at {there}")
            elif error is not None and error not in RETRIED:
                raise
            elif partition not in self._silent:
                self._silent.add(partition)
                _warn(f"{partition} is not available yet: {reason}")
            return Fetched([], -1, -1)


def _is_among(offset: int, ranges: Sequence[range]) -> bool:
    """Return whether one of these ranges contains the offset."""
    place = bisect_right(ranges, offset, key=lambda each: each.start)
    return place > 0 and offset in ranges[place - 1]


def _warn(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201
