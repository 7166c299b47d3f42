"""`zabka topics`: kafka-topics.sh, with the same options and output (org.apache.kafka.tools.TopicCommand, 3.9)."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.cli.java_numbers import java_int
from zabka.cli.kafka_command import API_TIMEOUT_MS, CommandFailed, hash_order, parser, print_line, run
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import TOPIC_RESOURCE, AdminClient, ConfigEntry
from zabka.kafka.client.client import PartitionInfo, TopicInfo
from zabka.kafka.client.client_errors import KafkaRequestFailed
from zabka.kafka.client.reassignment_client import Ongoing, list_reassignments

DYNAMIC_TOPIC_CONFIG = 1
REPLICATION_FACTOR_MAX = 32767


def _options() -> argparse.ArgumentParser:
    made = parser("topics", "Create, describe, alter, delete or list topics.")
    what = made.add_mutually_exclusive_group(required=True)
    for name in ("create", "describe", "alter", "delete", "list"):
        what.add_argument(f"--{name}", action="store_true")
    made.add_argument("--topic", help="a name; for describe, delete and list also a regular expression")
    made.add_argument("--topic-id")
    made.add_argument("--partitions", type=java_int)
    made.add_argument("--replication-factor", type=java_int)
    made.add_argument("--replica-assignment", metavar="1:2:3,2:3:1", help="one list of brokers per partition")
    made.add_argument("--config", action="append", default=[], metavar="KEY=VALUE")
    for name in (
        "if-not-exists", "if-exists", "under-replicated-partitions", "unavailable-partitions",
        "under-min-isr-partitions", "at-min-isr-partitions", "topics-with-overrides", "exclude-internal",
    ):  # fmt: skip
        made.add_argument(f"--{name}", action="store_true")
    return made


def main(arguments: list[str]) -> int:
    """Run the tool; return the exit code."""
    made = _options()
    options = made.parse_args(arguments)
    if (options.create or options.alter or options.delete) and not options.topic:
        made.error('Missing required argument "[topic]"')
    if options.replica_assignment and (options.partitions or options.replication_factor) and options.create:
        made.error('Option "[replica-assignment]" can\'t be used with option "[partitions]"')
    if options.create:
        return run(options, lambda client: _create(client, options), _print_failure)
    if options.alter:
        return run(options, lambda client: _alter(client, options), _print_failure)
    if options.delete:
        return run(options, lambda client: _delete(client, options), _print_failure)
    return run(options, lambda client: _show(client, options), _print_failure)


def _print_failure(reason: Exception) -> None:
    """Print the failure on standard output, as Kafka's tool does."""
    print_line(f"Error while executing topic command : {reason}")


def parse_assignment(text: str) -> dict[int, list[int]]:
    """Parse `1:2,2:1` as a mapping of partition to brokers. Raises CommandFailed."""
    try:
        found = {p: [java_int(b) for b in part.split(":")] for p, part in enumerate(text.split(","))}
    except argparse.ArgumentTypeError:
        raise CommandFailed(f"{text!r} is not a replica assignment such as 1:2:3,2:3:1") from None
    if any(len(set(brokers)) != len(brokers) for brokers in found.values()):
        raise CommandFailed("Partition replica lists may not contain duplicate entries")
    if len({len(brokers) for brokers in found.values()}) > 1:
        raise CommandFailed("Partitions have different replication factors")
    return found


def parse_configs(pairs: list[str]) -> dict[str, str]:
    """Parse `KEY=VALUE` pairs. Raises CommandFailed for invalid pairs."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise CommandFailed("requirement failed: Invalid topic config: all configs to be added must be in "
                                "the format \"key=val\".")  # fmt: skip
        found[key.strip()] = value.strip()
    return found


async def _create(client: AdminClient, options: argparse.Namespace) -> None:
    name = options.topic
    if options.partitions is not None and options.partitions < 1:
        raise CommandFailed("The partitions must be greater than 0")
    if options.replication_factor is not None and not 1 <= options.replication_factor <= REPLICATION_FACTOR_MAX:
        raise CommandFailed(f"The replication factor must be between 1 and {REPLICATION_FACTOR_MAX} inclusive")
    if "." in name or "_" in name:
        print_line(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both."
        )
    assignment = parse_assignment(options.replica_assignment) if options.replica_assignment else None
    try:
        await client.create_topic(
            name,
            -1 if options.partitions is None else options.partitions,
            -1 if options.replication_factor is None else options.replication_factor,
            assignment=assignment,
            configs=parse_configs(options.config),
            timeout_ms=API_TIMEOUT_MS,
        )
    except KafkaRequestFailed as failure:
        if failure.error is ErrorCode.topic_already_exists and options.if_not_exists:
            return
        raise
    print_line(f"Created topic {name}.")


async def _alter(client: AdminClient, options: argparse.Namespace) -> None:
    found = await client.metadata([options.topic])
    info = found.topics.get(options.topic)
    if info is None or info.error is ErrorCode.unknown_topic_or_partition:
        if options.if_exists:
            return
        raise CommandFailed(f"Topic '{options.topic}' does not exist as expected")
    if options.partitions is None:
        raise CommandFailed("--alter takes --partitions; configurations are altered with `zabka configs`")
    assignments = None
    if options.replica_assignment:
        requested = parse_assignment(options.replica_assignment)
        assignments = [requested[p] for p in sorted(requested)][len(info.partitions) :]
    await client.create_partitions(
        options.topic, options.partitions, assignments=assignments, timeout_ms=API_TIMEOUT_MS
    )


async def _delete(client: AdminClient, options: argparse.Namespace) -> None:
    names = await _matching(client, options)
    for name in names:
        await client.delete_topic(name, timeout_ms=API_TIMEOUT_MS)


async def _matching(client: AdminClient, options: argparse.Namespace) -> list[str]:
    """Return the topics that --topic matches, or all topics without it. Raises CommandFailed if there are none."""
    known = {n: t for n, t in (await client.metadata()).topics.items() if t.error is not ErrorCode.unknown_topic_id}
    if options.topic_id:
        names = sorted(n for n, t in known.items() if t.topic_id == options.topic_id)
        requested = f"TopicId '{options.topic_id}'"
    elif options.topic:
        try:
            # As in Kafka's IncludeList, a comma separates alternatives in a pattern of topic names.
            pattern = re.compile(options.topic.strip("\"'").replace(",", "|"))
        except (re.error, OverflowError, RecursionError) as bad:
            raise CommandFailed(f"{options.topic} is an invalid regex: {bad}") from None
        names = sorted(n for n in known if pattern.fullmatch(n))
        requested = f"Topic '{options.topic}'"
    else:
        return sorted(n for n in known if not (options.exclude_internal and n.startswith("__")))
    if not names and not options.if_exists and not options.list:
        raise CommandFailed(f"{requested} does not exist as expected")
    return names


async def _show(client: AdminClient, options: argparse.Namespace) -> None:
    names = await _matching(client, options)
    if options.list:
        for name in names:
            print_line(name)
        return
    found = await client.metadata(names) if names else None
    ongoing = await list_reassignments(client) if names else {}
    for name in names:
        info = found.topics.get(name) if found is not None else None
        if info is not None and info.partitions:
            overrides, min_isr = _configured(await client.describe_configs(TOPIC_RESOURCE, name))
            alive = set(found.brokers) if found is not None else set()
            for line in describe(_Topic(info, overrides, min_isr, ongoing), alive, options):
                print_line(line)


def _configured(entries: list[ConfigEntry]) -> tuple[dict[str, str], int]:
    values = {e.name: e.value or "" for e in entries}
    overrides = {e.name: e.value or "" for e in in_hash_order(entries) if e.source == DYNAMIC_TOPIC_CONFIG}
    return overrides, int(values.get("min.insync.replicas", "1"))


def in_hash_order(entries: list[ConfigEntry]) -> list[ConfigEntry]:
    """Sort config entries in the order in which Kafka's tool prints them, which is Java's hash order."""
    places = {name: place for place, name in enumerate(hash_order([e.name for e in entries]))}
    return sorted(entries, key=lambda entry: places[entry.name])


class _Topic(NamedTuple):
    """The data of one topic that --describe prints."""

    info: TopicInfo
    overrides: dict[str, str]
    min_isr: int
    ongoing: Mapping[TopicPartition, Ongoing]

    def reassignment(self, partition: PartitionInfo) -> Ongoing | None:
        return self.ongoing.get(TopicPartition(self.info.name, partition.partition))

    def factor(self, partition: PartitionInfo) -> int:
        """Return the replication factor, without replicas that a reassignment is still adding."""
        reassignment = self.reassignment(partition)
        if reassignment is None:
            return len(partition.replicas)
        return len(reassignment.replicas) - len(reassignment.adding)


def describe(topic: _Topic, alive: set[int], options: argparse.Namespace) -> list[str]:
    """Return the output lines of --describe for one topic, after applying the filters in the options."""
    info, overrides = topic.info, topic.overrides
    filters = (
        options.under_replicated_partitions, options.unavailable_partitions, options.under_min_isr_partitions,
        options.at_min_isr_partitions,
    )  # fmt: skip
    configs = ",".join(f"{k}={v}" for k, v in overrides.items())
    replication = topic.factor(info.partitions[0])
    lines = []
    if options.topics_with_overrides and not overrides:
        return []
    if not any(filters):
        lines.append(
            f"Topic: {info.name}\tTopicId: {info.topic_id}\tPartitionCount: {len(info.partitions)}"
            f"\tReplicationFactor: {replication}\tConfigs: {configs}"
        )
    if options.topics_with_overrides:
        return lines
    return lines + [_line(topic, p) for p in info.partitions if not any(filters) or _selected(topic, p, alive, options)]


def _selected(topic: _Topic, partition: PartitionInfo, alive: set[int], options: argparse.Namespace) -> bool:
    isr = len(partition.isr)
    return bool(
        (options.under_replicated_partitions and isr < topic.factor(partition))
        or (options.unavailable_partitions and partition.leader not in alive)
        or (options.under_min_isr_partitions and (partition.leader < 0 or isr < topic.min_isr))
        or (options.at_min_isr_partitions and isr == topic.min_isr)
    )


def _line(topic: _Topic, partition: PartitionInfo) -> str:
    leader = partition.leader if partition.leader >= 0 else "none"
    replicas, isr = ",".join(map(str, partition.replicas)), ",".join(map(str, partition.isr))
    moving = ""
    reassignment = topic.reassignment(partition)
    if reassignment is not None:
        adding, removing = (",".join(map(str, each)) for each in (reassignment.adding, reassignment.removing))
        moving = f"\tAdding Replicas: {adding}\tRemoving Replicas: {removing}"
    return (
        f"\tTopic: {topic.info.name}\tPartition: {partition.partition}\tLeader: {leader}\tReplicas: {replicas}"
        f"\tIsr: {isr}{moving}\tElr: N/A\tLastKnownElr: N/A"
    )
