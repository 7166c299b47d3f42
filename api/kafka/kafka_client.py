"""Creates a Kafka client on the running event loop, from the addresses of some brokers."""

from __future__ import annotations

import asyncio

import structlog

from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.kafka.channel import AsyncioChannel
from zabka.kafka.channel_security import PLAIN_TEXT, ChannelSecurity
from zabka.kafka.client.admin_client import AdminClient

PORT_MAX = 65_535

log = structlog.get_logger()


def _failed(task: str, failure: BaseException) -> None:
    log.error("a task of the Kafka client failed", task=task, failure=repr(failure))


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Parse a `bootstrap.servers` value. Raises ValueError if it is invalid."""
    found = []
    for address in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, colon, port = address.rpartition(":")
        # The operating system uses only 16 bits of a port number, so a larger number would select a different port.
        if not colon or not port.isdecimal() or len(port) > 5 or not 0 < int(port) <= PORT_MAX:
            raise ValueError(f"{address!r} is not host:port")
        found.append((host.strip("[]"), int(port)))
    return found


def make_client(
    bootstrap: str, name: str, security: ChannelSecurity = PLAIN_TEXT
) -> tuple[AdminClient, AsyncioChannel]:
    """Return a Kafka client on the running loop, and the channel to close after the client.

    `security` is that of its connections. Raises ValueError if there are no brokers.
    """
    brokers = addresses(bootstrap)
    if not brokers:
        raise ValueError("there are no brokers")
    channel = AsyncioChannel(name, security=security)
    return AdminClient(channel, make_runtime(), brokers), channel


def make_runtime() -> AsyncioRuntime:
    """Return a runtime that uses the running event loop, and logs the failures of tasks."""
    return AsyncioRuntime(asyncio.get_running_loop(), on_failure=_failed)
