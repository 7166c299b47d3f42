"""`zabka consumer-groups`: kafka-consumer-groups.sh with its options and output (ConsumerGroupCommand, 3.9)."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.cli.java_numbers import java_int, java_long
from zabka.cli.kafka_command import CommandFailed, asyncio_runtime, parser, print_line, run
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaRequestFailed
from zabka.kafka.client.group_admin import GroupAdmin, GroupInfo, MemberInfo

LATEST, EARLIEST = -1, -2
MISSING = "-"
_REBALANCING = ("PreparingRebalance", "CompletingRebalance")
_WAYS = ("to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "shift-by", "to-current")
_FLAGS = ("to-earliest", "to-latest", "to-current")


def main(arguments: list[str]) -> int:
    """Run the tool; return the exit code. As in Kafka, it is 0 even if a group was not found or not changed."""
    made = parser("consumer-groups", "List, describe, reset or delete consumer groups.")
    what = made.add_mutually_exclusive_group(required=True)
    for name in ("list", "describe", "delete", "reset-offsets", "delete-offsets"):
        what.add_argument(f"--{name}", action="store_true")
    made.add_argument("--group", action="append", default=[])
    made.add_argument("--topic", action="append", default=[], metavar="TOPIC[:0,1]")
    for name in ("all-groups", "all-topics", "members", "offsets", "verbose", "dry-run", "execute", "export", *_FLAGS):
        made.add_argument(f"--{name}", action="store_true")
    made.add_argument("--state", nargs="?", const="", help="with --list: those states; with --describe: the state")
    made.add_argument("--type", nargs="?", const="")
    made.add_argument("--to-offset", type=java_long)
    made.add_argument("--shift-by", type=java_long)
    made.add_argument("--to-datetime", metavar="YYYY-MM-DDTHH:mm:SS.sss")
    made.add_argument("--by-duration", metavar="PnDTnHnMnS")
    options = made.parse_args(arguments)
    _check_options(made, options)
    works: dict[str, Callable[[_Asked], Awaitable[None]]] = {
        "list": _list, "describe": _describe, "delete": _delete, "reset_offsets": _reset,
        "delete_offsets": _delete_offsets,
    }  # fmt: skip
    work = next(works[name] for name in works if getattr(options, name))
    return run(
        options, lambda client: work(_Asked(client, GroupAdmin(client, asyncio_runtime()), options)), _print_failure, 0
    )


class _Asked(NamedTuple):
    client: AdminClient
    groups: GroupAdmin
    options: argparse.Namespace


def _check_options(made: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if options.list:
        return
    if not options.group and not options.all_groups:
        made.error("Option [group] or [all-groups] is required")
    if options.reset_offsets:
        given = [way for way in _WAYS if getattr(options, way.replace("-", "_")) not in (None, False)]
        if len(given) != 1:
            made.error(f"Option [reset-offsets] takes exactly one of the following: {', '.join(_WAYS)}")
        if not options.topic and not options.all_topics:
            made.error("One of the reset scopes should be defined: --all-topics, --topic.")
        if options.dry_run and options.execute:
            made.error("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if options.delete_offsets and not (options.topic and options.group):
        # As in Kafka, --all-groups does not work with --delete-offsets.
        made.error("Option [delete-offsets] takes the following options: [group], [topic]")


def _print_failure(reason: Exception) -> None:
    error(f"Executing consumer group command failed due to {reason}")


def error(text: str) -> None:
    """Print an error on standard output, as Kafka's tool does."""
    print_line(f"\nError: {text}")


async def _named(asked: _Asked) -> list[str]:
    if asked.options.all_groups:
        return [row.group_id for row in await asked.groups.listed()]
    return sorted(dict.fromkeys(asked.options.group))


# ---- list -----------------------------------------------------------------------------------------------------


async def _list(asked: _Asked) -> None:
    options = asked.options
    rows = await asked.groups.listed()
    if options.state is None and options.type is None:
        for row in rows:
            print_line(row.group_id)
        return
    states = [word.strip().lower() for word in (options.state or "").split(",") if word.strip()]
    types = [word.strip().lower() for word in (options.type or "").split(",") if word.strip()]
    rows = [r for r in rows if (not states or r.state.lower() in states) and (not types or r.group_type in types)]
    width = max([15, *(len(row.group_id) for row in rows)]) + 10
    columns = [("GROUP", width, [row.group_id for row in rows])]
    if options.type is not None:
        columns.append(("TYPE", 20, [row.group_type.capitalize() for row in rows]))
    if options.state is not None:
        columns.append(("STATE", 20, [row.state for row in rows]))
    for line in zip(*([head, *cells] for head, _, cells in columns), strict=True):
        print_line(" ".join(f"{cell:<{columns[i][1]}}" for i, cell in enumerate(line)))


# ---- describe -------------------------------------------------------------------------------------------------


async def _describe(asked: _Asked) -> None:
    for group_id in await _named(asked):
        group = await asked.groups.described(group_id)
        if asked.options.members:
            _show_members(group, asked.options.verbose)
        elif asked.options.state is not None:
            _show_state(group)
        else:
            await _show_offsets(asked, group)


def _shown(group: GroupInfo, rows: int) -> bool:
    """Print a warning if the group is missing, empty or rebalancing; return whether there are rows to print."""
    if group.state == "Dead":
        error(f"Consumer group '{group.group_id}' does not exist.")
        return False
    if group.state == "Empty":
        print(f"\nConsumer group '{group.group_id}' has no active members.", file=sys.stderr)  # noqa: T201
    elif group.state in _REBALANCING:
        print(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", file=sys.stderr)  # noqa: T201
    return rows > 0


def _show_state(group: GroupInfo) -> None:
    if not _shown(group, 1):
        return
    coordinator = f"{group.coordinator.host}:{group.coordinator.port}  ({group.coordinator.broker_id})"
    width = max(25, len(coordinator))
    for row in (
        ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"),
        (group.group_id, coordinator, group.assignor, group.state, str(len(group.members))),
    ):
        print_line(f"\n{row[0]:<{width}} {row[1]:<25} {row[2]:<20} {row[3]:<15} {row[4]}", end="")
    print_line("")


def _show_members(group: GroupInfo, verbose: bool) -> None:
    rows = [
        (group.group_id, m.member_id, m.group_instance_id or "", m.client_host, m.client_id, str(len(m.partitions)), m)
        for m in group.members
    ]
    widths = [15, 15, 17, 15, 15, 15]
    if _shown(group, len(rows)):
        widths = [max([width, *(len(row[i]) for row in rows)]) for i, width in enumerate(widths[:5])] + [15]
    shown = [0, 1, 2, 3, 4, 5] if any(row[2] for row in rows) else [0, 1, 3, 4, 5]
    heads = ("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
    head = "".join(f"{heads[i]:<{widths[i]}} " for i in shown)
    print_line(f"\n{head}{'ASSIGNMENT' if verbose else ''}")
    for row in rows:
        print_line("".join(f"{row[i]:<{widths[i]}} " for i in shown) + (_assignment(row[6]) if verbose else ""))


def _assignment(member: MemberInfo) -> str:
    topics: dict[str, list[str]] = {}
    for partition in member.partitions:
        topics.setdefault(partition.topic, []).append(str(partition.partition))
    return ", ".join(sorted(f"({','.join(sorted(numbers))})" for numbers in topics.values())) or MISSING


async def _show_offsets(asked: _Asked, group: GroupInfo) -> None:
    committed = await asked.groups.offsets(group.group_id)
    owners = {partition: member for member in group.members for partition in member.partitions}
    ends = {p: await asked.client.list_offset(p, LATEST) for p in sorted({*committed, *owners})}
    rows = []
    for member in (*group.members, None):
        for partition in ends:
            if owners.get(partition) is member:
                rows.append(_offset_row(group.group_id, partition, committed.get(partition), ends[partition], member))
    for idle in (member for member in group.members if not member.partitions):
        rows.append((group.group_id, *[MISSING] * 5, idle.member_id, idle.client_host, idle.client_id))
    if not _shown(group, len(rows)):
        return
    group_width, topic_width, member_width, host_width = (
        max([15, *(len(row[i]) for row in rows)]) for i in (0, 1, 6, 7)
    )
    heads = (
        "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID",
    )  # fmt: skip
    for row in (heads, *rows):
        print_line(
            f"\n{row[0]:<{group_width}} {row[1]:<{topic_width}} {row[2]:<10} {row[3]:<15} {row[4]:<15} {row[5]:<15} "
            f"{row[6]:<{member_width}} {row[7]:<{host_width}} {row[8]}",
            end="",
        )


def _offset_row(
    group_id: str, partition: TopicPartition, committed: int | None, end: int, member: MemberInfo | None
) -> tuple[str, ...]:
    who = (MISSING,) * 3 if member is None else (member.member_id, member.client_host, member.client_id)
    current, lag = (MISSING, MISSING) if committed is None else (str(committed), str(end - committed))
    return (group_id, partition.topic, str(partition.partition), current, str(end), lag, *who)


# ---- reset ----------------------------------------------------------------------------------------------------


async def _reset(asked: _Asked) -> None:
    plans: dict[str, dict[TopicPartition, int]] = {}
    for group_id in await _named(asked):
        group = await asked.groups.described(group_id)
        if group.state not in ("Empty", "Dead"):
            error(
                f"Assignments can only be reset if the group '{group_id}' is inactive, "
                f"but the current state is {group.state}."
            )
            plans[group_id] = {}
            continue
        committed = await asked.groups.offsets(group_id)
        scope = sorted(committed) if asked.options.all_topics else await _existing(asked)
        plans[group_id] = {partition: await _target(asked, partition, committed) for partition in scope}
        if asked.options.execute and not asked.options.dry_run and plans[group_id]:
            await asked.groups.commit(group_id, plans[group_id])
    if asked.options.export:
        several = len(plans) > 1
        for group_id, plan in plans.items():
            for partition, offset in plan.items():
                print_line(f"{f'{group_id},' if several else ''}{partition.topic},{partition.partition},{offset}")
        print_line("")
        return
    _show_plans(plans)


def _show_plans(plans: Mapping[str, Mapping[TopicPartition, int]]) -> None:
    rows = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")] if plans else []
    rows += [
        (group_id, partition.topic, str(partition.partition), str(offset))
        for group_id, plan in plans.items()
        for partition, offset in plan.items()
    ]
    for row in rows:
        print_line(f"\n{row[0]:<30} {row[1]:<30} {row[2]:<10} {row[3]:<15}", end="")


async def _scope(asked: _Asked) -> list[TopicPartition]:
    """Return the partitions that --topic names. Raises CommandFailed if the option is invalid."""
    found = []
    for text in asked.options.topic:
        topic, colon, numbers = text.partition(":")
        cluster = await asked.client.metadata([topic])
        if cluster.topics[topic].error is not ErrorCode.none:
            raise KafkaRequestFailed(cluster.topics[topic].error, "This server does not host this topic-partition.")
        known = [row.partition for row in cluster.topics[topic].partitions]
        try:
            chosen = [java_int(number) for number in numbers.split(",")] if colon else known
        except argparse.ArgumentTypeError:
            raise CommandFailed(f"Invalid partition '{numbers}' specified in topic arg '{text}'") from None
        found += [TopicPartition(topic, number) for number in chosen]
    return found


async def _existing(asked: _Asked) -> list[TopicPartition]:
    """Return the partitions that --topic names. Raises CommandFailed if a partition does not exist."""
    found = await _scope(asked)
    missing = [str(partition) for partition in found if asked.client.partition(partition) is None]
    if missing:
        raise CommandFailed(f'The partitions "{",".join(missing)}" do not exist')
    return found


async def _target(asked: _Asked, partition: TopicPartition, committed: Mapping[TopicPartition, int]) -> int:
    options, client = asked.options, asked.client
    first, end = await client.list_offset(partition, EARLIEST), await client.list_offset(partition, LATEST)
    if options.to_earliest:
        return first
    if options.to_latest:
        return end
    if options.to_offset is not None:
        target = int(options.to_offset)
    elif options.shift_by is not None:
        if partition not in committed:
            raise CommandFailed(
                f"Cannot shift offset for partition {partition} since there is no current committed offset"
            )
        target = committed[partition] + int(options.shift_by)
    elif options.to_current:
        target = committed.get(partition, end)
    else:
        moment = since(options.by_duration) if options.by_duration else at(options.to_datetime)
        target = await client.list_offset(partition, moment)
        return target if target >= 0 else end
    if target > end:
        return _moved(partition, target, "higher than latest", end)
    if target < first:
        return _moved(partition, target, "lower than earliest", first)
    return target


def _moved(partition: TopicPartition, target: int, how: str, bound: int) -> int:
    """Report on standard error that a new offset is out of range. Return the offset that is set instead."""
    print(  # noqa: T201
        f"New offset ({target}) is {how} offset for topic partition {partition}. Value will be set to {bound}",
        file=sys.stderr,
    )
    return bound


def at(text: str) -> int:
    """Parse --to-datetime as milliseconds since 1970; the default time zone is UTC. Raises CommandFailed."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CommandFailed(f"{text} is not a date and time such as 2026-01-31T12:00:00.000") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def since(text: str) -> int:
    """Return the current time minus --by-duration (ISO 8601, PnDTnHnMnS), in milliseconds. Raises CommandFailed."""
    found = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", text, re.IGNORECASE)
    if found is None or not any(found.groups()):
        raise CommandFailed(f"{text} is not a duration such as P1DT2H30M")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    try:
        back = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        begin = datetime.now(UTC) - back
    except OverflowError:
        raise CommandFailed(f"{text} is before the year 1") from None
    return int(begin.timestamp() * 1000)


# ---- delete ---------------------------------------------------------------------------------------------------


async def _delete(asked: _Asked) -> None:
    deleted: list[str] = []
    failed: dict[str, ErrorCode] = {}
    for group_id in await _named(asked):
        outcome = await asked.groups.delete(group_id)
        if outcome is ErrorCode.none:
            deleted.append(group_id)
        else:
            failed[group_id] = outcome
    if not failed:
        print_line(f"Deletion of requested consumer groups ('{', '.join(deleted)}') was successful.")
        return
    error("Deletion of some consumer groups failed:")
    for group_id, outcome in failed.items():
        print_line(f"* Group '{group_id}' could not be deleted due to: {_REFUSALS.get(outcome, outcome.name.upper())}")
    if deleted:
        print_line(f"\nThese consumer groups were deleted successfully: '{', '.join(deleted)}'")


_JAVA = "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors."
_REFUSALS = {
    ErrorCode.group_id_not_found: f"{_JAVA}GroupIdNotFoundException: The group id does not exist.",
    ErrorCode.non_empty_group: f"{_JAVA}GroupNotEmptyException: The group is not empty.",
}


async def _delete_offsets(asked: _Asked) -> None:
    scope = await _scope(asked)
    for group_id in asked.options.group:
        whole, outcomes = await asked.groups.delete_offsets(group_id, scope)
        _print_deleted(group_id, asked.options.topic, whole, outcomes)
        print_line(f"\n{'TOPIC':<30} {'PARTITION':<15} {'STATUS':<15}", end="")
        for partition in scope:
            outcome = outcomes.get(partition, whole)
            status = "Successful" if outcome is ErrorCode.none else f"Error: {outcome.name.upper()}"
            print_line(f"\n{partition.topic:<30} {partition.partition!s:<15} {status:<15}", end="")
        print_line("")


def _print_deleted(
    group_id: str, topics: Sequence[str], whole: ErrorCode, outcomes: Mapping[TopicPartition, ErrorCode]
) -> None:
    if whole is ErrorCode.group_id_not_found:
        error(f"'{group_id}' does not exist.")
    elif whole is ErrorCode.non_empty_group:
        error(f"Deleting offsets of a consumer group '{group_id}' is forbidden if the group is not empty.")
    elif whole is not ErrorCode.none:
        error(f"Encounter some unknown error: {whole.name.upper()}")
    elif any(outcome is not ErrorCode.none for outcome in outcomes.values()):
        error("Encounter some partition level error, see the follow-up details:")
    else:
        print_line(f"Request succeed for deleting offsets with topic {', '.join(topics)} group {group_id}")
