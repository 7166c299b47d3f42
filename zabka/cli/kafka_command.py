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
from zabka.compose.topology import BadTopology, load
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable

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
    made.add_argument("--data", type=Path, default=Path(os.environ.get("ZABKA_DATA", ".zabka")), help="default: .zabka")
    return made


def bootstrap(options: argparse.Namespace) -> str:
    """Return the bootstrap brokers from the options, or those of the cluster in the data directory.

    Raises CommandFailed if there is no such cluster.
    """
    if options.bootstrap_server is not None:
        return str(options.bootstrap_server)
    try:
        topology = load(options.data.absolute())
    except (BadTopology, OSError) as reason:
        raise CommandFailed(str(reason)) from None
    if topology is None:
        raise CommandFailed(f"there is no cluster in {options.data}; name its brokers with --bootstrap-server")
    return topology.bootstrap


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
        try:
            client, channel = make_client(bootstrap(options), "zabka-tool")
        except ValueError as reason:
            raise CommandFailed(str(reason)) from None
        try:
            await client.metadata([], timeout_ms=API_TIMEOUT_MS // 3)
            await work(client)
        finally:
            channel.close()

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
