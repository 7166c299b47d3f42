"""`zabka reassign`: kafka-reassign-partitions.sh with its options and output (ReassignPartitionsCommand, 3.9)."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.cli.kafka_command import (
    API_TIMEOUT_MS,
    CommandFailed,
    TerseFailure,
    asyncio_runtime,
    hash_order,
    parser,
    print_line,
    run,
)
from zabka.cli.log_dir_moves import begin_moves, find_places, is_under_way, status
from zabka.cli.reassign_plan import (
    Assignment,
    Plan,
    TopicPartitionReplica,
    as_json,
    checked,
    duplicates,
    read_plan,
    read_topics,
)
from zabka.journal.events import TopicPartition
from zabka.kafka.assignment import RacksIncomplete, assign_replicas
from zabka.kafka.client.admin_client import BROKER_RESOURCE, TOPIC_RESOURCE, AdminClient
from zabka.kafka.client.client import ClusterInfo
from zabka.kafka.client.reassignment_client import Ongoing, alter_reassignments, list_reassignments

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

RACKS_INCOMPLETE = (
    "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment "
    "without rack information."
)
UNKNOWN = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"
"""Class of the only error that Kafka's tool prints with its class name."""

PLAN, TOPICS, BROKERS = "reassignment-json-file", "topics-to-move-json-file", "broker-list"
THROTTLE, LOG_DIR_THROTTLE, TIMEOUT = "throttle", "replica-alter-log-dirs-throttle", "timeout"
ADDITIONAL, PRESERVE, NO_RACKS = "additional", "preserve-throttles", "disable-rack-aware"
ACTIONS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "generate": ((TOPICS, BROKERS), (NO_RACKS,)),
    "execute": ((PLAN,), (ADDITIONAL, THROTTLE, LOG_DIR_THROTTLE, TIMEOUT)),
    "verify": ((PLAN,), (PRESERVE,)),
    "cancel": ((PLAN,), (PRESERVE, TIMEOUT)),
    "list": ((), ()),
}
"""Required and optional options of each action, such as --execute."""
NO_RATE = -1
MOVES_TIMEOUT_MS = 10_000


def main(arguments: list[str]) -> int:
    """Run the tool; return the exit code."""
    made = parser("reassign", "Move partitions between brokers, and between their log directories.")
    what = made.add_mutually_exclusive_group(required=True)
    for name in ACTIONS:
        what.add_argument(f"--{name}", action="store_true")
    for name in (PLAN, TOPICS):
        made.add_argument(f"--{name}", type=Path, metavar="FILE")
    made.add_argument(f"--{BROKERS}", metavar="1,2,3")
    made.add_argument(f"--{THROTTLE}", type=int, metavar="N", help="bytes a second between brokers")
    made.add_argument(f"--{LOG_DIR_THROTTLE}", type=int, metavar="N", help="bytes a second between log directories")
    made.add_argument(f"--{TIMEOUT}", type=int, metavar="MS", help="for moves between log directories to begin (10000)")
    for name in (ADDITIONAL, PRESERVE, NO_RACKS):
        made.add_argument(f"--{name}", action="store_true")
    options = made.parse_args(arguments)
    action = next(name for name in ACTIONS if getattr(options, name))
    _check(made, action, options)
    works = {
        "verify": _verify, "generate": _generate, "execute": _execute, "cancel": _cancel, "list": _list,
    }  # fmt: skip
    return run(options, lambda client: works[action](client, options), _print_failure)


def _check(made: argparse.ArgumentParser, action: str, options: argparse.Namespace) -> None:
    """Exit with an error if an option is not allowed for the action, or if a required option is missing."""
    needed, taken = ACTIONS[action]
    given = vars(options)
    missing = [name for name in needed if given[name.replace("-", "_")] is None]
    if missing:
        made.error(f'Missing required argument "[{missing[0]}]"')
    every = (PLAN, TOPICS, BROKERS, THROTTLE, LOG_DIR_THROTTLE, TIMEOUT, ADDITIONAL, PRESERVE, NO_RACKS)
    for name in every:
        if given[name.replace("-", "_")] not in (None, False) and name not in (*needed, *taken):
            made.error(f'Option "[{name}]" can\'t be used with action "[{action}]"')


def _print_failure(reason: Exception) -> None:
    print_line(str(reason) if isinstance(reason, TerseFailure) else f"Error: {reason}")


# ---- current state ---------------------------------------------------------------------------------------------------


async def _current(client: AdminClient, topics: Iterable[str]) -> tuple[ClusterInfo, Assignment]:
    names = sorted(set(topics))
    cluster = await client.metadata(names)
    for name in names:
        if cluster.topics[name].error is ErrorCode.unknown_topic_or_partition:
            raise CommandFailed(f"{UNKNOWN}: Topic {name} not found.")
    return cluster, {
        TopicPartition(name, row.partition): list(row.replicas)
        for name in names
        for row in cluster.topics[name].partitions
    }


async def _list(client: AdminClient, _: argparse.Namespace) -> None:
    ongoing = await list_reassignments(client)
    if not ongoing:
        print_line("No partition reassignments found.")
        return
    print_line("Current partition reassignments:")
    for partition, found in ongoing.items():
        adding = f" adding: {_joined(found.adding)}." if found.adding else ""
        removing = f" removing: {_joined(found.removing)}." if found.removing else ""
        print_line(f"{partition}: replicas: {_joined(found.replicas)}.{adding}{removing}")


def _joined(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


# ---- generate -------------------------------------------------------------------------------------------------


async def _generate(client: AdminClient, options: argparse.Namespace) -> None:
    listed = _broker_ids(options.broker_list)
    topics = read_topics(options.topics_to_move_json_file)
    if duplicates(topics):
        raise CommandFailed(f"List of topics to reassign contains duplicate entries: [{', '.join(duplicates(topics))}]")
    cluster, current = await _current(client, topics)
    brokers = sorted(cluster.brokers.keys() & set(listed))
    proposed: Assignment = {}
    for topic in dict.fromkeys(partition.topic for partition in current):
        numbers = [partition.partition for partition in current if partition.topic == topic]
        factor = len(current[TopicPartition(topic, numbers[0])])
        if factor > len(brokers):
            raise CommandFailed(f"Replication factor: {factor} larger than available brokers: {len(brokers)}.")
        racks = {} if options.disable_rack_aware else cluster.racks
        try:
            spread = assign_replicas(brokers, len(numbers), factor, SystemRandom(), racks=racks)
        except RacksIncomplete:
            raise CommandFailed(RACKS_INCOMPLETE) from None
        proposed |= {TopicPartition(topic, number): list(spread[number]) for number in numbers}
    print_line(f"Current partition replica assignment\n{as_json(current)}\n")
    print_line(f"Proposed partition reassignment configuration\n{as_json(proposed)}")


def _broker_ids(text: str) -> list[int]:
    try:
        listed = [int(word) for word in text.split(",")]
    except ValueError:
        raise CommandFailed(f"{text} is not a list of broker ids") from None
    if duplicates(listed):
        raise CommandFailed(f"Broker list contains duplicate entries: [{', '.join(map(str, duplicates(listed)))}]")
    return listed


# ---- execute --------------------------------------------------------------------------------------------------


async def _execute(client: AdminClient, options: argparse.Namespace) -> None:
    plan = read_plan(options.reassignment_json_file)
    proposed = checked(plan)
    ongoing = await list_reassignments(client)
    if ongoing and not options.additional:
        raise TerseFailure(EXISTING)
    current = await _replaced(client, proposed)
    print_line(f"Current partition replica assignment\n\n{as_json(current)}\n")
    print_line("Save this to use as the --reassignment-json-file option during rollback")
    await _throttle(client, options, moves(ongoing, proposed, current), plan.directories)
    errors = await alter_reassignments(client, proposed, timeout_ms=API_TIMEOUT_MS)
    if errors:
        lines = [f"{partition}: {errors[partition]}" for partition in sorted(errors)]
        raise TerseFailure("\n".join(["Error reassigning partition(s):", *lines]))
    plural = "" if len(proposed) == 1 else "s"
    print_line(f"Successfully started partition reassignment{plural} for {','.join(map(str, sorted(proposed)))}")
    if plan.directories:
        await begin_moves(client, asyncio_runtime(), plan.directories, _timeout_ms(options))


def _timeout_ms(options: argparse.Namespace) -> int:
    return MOVES_TIMEOUT_MS if options.timeout is None else int(options.timeout)


async def _replaced(client: AdminClient, proposed: Assignment) -> Assignment:
    """Return the current assignment of the partitions in a plan.

    Raises CommandFailed if the plan names missing brokers or partitions.
    """
    cluster = await client.metadata([])
    unknown = sorted({b for replicas in proposed.values() for b in replicas} - cluster.brokers.keys())
    if unknown:
        raise CommandFailed(f"Unknown broker id {unknown[0]}")
    _, known = await _current(client, (partition.topic for partition in proposed))
    missing = [partition for partition in proposed if partition not in known]
    if missing:
        raise CommandFailed(f"{UNKNOWN}: Unable to find partition: {', '.join(map(str, missing))}")
    return {partition: known[partition] for partition in proposed}


# ---- throttles ------------------------------------------------------------------------------------------------


class Move(NamedTuple):
    """One partition's move: the brokers that have a replica now, and the brokers that will get one."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]


def move(sources: Sequence[int], target: Sequence[int]) -> Move:
    """Return the move of a partition: `sources` have a replica now, and the other brokers of `target` get one."""
    return Move(tuple(sources), tuple(broker for broker in target if broker not in sources))


def moves(
    ongoing: Mapping[TopicPartition, Ongoing], proposed: Assignment, current: Assignment
) -> dict[TopicPartition, Move]:
    """Return the moves of all partitions: the moves in progress, and those of the plan.

    If a partition is already moving, the plan replaces its target.
    """
    found = {
        partition: Move(tuple(b for b in each.replicas if b not in each.adding), tuple(each.adding))
        for partition, each in ongoing.items()
    }
    for partition, target in proposed.items():
        sources = found[partition].sources if partition in found else current[partition]
        found[partition] = move(sources, target)
    return found


async def _throttle(
    client: AdminClient,
    options: argparse.Namespace,
    partitions: Mapping[TopicPartition, Move],
    directories: Mapping[TopicPartitionReplica, str],
) -> None:
    rates = options.throttle, options.replica_alter_log_dirs_throttle
    rate, log_dir_rate = (NO_RATE if each is None else int(each) for each in rates)
    if rate < 0 and log_dir_rate < 0:
        return
    print_line(VERIFY)
    if rate >= 0:
        await _throttle_topics(client, partitions)
        for broker in sorted(
            {broker for each in partitions.values() for broker in (*each.sources, *each.destinations)}
        ):
            await client.alter_configs(BROKER_RESOURCE, str(broker), dict.fromkeys(RATES, str(rate)))
        print_line(f"The inter-broker throttle limit was set to {rate} B/s")
    if log_dir_rate >= 0:
        for broker in sorted({replica.broker_id for replica in directories}):
            await client.alter_configs(BROKER_RESOURCE, str(broker), {LOG_DIR_RATE: str(log_dir_rate)})
        print_line(f"The replica-alter-dir throttle limit was set to {log_dir_rate} B/s")


async def _throttle_topics(client: AdminClient, partitions: Mapping[TopicPartition, Move]) -> None:
    for topic in sorted({partition.topic for partition in partitions}):
        leaders: dict[str, None] = {}
        followers: dict[str, None] = {}
        for partition, (sources, destinations) in partitions.items():
            if partition.topic == topic:
                leaders |= dict.fromkeys(f"{partition.partition}:{broker}" for broker in sources)
                followers |= dict.fromkeys(f"{partition.partition}:{broker}" for broker in destinations)
        changes = {LEADER_REPLICAS: ",".join(sorted(leaders)), FOLLOWER_REPLICAS: ",".join(sorted(followers))}
        await client.alter_configs(TOPIC_RESOURCE, topic, changes)


# ---- verify and cancel ----------------------------------------------------------------------------------------


async def _verify(client: AdminClient, options: argparse.Namespace) -> None:
    plan = read_plan(options.reassignment_json_file)
    ongoing = await list_reassignments(client)
    cluster = await client.metadata(sorted(plan.topics))
    print_line("Status of partition reassignment:")
    for partition, target in sorted(plan.rows):
        print_line(_status(partition, target, partition in ongoing, cluster))
    places = await find_places(client, plan.directories)
    print_line("\n".join(status(replica, plan.directories[replica], places[replica]) for replica in sorted(places)))
    if not ongoing and not any(map(is_under_way, places.values())) and not options.preserve_throttles:
        await _clear_throttles(client, plan)


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
    plan = read_plan(options.reassignment_json_file)
    ongoing = await list_reassignments(client, [partition for partition, _ in plan.rows])
    if ongoing:
        errors = await alter_reassignments(client, dict.fromkeys(ongoing), timeout_ms=API_TIMEOUT_MS)
        plural = "" if len(errors or ongoing) == 1 else "s"
        if errors:
            lines = [f"{partition}: {errors[partition]}" for partition in sorted(errors)]
            raise TerseFailure("\n".join([f"Error cancelling partition reassignment{plural} for:", *lines]))
        print_line(f"Successfully cancelled partition reassignment{plural} for: {','.join(map(str, ongoing))}")
    else:
        print_line("None of the specified partition reassignments are active.")
    places = await find_places(client, plan.directories)
    # Include only replicas that are moving: `future` is not set for a replica that is already in its target directory.
    moving = {replica: place.current for replica, place in places.items() if place.current and place.future}
    if moving:
        await begin_moves(client, asyncio_runtime(), moving, _timeout_ms(options))
    else:
        print_line("None of the specified partition moves are active.", end="")
    if not options.preserve_throttles:
        await _clear_throttles(client, plan)


async def _clear_throttles(client: AdminClient, plan: Plan) -> None:
    live = (await client.metadata([])).brokers
    brokers = sorted({*live, *(broker for _, replicas in plan.rows for broker in replicas)})
    print_line(f"Clearing broker-level throttles on broker{'' if len(brokers) == 1 else 's'} {_joined(brokers)}")
    for broker in brokers:
        await client.alter_configs(BROKER_RESOURCE, str(broker), dict.fromkeys((*RATES, LOG_DIR_RATE)))
    topics = hash_order(plan.topics)
    print_line(f"Clearing topic-level throttles on topic{'' if len(topics) == 1 else 's'} {','.join(topics)}")
    for topic in topics:
        await client.alter_configs(TOPIC_RESOURCE, topic, dict.fromkeys((LEADER_REPLICAS, FOLLOWER_REPLICAS)))
