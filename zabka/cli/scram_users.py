"""`zabka configs --zookeeper`: writes users' SCRAM credentials to the ensemble, without a broker (ConfigCommand).

Brokers that connect to each other with SCRAM need their user before the first of them starts.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
from collections.abc import Callable, Mapping
from urllib.parse import unquote

from zabka.broker_sim.configs.entity_znodes import EntityZnodes, node_name
from zabka.broker_sim.configs.scram_credentials import MECHANISMS, password_upsertion, stored_credential
from zabka.broker_sim.refusals import Refused
from zabka.cli.kafka_command import CommandFailed, asyncio_runtime, print_error, print_line
from zabka.ensemble.client.asyncio_connector import AsyncioConnector
from zabka.ensemble.client.client import Client
from zabka.ensemble.errors import ZooKeeperError
from zabka.kafka.scram import ITERATIONS_MIN
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
    """Run the tool with the options of `zabka configs`, and return the exit code."""
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
    try:
        client = Client(
            options.zookeeper, AsyncioConnector(), runtime, session_timeout_ms=SESSION_TIMEOUT_MS, name="zabka-configs"
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
    if mechanism not in _NUMBERS:
        raise CommandFailed(
            f"requirement failed: {mechanism} cannot be updated: User configuration updates using ZooKeeper are only "
            "supported for SCRAM credential updates."
        )
    match = _CREDENTIAL.fullmatch(text)
    if match is None:
        raise CommandFailed(f"Invalid credential property {mechanism}: set {mechanism}=[password=…]")
    iterations = int(match[1] or ITERATIONS_MIN)
    if iterations < ITERATIONS_MIN:
        raise CommandFailed(
            f"Iterations {iterations} is less than the minimum {ITERATIONS_MIN} required for {mechanism}"
        )
    return stored_credential(password_upsertion(_NUMBERS[mechanism], match[2], os.urandom(SALT_BYTES), iterations))


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
