"""Shared code of the console producer and console consumer: --property options, and the partitions of a topic."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from zabka.cli.kafka_command import API_TIMEOUT_MS, CommandFailed
from zabka.ensemble.close_names import did_you_mean
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaRequestFailed

POLL_MS = 250
"""Interval in ms at which the console commands poll the cluster."""


def properties_of(texts: Sequence[str]) -> dict[str, str]:
    """Parse the KEY=VALUE pairs of --property. Raises CommandFailed."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise CommandFailed(f"Invalid command line properties: {text}")
        found[key] = value
    return found


async def partitions_of(client: AdminClient, topic: str) -> list[int]:
    """Wait until all partitions of a topic have leaders, and return the partition numbers.

    A broker may create a missing topic. A missing topic is first reported on standard error, because its name may be
    mistyped. Raises KafkaRequestFailed if the partitions have no leaders in time.
    """
    deadline = time.monotonic() + API_TIMEOUT_MS / 1000
    await _warn_of_unknown(client, topic)
    while True:
        info = (await client.metadata([topic], create=True)).topics[topic]
        if info.partitions and all(row.leader >= 0 for row in info.partitions):
            return [row.partition for row in info.partitions]
        if info.error is ErrorCode.invalid_topic_exception or time.monotonic() >= deadline:
            if info.partitions and info.error is ErrorCode.none:
                lacking = ", ".join(f"{topic}-{row.partition}" for row in info.partitions if row.leader < 0)
                raise KafkaRequestFailed(ErrorCode.leader_not_available, f"There is no leader of {lacking}")
            raise KafkaRequestFailed(info.error, f"Topic {topic} not present in metadata: {info.error.name.upper()}")
        await asyncio.sleep(POLL_MS / 1000)


async def _warn_of_unknown(client: AdminClient, topic: str) -> None:
    if (await client.metadata([topic])).topics[topic].error is not ErrorCode.unknown_topic_or_partition:
        return
    hint = did_you_mean(topic, (await client.metadata()).topics) or "."
    sys.stderr.write(
        f"WARN Topic {topic} does not exist{hint} Brokers create it now if auto.create.topics.enable is true; "
        f"otherwise this waits up to {API_TIMEOUT_MS // 1000} s for it.\n"
    )
