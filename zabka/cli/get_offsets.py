"""`zabka get-offsets`: works like kafka-get-offsets.sh of Kafka 3.9."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable

from zabka.cli.java_numbers import java_int, java_long
from zabka.cli.kafka_command import CommandFailed, parser, print_line, run
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.topic_names import INTERNAL_TOPICS

TIMES = {"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5}

Matches = Callable[[TopicPartition], bool]


def main(arguments: list[str]) -> int:
    """Run `zabka get-offsets` with these arguments; return its exit code."""
    made = parser("get-offsets", "Print the offsets of partitions.")
    made.add_argument("--topic", help="a regular expression; all topics by default")
    made.add_argument("--partitions", metavar="0,1", help="all by default")
    made.add_argument("--topic-partitions", metavar="topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3")
    made.add_argument("--time", default="latest", help=f"milliseconds, or one of {', '.join(TIMES)}")
    made.add_argument("--exclude-internal-topics", action="store_true")
    options = made.parse_args(arguments)
    return run(options, lambda client: _offsets(client, options), _print_failure)


def _print_failure(reason: Exception) -> None:
    print(f"Error occurred: {reason}", file=sys.stderr)  # noqa: T201


async def _offsets(client: AdminClient, options: argparse.Namespace) -> None:
    if options.topic_partitions and (options.topic or options.partitions):
        raise CommandFailed("--topic-partitions cannot be used with --topic or --partitions")
    moment = parse_time(options.time)
    if options.topic_partitions:
        matches = any_of(options.topic_partitions)
    else:
        matches = topic_and_partitions(options.topic, options.partitions)
    cluster = await client.metadata()
    found = [
        each
        for name, topic in cluster.topics.items()
        if not (options.exclude_internal_topics and name in INTERNAL_TOPICS)
        for each in (TopicPartition(name, row.partition) for row in topic.partitions)
        if matches(each)
    ]
    if not found:
        raise CommandFailed("Could not match any topic-partitions with the specified filters")
    for each in sorted(found, key=str):
        try:
            offset = await client.list_offset(each, moment)
        except (KafkaRequestFailed, KafkaUnavailable) as reason:
            print(f"Skip getting offsets for topic-partition {each} due to error: {reason}", file=sys.stderr)  # noqa: T201
            continue
        if offset >= 0:
            print_line(f"{each.topic}:{each.partition}:{offset}")


def parse_time(text: str) -> int:
    """Parse --time as a timestamp or a special value such as latest. Raises CommandFailed."""
    if text in TIMES:
        return TIMES[text]
    try:
        return java_long(text)
    except argparse.ArgumentTypeError:
        raise CommandFailed(
            f"Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp / "
            "-4 or earliest-local / -5 or latest-tiered, or a specified long format timestamp"
        ) from None


def topic_and_partitions(topic: str | None, partitions: str | None) -> Matches:
    """Return a filter that accepts the partitions selected by --topic and --partitions. Raises CommandFailed."""
    try:
        numbers = None if not partitions else {java_int(number) for number in partitions.split(",")}
    except argparse.ArgumentTypeError:
        raise CommandFailed(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {partitions}"
        ) from None
    name = _regex(topic or ".*")
    return lambda each: bool(name.fullmatch(each.topic)) and (numbers is None or each.partition in numbers)


def any_of(patterns: str) -> Matches:
    """Return a filter that accepts the partitions selected by --topic-partitions. Raises CommandFailed.

    Example: topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3.
    """
    rules = [_rule(text) for text in patterns.split(",")]
    return lambda each: any(rule(each) for rule in rules)


def _rule(text: str) -> Matches:
    found = re.fullmatch(r"([^:,]*)(?::(?:(\d+)|(\d*)-(\d*))?)?", text)
    if found is None:
        raise CommandFailed(f"Invalid rule specification: {text}")
    name, exact, low, high = found.groups()
    topic = _regex(name or ".*")
    try:
        first, last = java_int(exact or low or "0"), java_int(high) if high else 2**31
    except argparse.ArgumentTypeError as wrong:
        raise CommandFailed(f"Invalid rule specification: {wrong}") from None
    numbers = range(first, first + 1) if exact else range(first, last)
    return lambda each: bool(topic.fullmatch(each.topic)) and each.partition in numbers


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text.replace(",", "|"))
    except (re.error, OverflowError, RecursionError) as bad:
        raise CommandFailed(f"{text} is an invalid regex: {bad}") from None
