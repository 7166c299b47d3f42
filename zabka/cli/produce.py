"""`zabka produce`: works like kafka-console-producer.sh of Kafka 3.9."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import BinaryIO

from zabka.cli.console import partitions_of, properties_of
from zabka.cli.java_numbers import java_int
from zabka.cli.kafka_command import API_TIMEOUT_MS, CommandFailed, asyncio_runtime, parser, run
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.partitioner import partition_for
from zabka.kafka.client.transactional_producer import TransactionalProducer
from zabka.kafka.record_batch import Record

BATCH_RECORDS_MAX = 500
READ_BYTES = 64 * 1024
Append = Callable[[TopicPartition, Sequence[Record]], Awaitable[object]]


def main(arguments: list[str]) -> int:
    """Run the producer on standard input; return the exit code."""
    made = parser("produce", "Produce the lines of standard input.")
    made.add_argument("--topic", required=True)
    made.add_argument("--property", action="append", default=[], metavar="parse.key=true|key.separator=:")
    made.add_argument("--request-required-acks", "--acks", dest="acks", choices=("all", "-1", "0", "1"), default="-1")
    made.add_argument("--timeout", type=java_int, default=API_TIMEOUT_MS, help="milliseconds")
    made.add_argument(
        "--transactional-id", help="produce the input as one transaction: committed at its end, aborted on an error"
    )
    options = made.parse_args(arguments)
    if options.timeout < 1:
        made.error(f"--timeout must be at least 1, not {options.timeout}")
    return run(options, lambda client: _produce(client, options))


async def _produce(client: AdminClient, options: argparse.Namespace) -> None:
    properties = properties_of(options.property)
    keyed = properties.get("parse.key", "false").lower() == "true"
    separator = properties.get("key.separator", "\t").encode() if keyed else None
    numbers = await partitions_of(client, options.topic)
    acks = -1 if options.acks == "all" else int(options.acks)

    async def append(partition: TopicPartition, records: Sequence[Record]) -> None:
        await client.produce(partition, records, acks=acks, timeout_ms=options.timeout)

    if options.transactional_id is None:
        await _produce_lines(options.topic, len(numbers), separator, append)
        return
    producer = TransactionalProducer(client, asyncio_runtime(), options.transactional_id)
    await producer.begin()
    try:
        await _produce_lines(options.topic, len(numbers), separator, producer.send)
    except BaseException:
        await producer.end(commit=False)
        raise
    await producer.end(commit=True)


async def _produce_lines(topic: str, partitions: int, separator: bytes | None, append: Append) -> None:
    lines = turn = 0
    async for batch in _batches(getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)):
        records, wrong = _records(batch, separator, lines)
        lines += len(batch)
        shares: dict[int, list[Record]] = {}
        for record in records:
            shares.setdefault(partition_for(record.key, partitions, turn), []).append(record)
        turn += 1
        for number, share in shares.items():
            await append(TopicPartition(topic, number), share)
        if wrong is not None:
            raise wrong


async def _batches(source: BinaryIO) -> AsyncIterator[list[bytes]]:
    """Yield the complete lines that have arrived, without their line ends and without waiting for more input."""
    rest = b""
    while data := await _read(source):
        *lines, rest = (rest + data).split(b"\n")
        for begin in range(0, len(lines), BATCH_RECORDS_MAX):
            yield [line.removesuffix(b"\r") for line in lines[begin : begin + BATCH_RECORDS_MAX]]
    if rest:
        yield [rest]


async def _read(source: BinaryIO) -> bytes:
    """Return the next bytes of the input; empty at the end of the input. Raises OSError.

    A daemon thread reads the input. At exit asyncio waits for its own threads, so Ctrl-C would have no effect until
    another line arrives. `source` is unbuffered, because a buffer cannot be closed while a thread reads it.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()

    def settle(data: bytes | OSError) -> None:
        if answer.done():
            return
        if isinstance(data, OSError):
            answer.set_exception(data)
        else:
            answer.set_result(data)

    def read() -> None:
        data: bytes | OSError
        try:
            data = source.read(READ_BYTES)
        except OSError as failed:
            data = failed
        with contextlib.suppress(RuntimeError):  # The loop has ended in the meantime.
            loop.call_soon_threadsafe(settle, data)

    threading.Thread(target=read, name="standard input", daemon=True).start()
    return await answer


def _records(lines: Sequence[bytes], separator: bytes | None, before: int) -> tuple[list[Record], CommandFailed | None]:
    """Parse lines as records up to the first invalid line. Return the records, and the error if there is one.

    `before` is the number of lines parsed before these, for the line number in the error.
    """
    records = []
    for number, line in enumerate(lines, start=before + 1):
        try:
            records.append(parse_line(line, separator, number))
        except CommandFailed as wrong:
            return records, wrong
    return records, None


def parse_line(line: bytes, separator: bytes | None, number: int) -> Record:
    """Parse a line as a record. With a separator, the text before it is the key.

    Raises CommandFailed if the line does not contain the separator.
    """
    now_ms = time.time_ns() // 1_000_000
    if separator is None:
        return Record(None, line, now_ms)
    # As in Java's LineMessageReader, an empty separator matches at the beginning, so every key is empty.
    place = line.find(separator)
    if place < 0:
        raise CommandFailed(f"No key separator found on line number {number}: '{line.decode(errors='replace')}'")
    return Record(line[:place], line[place + len(separator) :], now_ms)
