"""`zabka transactions`: works like kafka-transactions.sh of Kafka 3.9."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from zabka.cli.java_numbers import java_int, java_long
from zabka.cli.kafka_command import CommandFailed, asyncio_runtime, parser, print_line, run
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaRequestFailed
from zabka.kafka.client.transaction_admin import NONE, ProducerInfo, TransactionAdmin
from zabka.kafka.ports import Endpoint

MINUTE_MS = 60_000
LISTED = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
DESCRIBED = (
    "CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions",
)  # fmt: skip
PRODUCERS = (
    "ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp",
    "CurrentTransactionStartOffset",
)  # fmt: skip
HANGING = (
    "Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp",
    "Duration(min)",
)  # fmt: skip


def main(arguments: list[str]) -> int:
    """Run `zabka transactions` with these arguments; return its exit code."""
    made = parser("transactions", "Analyze the transactions of producers, and abort hanging ones.")
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="list transactional ids")
    listing.add_argument("--duration-filter", type=java_long, default=NONE, help="only transactions that old, in ms")
    described = commands.add_parser("describe", help="describe a transactional id")
    described.add_argument("--transactional-id", required=True)
    producers = commands.add_parser("describe-producers", help="describe the active producers of a partition")
    producers.add_argument("--broker-id", type=java_int, help="ask this replica instead of the leader")
    aborting = commands.add_parser("abort", help="abort a hanging transaction")
    aborting.add_argument("--start-offset", type=java_long)
    aborting.add_argument("--producer-id", type=java_long)
    aborting.add_argument("--producer-epoch", type=java_int)
    aborting.add_argument("--coordinator-epoch", type=java_int)
    for each in (producers, aborting):
        each.add_argument("--topic", required=True)
        each.add_argument("--partition", type=java_int, required=True)
    hanging = commands.add_parser("find-hanging", help="find hanging transactions")
    hanging.add_argument("--broker-id", type=java_int)
    hanging.add_argument("--max-transaction-timeout", type=java_int, default=15, help="minutes; default: 15")
    hanging.add_argument("--topic")
    hanging.add_argument("--partition", type=java_int)
    options = made.parse_args(arguments)
    work = {
        "list": _list, "describe": _describe, "describe-producers": _describe_producers, "abort": _abort,
        "find-hanging": _find_hanging,
    }[options.command]  # fmt: skip
    return run(options, lambda client: work(client, options), _print_failure)


def _print_failure(reason: Exception) -> None:
    print(reason, file=sys.stderr)  # noqa: T201


def _print_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table as Kafka's tool does: padded columns, each followed by a tab."""
    texts = [list(headers), *([str(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(headers))]
    for row in texts:
        print_line("".join(f"{value:<{width}}\t" for value, width in zip(row, widths, strict=True)))


async def _list(client: AdminClient, options: argparse.Namespace) -> None:
    found = await TransactionAdmin(client, asyncio_runtime()).listed(options.duration_filter)
    _print_table(LISTED, [(each.transactional_id, each.coordinator, each.producer_id, each.state) for each in found])


async def _describe(client: AdminClient, options: argparse.Namespace) -> None:
    name = options.transactional_id
    try:
        found = await TransactionAdmin(client, asyncio_runtime()).described(name)
    except KafkaRequestFailed as failed:
        raise CommandFailed(f"Failed to describe transaction state of transactional-id `{name}`: {failed}") from None
    is_open = found.started_ms > 0
    started = found.started_ms if is_open else "None"
    duration = time.time_ns() // 1_000_000 - found.started_ms if is_open else "None"
    row = (
        found.coordinator, name, found.producer_id, found.producer_epoch, found.state, found.timeout_ms, started,
        duration, ",".join(map(str, found.partitions)),
    )  # fmt: skip
    _print_table(DESCRIBED, [row])


async def _describe_producers(client: AdminClient, options: argparse.Namespace) -> None:
    partition = TopicPartition(options.topic, options.partition)
    broker = await _broker(client, options.broker_id)
    where = "leader" if broker is None else f"broker {broker.broker_id}"
    try:
        found = await TransactionAdmin(client, asyncio_runtime()).producers(partition, broker)
    except KafkaRequestFailed as failed:
        raise CommandFailed(f"Failed to describe producers for partition {partition} on {where}: {failed}") from None
    rows = [
        (each.producer_id, each.producer_epoch, each.coordinator_epoch, each.last_sequence, each.last_timestamp_ms,
         "None" if each.transaction_start == NONE else each.transaction_start)
        for each in found
    ]  # fmt: skip
    _print_table(PRODUCERS, rows)


async def _broker(client: AdminClient, broker_id: int | None) -> Endpoint | None:
    if broker_id is None:
        return None
    brokers = (await client.metadata([])).brokers
    if broker_id not in brokers:
        raise CommandFailed(f"There is no live broker {broker_id}; there are {', '.join(map(str, sorted(brokers)))}")
    return brokers[broker_id]


async def _abort(client: AdminClient, options: argparse.Namespace) -> None:
    admin = TransactionAdmin(client, asyncio_runtime())
    partition = TopicPartition(options.topic, options.partition)
    if options.start_offset is not None:
        found = [
            producer
            for producer in await admin.producers(partition)
            if producer.transaction_start == options.start_offset
        ]
        if not found:
            raise CommandFailed(
                f"Could not find any open transactions starting at offset {options.start_offset} "
                f"on partition {partition}"
            )
        producer = found[0]
    else:
        producer = _named_producer(options)
    try:
        await admin.abort(partition, producer)
    except KafkaRequestFailed as failed:
        raise CommandFailed(f"Failed to abort the transaction of producer {producer.producer_id}: {failed}") from None


def _named_producer(options: argparse.Namespace) -> ProducerInfo:
    if options.producer_id is None:
        raise CommandFailed(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    for option, value in (
        ("--producer-epoch", options.producer_epoch),
        ("--coordinator-epoch", options.coordinator_epoch),
    ):
        if value is None:
            raise CommandFailed(f"Missing required argument {option}")
    return ProducerInfo(options.producer_id, options.producer_epoch, options.coordinator_epoch, NONE, NONE, NONE)


async def _find_hanging(client: AdminClient, options: argparse.Namespace) -> None:
    if options.topic is None and options.broker_id is None:
        raise CommandFailed(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if options.partition is not None and options.topic is None:
        raise CommandFailed("The --partition argument requires --topic to be provided")
    admin = TransactionAdmin(client, asyncio_runtime())
    broker = await _broker(client, options.broker_id)
    now_ms = time.time_ns() // 1_000_000
    candidates = [
        (partition, producer)
        for partition, producer in await admin.open_transactions(await _partitions(client, options), broker)
        if now_ms - producer.last_timestamp_ms > options.max_transaction_timeout * MINUTE_MS
    ]
    names = {each.producer_id: each.transactional_id for each in await admin.listed()} if candidates else {}
    rows = [
        (partition.topic, partition.partition, producer.producer_id, producer.producer_epoch,
         producer.coordinator_epoch, producer.transaction_start, producer.last_timestamp_ms,
         (now_ms - producer.last_timestamp_ms) // MINUTE_MS)
        for partition, producer in candidates
        if not await _is_known(admin, names.get(producer.producer_id), partition)
    ]  # fmt: skip
    _print_table(HANGING, rows)


async def _partitions(client: AdminClient, options: argparse.Namespace) -> list[TopicPartition]:
    if options.partition is not None:
        return [TopicPartition(options.topic, options.partition)]
    topics = (await client.metadata(None if options.topic is None else [options.topic])).topics
    return [
        TopicPartition(name, row.partition)
        for name, topic in sorted(topics.items())
        for row in topic.partitions
        if options.broker_id is None or options.broker_id in row.replicas
    ]


async def _is_known(admin: TransactionAdmin, transactional_id: str | None, partition: TopicPartition) -> bool:
    """Return whether the transaction's coordinator still lists the partition in an open transaction."""
    if transactional_id is None:
        return False
    try:
        return partition in (await admin.described(transactional_id)).partitions
    except KafkaRequestFailed as failed:
        if failed.error is ErrorCode.transactional_id_not_found:
            return False
        raise
