"""`zabka reassign`: kafka-reassign-partitions.sh, same options, same output (ReassignPartitionsCommand, 3.9)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from broker_sim.assignment import assign_replicas
from broker_sim.client.admin_client import BROKER_RESOURCE, TOPIC_RESOURCE, AdminClient
from broker_sim.client.client import ClusterInfo
from broker_sim.client.reassignment_client import alter_reassignments, list_reassignments
from compose.kafka_command import API_TIMEOUT_MS, CommandFailed, parser, run, say
from journal.events import TopicPartition

LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create "
    "a new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
VERIFY = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)

Assignment = dict[TopicPartition, list[int]]


class Terse(CommandFailed):
    """What Kafka's tool says without the word Error."""


def main(arguments: list[str]) -> int:
    """Run the tool; the exit code."""
    made = parser("reassign", "Move partitions between brokers.")
    what = made.add_mutually_exclusive_group(required=True)
    for name in ("verify", "generate", "execute", "cancel", "list"):
        what.add_argument(f"--{name}", action="store_true")
    made.add_argument("--reassignment-json-file", type=Path, metavar="FILE")
    made.add_argument("--topics-to-move-json-file", type=Path, metavar="FILE")
    made.add_argument("--broker-list", metavar="1,2,3")
    made.add_argument("--throttle", type=int, default=-1, help="bytes a second between brokers")
    made.add_argument("--replica-alter-log-dirs-throttle", type=int, default=-1, metavar="N")
    for name in ("additional", "preserve-throttles", "disable-rack-aware"):
        made.add_argument(f"--{name}", action="store_true")
    options = made.parse_args(arguments)
    if options.generate and not (options.topics_to_move_json_file and options.broker_list):
        made.error("--generate needs --topics-to-move-json-file and --broker-list")
    if (options.verify or options.execute or options.cancel) and not options.reassignment_json_file:
        made.error('Missing required argument "[reassignment-json-file]"')
    works = {
        "verify": _verify, "generate": _generate, "execute": _execute, "cancel": _cancel, "list": _list,
    }  # fmt: skip
    work = next(works[name] for name in works if getattr(options, name))
    return run(options, lambda client: work(client, options), _tell)


def _tell(reason: Exception) -> None:
    say(str(reason) if isinstance(reason, Terse) else f"Error: {reason}")


# ---- files ----------------------------------------------------------------------------------------------------


def _read(path: Path) -> Any:
    try:
        document = json.loads(path.read_text())
    except ValueError:
        raise CommandFailed("The input string is not a valid JSON") from None
    except OSError as reason:
        raise CommandFailed(str(reason)) from None
    if not isinstance(document, dict):
        raise CommandFailed("The input string is not a valid JSON")
    if document.get("version", 1) != 1:
        raise CommandFailed(f"Not supported version field value {document['version']}")
    return document


def read_plan(path: Path) -> list[tuple[TopicPartition, list[int]]]:
    """The rows of a reassignment file.  Raises CommandFailed."""
    document = _read(path)
    try:
        return [
            (TopicPartition(str(row["topic"]), int(row["partition"])), [int(b) for b in row["replicas"]])
            for row in document.get("partitions", [])
        ]
    except (KeyError, TypeError, ValueError) as wrong:
        raise CommandFailed(f"a row of {path} cannot be read: {wrong!r}") from None


def _checked(rows: Sequence[tuple[TopicPartition, list[int]]]) -> Assignment:
    if not rows:
        raise CommandFailed("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in rows):
        raise CommandFailed("Partition replica list cannot be empty")
    twice = _duplicates([partition for partition, _ in rows])
    if twice:
        raise CommandFailed(f"Partition reassignment contains duplicate topic partitions: {','.join(map(str, twice))}")
    wrong = [
        f"{partition} contains multiple entries for {','.join(map(str, again))}"
        for partition, replicas in rows
        if (again := _duplicates(replicas))
    ]
    if wrong:
        raise CommandFailed(f"Partition replica lists may not contain duplicate entries: {'. '.join(wrong)}")
    return dict(rows)


def _duplicates(items: Sequence[Any]) -> list[Any]:
    return [item for item in dict.fromkeys(items) if items.count(item) > 1]


def as_json(assignment: Mapping[TopicPartition, Sequence[int]]) -> str:
    """An assignment as the file that would restore it."""
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(assignment[partition]),
            "log_dirs": ["any"] * len(assignment[partition]),
        }
        for partition in sorted(assignment)
    ]
    return json.dumps({"version": 1, "partitions": rows}, separators=(",", ":"))


# ---- what there is --------------------------------------------------------------------------------------------


async def _current(client: AdminClient, topics: Iterable[str]) -> tuple[ClusterInfo, Assignment]:
    names = sorted(set(topics))
    cluster = await client.metadata(names)
    for name in names:
        if cluster.topics[name].error is ErrorCode.unknown_topic_or_partition:
            raise CommandFailed(f"Topic {name} not found.")
    return cluster, {
        TopicPartition(name, row.partition): list(row.replicas)
        for name in names
        for row in cluster.topics[name].partitions
    }


async def _list(client: AdminClient, _: argparse.Namespace) -> None:
    ongoing = await list_reassignments(client)
    if not ongoing:
        say("No partition reassignments found.")
        return
    say("Current partition reassignments:")
    for partition, found in ongoing.items():
        adding = f" adding: {_joined(found.adding)}." if found.adding else ""
        removing = f" removing: {_joined(found.removing)}." if found.removing else ""
        say(f"{partition}: replicas: {_joined(found.replicas)}.{adding}{removing}")


def _joined(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


# ---- generate -------------------------------------------------------------------------------------------------


async def _generate(client: AdminClient, options: argparse.Namespace) -> None:
    brokers = [int(word) for word in options.broker_list.split(",")]
    if _duplicates(brokers):
        raise CommandFailed(f"Broker list contains duplicate entries: [{', '.join(map(str, _duplicates(brokers)))}]")
    topics = [str(row["topic"]) for row in _read(options.topics_to_move_json_file).get("topics", [])]
    if _duplicates(topics):
        raise CommandFailed(
            f"List of topics to reassign contains duplicate entries: [{', '.join(_duplicates(topics))}]"
        )
    _, current = await _current(client, topics)
    proposed: Assignment = {}
    for topic in dict.fromkeys(partition.topic for partition in current):
        numbers = [partition.partition for partition in current if partition.topic == topic]
        factor = len(current[TopicPartition(topic, numbers[0])])
        if factor > len(brokers):
            raise CommandFailed(f"Replication factor: {factor} larger than available brokers: {len(brokers)}.")
        spread = assign_replicas(sorted(brokers), len(numbers), factor, SystemRandom())
        proposed |= {TopicPartition(topic, number): list(spread[number]) for number in numbers}
    say(f"Current partition replica assignment\n{as_json(current)}\n")
    say(f"Proposed partition reassignment configuration\n{as_json(proposed)}")


# ---- execute --------------------------------------------------------------------------------------------------


async def _execute(client: AdminClient, options: argparse.Namespace) -> None:
    proposed = _checked(read_plan(options.reassignment_json_file))
    ongoing = await list_reassignments(client)
    if ongoing and not options.additional:
        raise Terse(EXISTING)
    cluster = await client.metadata([])
    unknown = sorted({b for replicas in proposed.values() for b in replicas} - cluster.brokers.keys())
    if unknown:
        raise CommandFailed(f"Unknown broker id {unknown[0]}")
    _, known = await _current(client, (partition.topic for partition in proposed))
    missing = [partition for partition in proposed if partition not in known]
    if missing:
        raise CommandFailed(f"Unable to find partition: {', '.join(map(str, missing))}")
    current = {partition: known[partition] for partition in proposed}
    say(f"Current partition replica assignment\n\n{as_json(current)}\n")
    say("Save this to use as the --reassignment-json-file option during rollback")
    if options.throttle >= 0 or options.replica_alter_log_dirs_throttle >= 0:
        say(VERIFY)
    if options.throttle >= 0:
        moves = {p: Move(tuple(found.replicas), tuple(found.adding)) for p, found in ongoing.items()}
        moves |= {p: move(moves[p].sources if p in moves else current[p], proposed[p]) for p in proposed}
        await _throttle(client, moves, options.throttle)
        say(f"The inter-broker throttle limit was set to {options.throttle} B/s")
    errors = await alter_reassignments(client, proposed, timeout_ms=API_TIMEOUT_MS)
    if errors:
        raise Terse("\n".join(["Error reassigning partition(s):", *(f"{p}: {errors[p]}" for p in sorted(errors))]))
    plural = "" if len(proposed) == 1 else "s"
    say(f"Successfully started partition reassignment{plural} for {','.join(map(str, sorted(proposed)))}")


class Move(NamedTuple):
    """One partition's way: who has it, and who gets it."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]


def move(sources: Sequence[int], target: Sequence[int]) -> Move:
    """From those who have a partition to those of `target` who have not."""
    return Move(tuple(sources), tuple(broker for broker in target if broker not in sources))


async def _throttle(client: AdminClient, moves: Mapping[TopicPartition, Move], rate: int) -> None:
    for topic in sorted({partition.topic for partition in moves}):
        leaders: dict[str, None] = {}
        followers: dict[str, None] = {}
        for partition, (sources, destinations) in moves.items():
            if partition.topic == topic:
                leaders |= dict.fromkeys(f"{partition.partition}:{broker}" for broker in sources)
                followers |= dict.fromkeys(f"{partition.partition}:{broker}" for broker in destinations)
        changes = {LEADER_REPLICAS: ",".join(sorted(leaders)), FOLLOWER_REPLICAS: ",".join(sorted(followers))}
        await client.alter_configs(TOPIC_RESOURCE, topic, changes)
    for broker in sorted({broker for each in moves.values() for broker in (*each.sources, *each.destinations)}):
        await client.alter_configs(BROKER_RESOURCE, str(broker), dict.fromkeys(RATES, str(rate)))


# ---- verify and cancel ----------------------------------------------------------------------------------------


async def _verify(client: AdminClient, options: argparse.Namespace) -> None:
    rows = read_plan(options.reassignment_json_file)
    ongoing = await list_reassignments(client)
    cluster = await client.metadata(sorted({partition.topic for partition, _ in rows}) or [])
    say("Status of partition reassignment:")
    for partition, target in sorted(rows):
        say(_status(partition, target, partition in ongoing, cluster))
    say("")
    if not ongoing and not options.preserve_throttles:
        await _clear_throttles(client, rows)


def _status(partition: TopicPartition, target: list[int], is_ongoing: bool, cluster: ClusterInfo) -> str:
    if is_ongoing:
        return f"Reassignment of partition {partition} is still in progress."
    rows = cluster.topics[partition.topic].partitions
    present = next((list(row.replicas) for row in rows if row.partition == partition.partition), [])
    if present == target:
        return f"Reassignment of partition {partition} is completed."
    return (
        f"There is no active reassignment of partition {partition}, but replica set is {_joined(present)} "
        f"rather than {_joined(target)}."
    )


async def _cancel(client: AdminClient, options: argparse.Namespace) -> None:
    rows = read_plan(options.reassignment_json_file)
    ongoing = await list_reassignments(client, [partition for partition, _ in rows])
    if ongoing:
        errors = await alter_reassignments(client, dict.fromkeys(ongoing), timeout_ms=API_TIMEOUT_MS)
        plural = "" if len(errors or ongoing) == 1 else "s"
        if errors:
            lines = [f"{partition}: {errors[partition]}" for partition in sorted(errors)]
            raise Terse("\n".join([f"Error cancelling partition reassignment{plural} for:", *lines]))
        say(f"Successfully cancelled partition reassignment{plural} for: {','.join(map(str, ongoing))}")
    else:
        say("None of the specified partition reassignments are active.")
    say("None of the specified partition moves are active.", end="")
    if not options.preserve_throttles:
        await _clear_throttles(client, rows)


async def _clear_throttles(client: AdminClient, rows: Sequence[tuple[TopicPartition, list[int]]]) -> None:
    live = (await client.metadata([])).brokers
    brokers = sorted({*live, *(broker for _, replicas in rows for broker in replicas)})
    say(f"Clearing broker-level throttles on broker{'' if len(brokers) == 1 else 's'} {_joined(brokers)}")
    for broker in brokers:
        await client.alter_configs(BROKER_RESOURCE, str(broker), dict.fromkeys((*RATES, LOG_DIR_RATE)))
    topics = list(dict.fromkeys(partition.topic for partition, _ in rows))
    say(f"Clearing topic-level throttles on topic{'' if len(topics) == 1 else 's'} {','.join(topics)}")
    for topic in topics:
        await client.alter_configs(TOPIC_RESOURCE, topic, dict.fromkeys((LEADER_REPLICAS, FOLLOWER_REPLICAS)))
