"""`zabka elect`: kafka-leader-election.sh, with the same options and output (LeaderElectionCommand, 3.9)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from kio.schema.errors import ErrorCode

from zabka.cli.java_numbers import java_int, json_number, json_text
from zabka.cli.kafka_command import API_TIMEOUT_MS, CommandFailed, parser, print_line, run
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import PREFERRED, UNCLEAN, AdminClient


def main(arguments: list[str]) -> int:
    """Run the tool; return the exit code."""
    made = parser("elect", "Trigger preferred or unclean leader elections.")
    made.add_argument("--election-type", required=True, type=str.lower, choices=("preferred", "unclean"))
    made.add_argument("--topic")
    made.add_argument("--partition", type=java_int)
    made.add_argument("--all-topic-partitions", action="store_true")
    made.add_argument("--path-to-json-file", type=Path)
    options = made.parse_args(arguments)
    ways = [options.topic is not None, options.all_topic_partitions, options.path_to_json_file is not None]
    if sum(ways) != 1:
        made.error(
            "One and only one of the following options is required: topic, all-topic-partitions, path-to-json-file"
        )
    if (options.topic is None) != (options.partition is None):
        made.error("Option partition and topic go together")
    return run(options, lambda client: _elect(client, options))


def read_partitions(path: Path) -> list[TopicPartition]:
    """Read the partitions in `{"partitions":[{"topic":…,"partition":…}]}`.  Raises CommandFailed."""
    try:
        rows = json.loads(path.read_text())["partitions"]
        found = [TopicPartition(json_text(row["topic"]), json_number(row["partition"])) for row in rows]
    except UnicodeDecodeError:
        # Do not show the original exception, because its message contains the whole content of the file.
        raise CommandFailed(f"cannot read partitions from {path}: it is not a text file") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as reason:
        raise CommandFailed(f"cannot read partitions from {path}: {reason!r}") from None
    if len(set(found)) != len(found):
        raise CommandFailed("Replica election data contains duplicate topic partitions")
    return found


async def _elect(client: AdminClient, options: argparse.Namespace) -> None:
    kind = PREFERRED if options.election_type == "preferred" else UNCLEAN
    partitions: list[TopicPartition] | None = None
    if options.topic is not None:
        partitions = [TopicPartition(options.topic, options.partition)]
    elif options.path_to_json_file is not None:
        partitions = read_partitions(options.path_to_json_file)
    results = await client.elect_leaders(kind, partitions, timeout_ms=API_TIMEOUT_MS)
    failed = report(options.election_type.upper(), results)
    if failed:
        raise CommandFailed(f"{failed} replica(s) could not be elected")


def report(kind: str, results: dict[TopicPartition, tuple[ErrorCode, str | None]]) -> int:
    """Print the results of the elections; return how many failed."""
    elected = [str(p) for p, (error, _) in sorted(results.items()) if error is ErrorCode.none]
    needless = [str(p) for p, (error, _) in sorted(results.items()) if error is ErrorCode.election_not_needed]
    if elected:
        print_line(f"Successfully completed leader election ({kind}) for partitions {', '.join(elected)}")
    if needless:
        print_line(f"Valid replica already elected for partitions {', '.join(needless)}")
    failed = 0
    for partition, (error, message) in sorted(results.items()):
        if error not in (ErrorCode.none, ErrorCode.election_not_needed):
            failed += 1
            name = "".join(part.title() for part in error.name.split("_")) + "Exception"
            text = f"org.apache.kafka.common.errors.{name}{f': {message}' if message else ''}"
            print_line(f"Error completing leader election ({kind}) for partition: {partition}: {text}")
    return failed
