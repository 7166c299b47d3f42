"""`zabka configs` for users: SCRAM credentials (ConfigCommand).

With --bootstrap-server, brokers change them. With --zookeeper, they are written to the ensemble without a broker:
brokers that connect to each other with SCRAM need their user before the first of them starts.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
from collections.abc import Callable, Mapping
from urllib.parse import unquote

from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.entity_znodes import EntityZnodes, node_name
from zabka.broker_sim.configs.scram_credentials import MECHANISMS, password_upsertion, stored_credential
from zabka.broker_sim.ensemble_security import read_ensemble_context
from zabka.broker_sim.refusals import Refused
from zabka.cli.kafka_command import CommandFailed, asyncio_runtime, print_error, print_line, run
from zabka.ensemble.client.asyncio_connector import AsyncioConnector
from zabka.ensemble.client.client import Client
from zabka.ensemble.errors import ZooKeeperError
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.scram_admin import alter_scram_credentials, describe_scram_credentials
from zabka.kafka.scram import ITERATIONS_MIN, Upsertion
from zabka.kafka.zk.coordination import Zk
from zabka.kafka.zk.registration import create_persistent_paths

CONNECTION_TIMEOUT_S = 30
SESSION_TIMEOUT_MS = 30_000
SALT_BYTES = 32
_CREDENTIAL = re.compile(r"(?:iterations=([0-9]*),)?password=(.+)", re.DOTALL)
_NUMBERS = {name: number for number, name in MECHANISMS.items()}

ParseChanges = Callable[[str | None, str | None], Mapping[str, str | None]]
"""Parses --add-config and --delete-config."""


def run_with_ensemble(options: argparse.Namespace, parse_changes: ParseChanges) -> int:
    """Run the tool with --zookeeper and the other options of `zabka configs`, and return the exit code."""
    try:
        asyncio.run(_connected(options, parse_changes(options.add_config, options.delete_config)))
    except (CommandFailed, Refused, ZooKeeperError) as reason:
        print_error(reason)
        return 1
    return 0


async def _connected(options: argparse.Namespace, changes: Mapping[str, str | None]) -> None:
    """Connect to the ensemble, and alter or describe credentials. Raises CommandFailed, Refused, ZooKeeperError."""
    credentials = {name: None if text is None else credential(name, text) for name, text in changes.items()}
    runtime = asyncio_runtime()
    tls_file = options.zk_tls_config_file
    try:
        context = None if tls_file is None else read_ensemble_context(tls_file)
    except ConfigError as wrong:
        raise CommandFailed(f"--zk-tls-config-file {wrong}") from None
    try:
        client = Client(
            options.zookeeper,
            AsyncioConnector(ssl_context=context),
            runtime,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            name="zabka-configs",
        )
    except ValueError as wrong:
        raise CommandFailed(f"--zookeeper {options.zookeeper}: {wrong}") from None
    try:
        async with asyncio.timeout(CONNECTION_TIMEOUT_S):
            await client.start()
            zk = Zk(client, runtime)
            await create_persistent_paths(zk)
            entities = EntityZnodes(zk, needs_controller=False)
            await (
                _alter(entities, options.entity_name, credentials) if options.alter else _describe(entities, options)
            )
    except TimeoutError:
        raise CommandFailed(f"no answer from {options.zookeeper} within {CONNECTION_TIMEOUT_S} s") from None
    finally:
        await client.close()
        await runtime.cancel_all()


def credential(mechanism: str, text: str) -> str:
    """Return the string to store for `iterations=N,password=…`. Raises CommandFailed."""
    return stored_credential(upsertion(mechanism, text))


def upsertion(mechanism: str, text: str) -> Upsertion:
    """Return the change for `iterations=N,password=…`. Raises CommandFailed."""
    if mechanism not in _NUMBERS:
        raise CommandFailed(f"{mechanism} cannot be updated: only users' SCRAM credentials can be changed here")
    match = _CREDENTIAL.fullmatch(text)
    if match is None:
        raise CommandFailed(f"Invalid credential property {mechanism}: set {mechanism}=[password=…]")
    iterations = int(match[1] or ITERATIONS_MIN)
    if iterations < ITERATIONS_MIN:
        raise CommandFailed(
            f"Iterations {iterations} is less than the minimum {ITERATIONS_MIN} required for {mechanism}"
        )
    return password_upsertion(_NUMBERS[mechanism], match[2], os.urandom(SALT_BYTES), iterations)


def run_with_brokers(options: argparse.Namespace, parse_changes: ParseChanges) -> int:
    """Run the tool with --bootstrap-server and the other options of `zabka configs`, and return the exit code."""

    async def connected(client: AdminClient) -> None:
        if options.alter:
            await _alter_at_brokers(
                client, options.entity_name, parse_changes(options.add_config, options.delete_config)
            )
        else:
            await _describe_at_brokers(client, options.entity_name)

    return run(options, connected)


async def _alter_at_brokers(client: AdminClient, user: str, changes: Mapping[str, str | None]) -> None:
    upsertions = [upsertion(name, text) for name, text in changes.items() if text is not None]
    deleted = [name for name, text in changes.items() if text is None]
    known = await describe_scram_credentials(client, user) if deleted else {}
    missing = [name for name in deleted if _NUMBERS.get(name) not in known.get(user, {})]
    if missing:
        raise CommandFailed(f"Invalid config(s): {','.join(sorted(missing))}")
    await alter_scram_credentials(client, user, upsertions, [_NUMBERS[name] for name in deleted])
    print_line(f"Completed updating config for user {user}.")


async def _describe_at_brokers(client: AdminClient, user: str | None) -> None:
    for name, found in sorted((await describe_scram_credentials(client, user)).items()):
        text = ", ".join(f"{MECHANISMS[code]}=iterations={iterations}" for code, iterations in found.items())
        if text:
            print_line(f"SCRAM credential configs for user-principal '{name}' are {text}")


async def _alter(entities: EntityZnodes, user: str, changes: Mapping[str, str | None]) -> None:
    path, deleted = f"users/{node_name(user)}", {name for name, value in changes.items() if value is None}
    while True:
        overrides, version = await entities.read(path)
        if missing := deleted - overrides.keys():
            raise CommandFailed(f"Invalid config(s): {','.join(sorted(missing))}")
        wanted = {name: value for name, value in {**overrides, **changes}.items() if value is not None}
        if await (entities.write(path, wanted, version) if wanted else entities.clear(path, version)):
            break
    print_line(f"Completed updating config for entity: user-principal '{user}'.")


async def _describe(entities: EntityZnodes, options: argparse.Namespace) -> None:
    nodes = [node_name(options.entity_name)] if options.entity_name else await entities.names("users")
    for node in nodes:
        overrides, _ = await entities.read(f"users/{node}")
        if overrides or options.entity_name:
            text = ",".join(f"{name}={value}" for name, value in overrides.items())
            print_line(f"Configs for user-principal '{unquote(node)}' are {text}")
