"""`zabka log-dirs`: works like kafka-log-dirs.sh of Kafka 3.9."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.cli.kafka_command import CommandFailed, parser, print_line, run
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.log_admin import LogDirInfo, describe_log_dirs


def main(arguments: list[str]) -> int:
    """Run log-dirs; return the exit code."""
    made = parser("log-dirs", "Print the log directories of brokers, with every replica in them, as JSON.")
    made.add_argument("--describe", action="store_true", required=True)
    made.add_argument("--topic-list", default="", metavar="TOPIC,…")
    made.add_argument("--broker-list", default="", metavar="1,2")
    options = made.parse_args(arguments)
    return run(options, lambda client: _log_dirs(client, options), _print_failure)


def _print_failure(reason: Exception) -> None:
    print(reason, file=sys.stderr)  # noqa: T201


async def _log_dirs(client: AdminClient, options: argparse.Namespace) -> None:
    topics = [name.strip() for name in options.topic_list.split(",") if name.strip()]
    try:
        asked = [int(word) for word in options.broker_list.split(",") if word.strip()]
    except ValueError:
        raise CommandFailed(f"{options.broker_list} is not a list of broker ids") from None
    live = (await client.metadata([])).brokers
    missing = sorted(set(asked) - live.keys())
    if missing:
        raise CommandFailed(
            f"ERROR: The given brokers do not exist from --broker-list: {','.join(map(str, missing))}. "
            f"Current existent brokers: {','.join(map(str, sorted(live)))}"
        )
    brokers = sorted(set(asked) or live)
    print_line("Querying brokers for log directories information")
    found = {broker: await describe_log_dirs(client, live[broker]) for broker in brokers}
    print_line(f"Received log directory information from brokers {','.join(map(str, brokers))}")
    rows = [{"broker": broker, "logDirs": [_directory(each, topics) for each in found[broker]]} for broker in brokers]
    print_line(json.dumps({"brokers": rows, "version": 1}, separators=(",", ":")))


def _directory(directory: LogDirInfo, topics: list[str]) -> dict[str, Any]:
    partitions = [
        {
            "partition": str(partition),
            "size": log.size_bytes,
            "offsetLag": log.offset_lag,
            "isFuture": log.is_future,
        }
        for partition, log in directory.logs.items()
        if not topics or partition.topic in topics
    ]
    error = None
    if directory.error is not ErrorCode.none:
        error = "org.apache.kafka.common.errors.KafkaStorageException"
    return {"partitions": partitions, "error": error, "logDir": directory.path}
