"""Shared code of the verbs that reimplement Kafka's tools: bootstrap brokers and error messages."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NoReturn

from zabka.api.kafka.kafka_client import make_client
from zabka.broker_sim.client_security import ClientConfig, read_client_config
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.compose.security import own_client_properties
from zabka.compose.topology import BadTopology, load
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.ports import Endpoint

API_TIMEOUT_MS = 30_000


class CommandFailed(Exception):
    """A tool failed with this message and exit code 1."""


class TerseFailure(CommandFailed):
    """A failure whose message Kafka's tool prints without the prefix "Error"."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(message, file=sys.stderr)  # noqa: T201
        self.print_usage(sys.stderr)
        raise SystemExit(1)


def parser(name: str, description: str) -> argparse.ArgumentParser:
    """Return an argument parser for one of Kafka's tools, with the options common to all tools."""
    made = _Parser(prog=f"zabka {name}", description=description, allow_abbrev=False)
    made.add_argument("--bootstrap-server", metavar="HOST:PORT[,…]", help="default: the brokers of --data")
    made.add_argument(
        "--command-config", type=Path, metavar="FILE", default=os.environ.get("ZABKA_COMMAND_CONFIG"),
        help="client settings (security.protocol, …), a Java properties file; default: client.properties of --data",
    )  # fmt: skip
    made.add_argument("--data", type=Path, default=Path(os.environ.get("ZABKA_DATA", ".zabka")), help="default: .zabka")
    return made


def connection(options: argparse.Namespace) -> tuple[str, ClientConfig]:
    """Return the bootstrap brokers and the client settings from the options.

    Without --bootstrap-server, both default to those of the cluster in the data directory, and the brokers to those in
    the client settings. Raises CommandFailed if there is no such cluster, or for invalid settings.
    """
    config = _client_config(options.command_config)
    named = options.bootstrap_server if options.bootstrap_server is not None else config.bootstrap
    if named or options.bootstrap_server is not None:
        return str(named), config
    try:
        topology = load(options.data.absolute())
    except (BadTopology, OSError) as reason:
        raise CommandFailed(str(reason)) from None
    if topology is None:
        raise CommandFailed(f"there is no cluster in {options.data}; name its brokers with --bootstrap-server")
    if topology.secure and options.command_config is None:
        config = _client_config(own_client_properties(topology, options.data.absolute()))
        return config.bootstrap or topology.bootstrap, config
    return topology.bootstrap, config


def _client_config(path: Path | None) -> ClientConfig:
    if path is None:
        return ClientConfig()
    try:
        return read_client_config(path)
    except ConfigError as bad:
        raise CommandFailed(str(bad)) from None


def asyncio_runtime() -> AsyncioRuntime:
    """Return a runtime that uses the running event loop."""

    def failed(task: str, failure: BaseException) -> None:
        print(f"{task}: {failure!r}", file=sys.stderr)  # noqa: T201

    return AsyncioRuntime(asyncio.get_running_loop(), on_failure=failed)


def _check_texts(options: argparse.Namespace) -> None:
    """Raise CommandFailed if an option is not valid UTF-8, which requests require. Paths are not checked."""
    for value in vars(options).values():
        for text in value if isinstance(value, list) else [value]:
            try:
                (text if isinstance(text, str) else "").encode()
            except UnicodeEncodeError:
                raise CommandFailed(f"{text!r} is no UTF-8") from None


async def _unless(denied: asyncio.Future[str], work: Awaitable[None]) -> None:
    """Wait for `work`, but fail at once if a broker rejects the client's certificate or password, as Kafka's tools do.

    Raises CommandFailed.
    """
    working = asyncio.ensure_future(work)
    try:
        await asyncio.wait((denied, working), return_when=asyncio.FIRST_COMPLETED)
        if denied.done() and not working.done():
            raise CommandFailed(denied.result())
        await working
    finally:
        working.cancel()


PrintFailure = Callable[[Exception], None]
"""A function that prints why a tool failed."""


def print_error(reason: Exception) -> None:
    """Print the reason for a failure on standard error, in one line."""
    print(f"Error while executing command : {reason}", file=sys.stderr)  # noqa: T201


def run(
    options: argparse.Namespace,
    work: Callable[[AdminClient], Awaitable[None]],
    print_failure: PrintFailure = print_error,
    failed_code: int = 1,
) -> int:
    """Run `work` with an admin client, and return the exit code.

    The code is `failed_code` if a broker rejects a request or no broker can be reached.
    """

    async def connected() -> None:
        _check_texts(options)
        addresses, config = connection(options)
        denied: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def deny(_: Endpoint, reason: str) -> None:
            if not denied.done():
                failed = "Authentication failed: "
                denied.set_result(failed + reason.removeprefix(failed))

        security = config.security.reporting(deny)
        try:
            client, channel = make_client(addresses, config.client_id or "zabka-tool", security)
        except ValueError as reason:
            raise CommandFailed(str(reason)) from None
        try:
            await _unless(denied, begun(client))
        finally:
            channel.close()

    async def begun(client: AdminClient) -> None:
        await client.metadata([], timeout_ms=API_TIMEOUT_MS // 3)
        await work(client)

    try:
        asyncio.run(connected())
    except (CommandFailed, KafkaRequestFailed, KafkaUnavailable) as reason:
        print_failure(reason)
        return failed_code
    return 0


def print_line(text: str, end: str = "\n") -> None:
    """Print text on standard output, followed by `end`."""
    print(text, end=end, flush=True)  # noqa: T201


def hash_order(names: Sequence[str]) -> list[str]:
    """Return the names in the order in which a java.util.HashMap with these keys iterates, as Java's output does."""
    buckets = 16
    while len(names) > buckets * 3 // 4:
        buckets *= 2

    def bucket(name: str) -> int:
        spread = 0
        for character in name:
            spread = (31 * spread + ord(character)) & 0xFFFFFFFF
        return (spread ^ spread >> 16) & (buckets - 1)

    return sorted(names, key=bucket)
