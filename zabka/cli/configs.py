"""`zabka configs`: kafka-configs.sh for topics, brokers and users, with its options and output (ConfigCommand, 3.9).

Users have SCRAM credentials: see `zabka.cli.scram_users`.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from zabka.cli.kafka_command import API_TIMEOUT_MS, CommandFailed, parser, print_line, run
from zabka.cli.scram_users import run_with_brokers, run_with_ensemble
from zabka.kafka.client.admin_client import BROKER_RESOURCE, TOPIC_RESOURCE, AdminClient, ConfigEntry

# Codes of ConfigEntry.ConfigSource (org.apache.kafka.clients.admin) in DescribeConfigs responses.
SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
}
DEFAULT_BROKER_CONFIG = 3
_DYNAMIC = {TOPIC_RESOURCE: (1,), BROKER_RESOURCE: (2, 3)}


def main(arguments: list[str]) -> int:
    """Run the tool; return the exit code."""
    made = parser("configs", "Describe or alter the configuration of topics and brokers, and users' credentials.")
    made.add_argument("--zookeeper", metavar="HOST:PORT[,…][/CHROOT]", help="the ensemble, for --entity-type users")
    made.add_argument(
        "--zk-tls-config-file", type=Path, metavar="FILE",
        help="with --zookeeper: zookeeper.ssl.… settings, a Java properties file",
    )  # fmt: skip
    what = made.add_mutually_exclusive_group(required=True)
    what.add_argument("--alter", action="store_true")
    what.add_argument("--describe", action="store_true")
    made.add_argument("--entity-type", choices=("topics", "brokers", "users"))
    made.add_argument("--entity-name")
    made.add_argument("--entity-default", action="store_true")
    made.add_argument("--topic")
    made.add_argument("--broker")
    made.add_argument("--user")
    made.add_argument("--add-config", metavar="K1=V1,K2=[v1,v2]")
    made.add_argument("--delete-config", metavar="K1,K2")
    made.add_argument("--all", action="store_true", help="with --describe: those that are not overridden too")
    options = made.parse_args(arguments)
    _check(made, options)
    if options.topic is not None:
        options.entity_type, options.entity_name = "topics", options.topic
    if options.broker is not None:
        options.entity_type, options.entity_name = "brokers", options.broker
    if options.user is not None:
        options.entity_type, options.entity_name = "users", options.user
    if options.entity_type is None:
        made.error("At least one of --entity-type, --topic, --broker or --user must be specified")
    if options.alter:
        if not (options.add_config or options.delete_config):
            made.error("At least one of --add-config or --delete-config must be specified with --alter")
        if options.entity_name is None and not options.entity_default:
            made.error("An entity name must be specified with --alter")
    if options.zk_tls_config_file is not None and options.zookeeper is None:
        made.error("--zk-tls-config-file needs --zookeeper")
    if options.zookeeper is not None or options.entity_type == "users":
        return _run_users(made, options)
    if options.alter:
        return run(options, lambda client: _alter(client, options))
    return run(options, lambda client: _describe(client, options))


def _run_users(made: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if options.entity_type != "users":
        made.error("--bootstrap-server option must be specified to update topics and brokers: --zookeeper is for users")
    if options.zookeeper is not None and options.bootstrap_server is not None:
        made.error("Only one of --bootstrap-server and --zookeeper can be specified")
    if options.entity_default:
        made.error("A default user has no credentials")
    return (run_with_brokers if options.zookeeper is None else run_with_ensemble)(options, parse_changes)


def _check(made: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit with an error if the options are ambiguous (ConfigCommandOptions.checkArgs)."""
    flags = [name for name in (options.topic, options.broker, options.user) if name is not None]
    if len(flags) > 1:
        made.error("Only 'users' and 'clients' entity types may be specified together")
    if flags and (options.entity_type is not None or options.entity_name is not None or options.entity_default):
        made.error("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    if options.entity_name is not None and options.entity_default:
        made.error("--entity-name and --entity-default should not be used together")
    for name in ("add_config", "delete_config"):
        if options.describe and getattr(options, name) is not None:
            made.error(f'Option "[describe]" can\'t be used with option "[{name.replace("_", "-")}]"')


def parse_changes(added: str | None, deleted: str | None) -> dict[str, str | None]:
    """Parse --add-config and --delete-config as a mapping of config keys to values, with None for a deleted key.

    A value in brackets may contain commas: `[a,b]`. Raises CommandFailed.
    """
    changes: dict[str, str | None] = {}
    # Commas inside brackets belong to the value.
    for pair in re.split(r",(?![^\[]*\])", added or ""):
        if not pair.strip():
            continue
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise CommandFailed("requirement failed: Invalid entity config: all configs to be added must be in "
                                'the format "key=val".')  # fmt: skip
        changes[key.strip()] = re.sub(r"^\[(.*)\]$", r"\1", value.strip())
    for key in filter(None, (k.strip() for k in (deleted or "").split(","))):
        changes[key] = None
    return changes


def _entity(options: argparse.Namespace) -> tuple[int, str, str]:
    """Return the resource type, the resource name in requests, and the title that Kafka's tool prints for it."""
    kind = TOPIC_RESOURCE if options.entity_type == "topics" else BROKER_RESOURCE
    if options.entity_default or options.entity_name == "":
        return kind, "", f"default {options.entity_type} in the cluster"
    return kind, options.entity_name, f"{options.entity_type.removesuffix('s')} {options.entity_name}"


async def _alter(client: AdminClient, options: argparse.Namespace) -> None:
    kind, name, title = _entity(options)
    changes = parse_changes(options.add_config, options.delete_config)
    deleted = {key for key, value in changes.items() if value is None}
    if deleted:
        source = DEFAULT_BROKER_CONFIG if kind == BROKER_RESOURCE and not name else _DYNAMIC[kind][0]
        entries = await client.describe_configs(kind, name, timeout_ms=API_TIMEOUT_MS)
        missing = deleted - {entry.name for entry in entries if entry.source == source}
        if missing:
            raise CommandFailed(f"Invalid config(s): {','.join(sorted(missing))}")
    await client.alter_configs(kind, name, changes, timeout_ms=API_TIMEOUT_MS)
    if options.entity_default:
        print_line(f"Completed updating default config for {options.entity_type} in the cluster.")
    else:
        print_line(f"Completed updating config for {title}.")


async def _describe(client: AdminClient, options: argparse.Namespace) -> None:
    names = [options.entity_name]
    if options.entity_name is None and not options.entity_default:
        found = await client.metadata()
        names = sorted(found.topics) if options.entity_type == "topics" else [str(b) for b in sorted(found.brokers)]
        if options.entity_type == "brokers":
            names.insert(0, "")
    for name in names:
        options.entity_name = name
        kind, resource, title = _entity(options)
        entries = await client.describe_configs(kind, resource, timeout_ms=API_TIMEOUT_MS)
        for line in describe(entries, kind, title, options.all):
            print_line(line)


def describe(entries: list[ConfigEntry], kind: int, title: str, everything: bool) -> list[str]:
    """Return the output lines of --describe for one topic or broker."""
    chosen = [e for e in entries if everything or e.source in _DYNAMIC[kind]]
    if title.startswith("default "):
        head = f"Default configs for {title.removeprefix('default ')} are:"
    else:
        head = f"{'All' if everything else 'Dynamic'} configs for {title} are:"
    return [head, *(_line(entry) for entry in sorted(chosen, key=lambda e: e.name))]


def _line(entry: ConfigEntry) -> str:
    synonyms = ", ".join(
        f"{SOURCES.get(source, 'UNKNOWN')}:{name}={_text(value)}" for name, value, source in entry.synonyms
    )
    sensitive = str(entry.is_sensitive).lower()
    return f"  {entry.name}={_text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _text(value: str | None) -> str:
    """Return a config value as Java prints it: None as `null`."""
    return "null" if value is None else value
