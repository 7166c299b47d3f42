"""`zabka delete-records`: works like kafka-delete-records.sh of Kafka 3.9."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from zabka.cli.java_numbers import json_number, json_text
from zabka.cli.kafka_command import CommandFailed, parser, print_line, run
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.log_admin import delete_records


def main(arguments: list[str]) -> int:
    """Run `zabka delete-records` with these arguments; return its exit code."""
    made = parser("delete-records", "Delete the records of partitions before an offset.")
    made.add_argument("--offset-json-file", type=Path, required=True, metavar="FILE")
    options = made.parse_args(arguments)
    return run(options, lambda client: _delete(client, options))


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Read the offsets in `{"partitions":[{"topic":…,"partition":…,"offset":…}],"version":1}`. Raises CommandFailed."""
    try:
        document = json.loads(path.read_text())
        rows = [
            (TopicPartition(json_text(row["topic"]), json_number(row["partition"])), json_number(row["offset"], 64))
            for row in document["partitions"]
        ]
    except UnicodeDecodeError:
        # Do not show the original exception, because its message contains the whole content of the file.
        raise CommandFailed(f"cannot read offsets from {path}: it is not a text file") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as reason:
        raise CommandFailed(f"cannot read offsets from {path}: {reason!r}") from None
    if document.get("version", 1) != 1:
        raise CommandFailed(f"Not supported version field value {document['version']}")
    twice = {str(partition) for partition, _ in rows if [p for p, _ in rows].count(partition) > 1}
    if twice:
        raise CommandFailed(f"Offset json file contains duplicate topic partitions: {','.join(sorted(twice))}")
    return dict(rows)


async def _delete(client: AdminClient, options: argparse.Namespace) -> None:
    offsets = read_offsets(options.offset_json_file)
    await client.metadata(sorted({partition.topic for partition in offsets}))
    print_line("Executing records delete operation")
    print_line("Records delete operation completed:")
    for partition, offset in offsets.items():
        try:
            print_line(f"partition: {partition}\tlow_watermark: {await delete_records(client, partition, offset)}")
        except (KafkaRequestFailed, KafkaUnavailable) as reason:
            absent = isinstance(reason, KafkaUnavailable) and client.partition(partition) is None
            print_line(f"partition: {partition}\terror: {'there is no such partition' if absent else reason}")
