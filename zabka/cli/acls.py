"""`zabka acls`: kafka-acls.sh with its options and output (AclCommand, 3.9)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping

from zabka.cli.kafka_command import CommandFailed, parser, print_line, run
from zabka.kafka.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    EntryFilter,
    PatternFilter,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    from_name,
    pascal,
)
from zabka.kafka.client.acl_admin import create_acls, delete_acls, describe_acls
from zabka.kafka.client.admin_client import AdminClient

_CLUSTER = PatternFilter(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
_EVERY = AclFilter(PatternFilter(ResourceType.ANY, None, PatternType.ANY), EntryFilter())
_RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "delegation_token": ResourceType.DELEGATION_TOKEN,
    "user_principal": ResourceType.USER,
}
_PRINCIPALS = ("allow_principal", "deny_principal", "allow_host", "deny_host")
_NO_RESOURCE = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
    "--delegation-token <Delegation Token ID>"
)

Acls = dict[PatternFilter, dict[AclEntry, None]]
"""Entries for each filter, in the order of the options."""


def main(arguments: list[str]) -> int:
    """Run the tool; return the exit code."""
    made = _parser()
    options = made.parse_args(arguments)
    _check_options(made, options)
    if options.add:
        if options.resource_pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            kind = options.resource_pattern_type.name
            made.error(f"A '--resource-pattern-type' value of '{kind}' is not valid when adding acls.")
        acls = _requested(made, options)
        if not all(acls.values()):
            made.error("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
        return run(options, lambda client: _add(client, acls), _print_failure)
    if options.remove:
        acls = _requested(made, options)
        return run(options, lambda client: _remove(client, options, acls), _print_failure)
    return run(options, lambda client: _list(client, options), _print_failure)


def _parser() -> argparse.ArgumentParser:
    made = parser("acls", "Add, remove or list ACLs.")
    for action in ("add", "remove", "list"):
        made.add_argument(f"--{action}", action="store_true", help=f"{action} ACLs")
    for name in _RESOURCES:
        made.add_argument(f"--{name.replace('_', '-')}", action="append", help=f"a {name.replace('_', ' ')}, or '*'")
    made.add_argument("--cluster", action="store_true", help="the cluster as the resource")
    made.add_argument(
        "--resource-pattern-type",
        type=_pattern_type,
        default=PatternType.LITERAL,
        metavar="ANY|MATCH|LITERAL|PREFIXED",
        help="type of the resource pattern, or of the filter for --list and --remove; default: LITERAL",
    )
    made.add_argument("--operation", action="append", help="an operation such as Read; default: All")
    for name in _PRINCIPALS:
        effect, kind = name.split("_")
        text = "TYPE:NAME, for example User:alice" if kind == "principal" else "an IP address; default: *"
        made.add_argument(f"--{name.replace('_', '-')}", action="append", help=f"{effect} this {kind}: {text}")
    made.add_argument("--principal", action="append", help="with --list: only the ACLs of this principal")
    made.add_argument("--producer", action="store_true", help="what a producer needs: Write, Describe and Create")
    made.add_argument("--consumer", action="store_true", help="what a consumer needs: Read and Describe")
    made.add_argument("--idempotent", action="store_true", help="with --producer: IdempotentWrite on the cluster")
    made.add_argument("--force", action="store_true", help="remove without a question")
    return made


def _pattern_type(text: str) -> PatternType:
    found = from_name(PatternType, text)
    if found is PatternType.UNKNOWN:
        raise argparse.ArgumentTypeError(f"Unknown resource-pattern-type: {text}")
    return found


def _check_options(made: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit with an error if the options contradict each other (AclCommandOptions.checkArgs)."""
    if [options.add, options.remove, options.list].count(True) != 1:
        made.error("Command must include exactly one action: --list, --add, --remove. ")
    excluded: Mapping[str, tuple[str, ...]] = {
        "list": ("producer", "consumer", "allow_host", "allow_principal", "deny_host", "deny_principal"),
        "producer": ("operation", "deny_principal", "deny_host"),
        "consumer": ("operation", "deny_principal", "deny_host"),
    }
    for name, others in excluded.items():
        for other in others if getattr(options, name) else ():
            if getattr(options, other):
                made.error(f'Option "[{name}]" can\'t be used with option "[{other.replace("_", "-")}]"')
    if options.principal and not options.list:
        made.error("The --principal option is only available if --list is set")
    if options.producer and not options.topic:
        made.error("With --producer you must specify a --topic")
    if options.idempotent and not options.producer:
        made.error("The --idempotent option is only available if --producer is set")
    is_more = not options.producer and (options.cluster or options.transactional_id)
    if options.consumer and (not options.topic or not options.group or is_more):
        made.error(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )


# ---- the requested entries ------------------------------------------------------------------------------------


def _requested(made: argparse.ArgumentParser, options: argparse.Namespace) -> Acls:
    """Return the entries that the options describe, for each filter."""
    filters = _filters(options)
    if not filters:
        made.error(_NO_RESOURCE)
    acls: Acls = {}
    try:
        if not options.producer and not options.consumer:
            named = [from_name(AclOperation, text.strip()) for text in options.operation or ["All"]]
            acls.update({each: _entries(options, named) for each in filters})
        if options.producer:
            acls.update(_of_producer(options, filters))
        if options.consumer:
            for each, entries in _of_consumer(options, filters).items():
                acls[each] = {**acls.get(each, {}), **entries}
    except CommandFailed as wrong:
        made.error(str(wrong))
    for each, entries in acls.items():
        supported = (*SUPPORTED_OPERATIONS[each.resource_type], AclOperation.ALL)
        if any(entry.operation not in supported for entry in entries):
            names = ", ".join(pascal(operation) for operation in supported)
            made.error(f"ResourceType {each.resource_type.name} only supports operations {names}")
    return acls


def _of_producer(options: argparse.Namespace, filters: Iterable[PatternFilter]) -> Acls:
    needed = {
        ResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
        ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
    }
    acls = {each: _entries(options, needed[each.resource_type]) for each in filters if each.resource_type in needed}
    if options.idempotent:
        acls[_CLUSTER] = _entries(options, (AclOperation.IDEMPOTENT_WRITE,))
    return acls


def _of_consumer(options: argparse.Namespace, filters: Iterable[PatternFilter]) -> Acls:
    needed = {
        ResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
        ResourceType.GROUP: (AclOperation.READ,),
    }
    return {each: _entries(options, needed[each.resource_type]) for each in filters if each.resource_type in needed}


def _entries(options: argparse.Namespace, operations: Iterable[AclOperation]) -> dict[AclEntry, None]:
    """Return an entry for each principal, operation and host."""
    entries: dict[AclEntry, None] = {}
    for permission in (Permission.ALLOW, Permission.DENY):
        effect = permission.name.lower()
        hosts = [host.strip() for host in getattr(options, f"{effect}_host") or [WILDCARD]]
        for principal in getattr(options, f"{effect}_principal") or ():
            for operation in operations:
                for host in hosts:
                    entries[AclEntry(_principal(principal), host, operation, permission)] = None
    return entries


def _principal(text: str) -> str:
    principal = text.strip()
    if ":" not in principal:
        raise CommandFailed(f"expected a string in format principalType:principalName but got {principal}")
    return principal


def _filters(options: argparse.Namespace) -> list[PatternFilter]:
    kind = options.resource_pattern_type
    filters = [
        PatternFilter(resource_type, name.strip(), kind)
        for option, resource_type in _RESOURCES.items()
        for name in getattr(options, option) or ()
    ]
    if kind is PatternType.LITERAL and (options.cluster or options.idempotent):
        filters.append(_CLUSTER)
    return list(dict.fromkeys(filters))


# ---- actions --------------------------------------------------------------------------------------------------


async def _add(client: AdminClient, acls: Acls) -> None:
    for (resource_type, name, pattern_type), entries in acls.items():
        pattern = ResourcePattern(resource_type, str(name), pattern_type)
        print_line(f"Adding ACLs for resource `{_pattern_text(pattern)}`: \n {_entry_lines(entries)} \n")
        await create_acls(client, [AclBinding(pattern, entry) for entry in entries])


async def _remove(client: AdminClient, options: argparse.Namespace, acls: Acls) -> None:
    for each, entries in acls.items():
        text = _pattern_text(each)
        question = f"Are you sure you want to delete all ACLs for resource filter `{text}`? (y/n)"
        if entries:
            listed = _entry_lines(entries)
            question = f"Are you sure you want to remove ACLs: \n {listed} \n from resource filter `{text}`? (y/n)"
        if options.force or _confirms(question):
            await delete_acls(client, [AclFilter(each, EntryFilter(*entry)) for entry in entries] or [_all_of(each)])


async def _list(client: AdminClient, options: argparse.Namespace) -> None:
    wanted = [_all_of(each) for each in _filters(options)] or [_EVERY]
    found: dict[ResourcePattern, dict[AclEntry, None]] = {}
    for each in wanted:
        for pattern, entry in await describe_acls(client, each):
            found.setdefault(pattern, {})[entry] = None
    if not options.principal:
        _print_acls(found)
    for principal in dict.fromkeys(map(_principal, options.principal or ())):
        print_line(f"ACLs for principal `{principal}`")
        own = {
            pattern: {entry: None for entry in entries if entry.principal == principal}
            for pattern, entries in found.items()
        }
        _print_acls({pattern: entries for pattern, entries in own.items() if entries})


def _all_of(pattern: PatternFilter) -> AclFilter:
    return AclFilter(pattern, EntryFilter())


def _confirms(question: str) -> bool:
    print_line(question)
    return sys.stdin.readline().strip().lower() == "y"


def _print_acls(found: Mapping[ResourcePattern, Iterable[AclEntry]]) -> None:
    for pattern, entries in found.items():
        print_line(f"Current ACLs for resource `{_pattern_text(pattern)}`: \n {_entry_lines(entries)} \n")


def _pattern_text(pattern: ResourcePattern | PatternFilter) -> str:
    resource_type, name, pattern_type = pattern
    return f"ResourcePattern(resourceType={resource_type.name}, name={name}, patternType={pattern_type.name})"


def _entry_lines(entries: Iterable[AclEntry]) -> str:
    return "\n".join(
        f"\t(principal={entry.principal}, host={entry.host}, operation={entry.operation.name}, "
        f"permissionType={entry.permission.name})"
        for entry in entries
    )


def _print_failure(reason: Exception) -> None:
    print_line(f"Error while executing ACL command: {reason}")
