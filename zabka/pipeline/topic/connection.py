"""Provides a client of the brokers that host the topic, for the duration of an operation."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from zabka.broker_sim.client_security import read_client_config
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.journal.events import TopicPartition
from zabka.kafka.channel import AsyncioChannel
from zabka.kafka.channel_security import PLAIN_TEXT, ChannelSecurity
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaUnavailable
from zabka.kafka.record_batch import Record

T = TypeVar("T")

_PLACE = re.compile(r"kafka:/{1,2}(?P<brokers>[^/]+:[0-9]+(,[^/]+:[0-9]+)*)/(?P<topic>[A-Za-z0-9._-]{1,249})/?")
"""Matches `kafka://HOST:PORT[,HOST:PORT]/TOPIC`, also after `Path` has removed one of its slashes."""
SCHEME = "kafka:/"
NO_PROGRESS_S = 60.0
"""Maximum time for which a log may return no records although its end offset shows that it has some."""

KNOWN_WITHIN_S, LOOK_AGAIN_S = 3.0, 0.1
"""Maximum time in seconds until every broker knows a new topic, and the interval between attempts.

An attempt requests the metadata of the topic.
"""


class LostRecords(Exception):
    """A log no longer has records that it had: its end was lost, or the topic was created again."""


class TopicPlace(NamedTuple):
    """A topic, and its bootstrap brokers (`HOST:PORT`, separated by commas).

    `command_config` is the path of a Java properties file with the settings of clients, or "".
    """

    bootstrap: str
    topic: str
    command_config: str = ""


def parse_place(text: str) -> TopicPlace:
    """Parse the URI of a topic. Raises ValueError with the reason."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text} names no topic. Use kafka://HOST:PORT/TOPIC")
    return TopicPlace(found["brokers"], found["topic"])


@asynccontextmanager
async def connected(place: TopicPlace) -> AsyncIterator[AdminClient]:
    """Yield an admin client for the brokers in `place.bootstrap`. Raises ValueError for invalid client settings."""
    brokers = [(host.strip("[]"), int(port)) for host, _, port in
               (each.rpartition(":") for each in place.bootstrap.split(","))]  # fmt: skip
    channel = AsyncioChannel("zabka-pipeline", security=_security(place))
    try:
        yield AdminClient(channel, AsyncioRuntime(asyncio.get_running_loop(), on_failure=_failed), brokers)
    finally:
        channel.close()


def _security(place: TopicPlace) -> ChannelSecurity:
    if not place.command_config:
        return PLAIN_TEXT
    try:
        return read_client_config(Path(place.command_config)).security
    except ConfigError as bad:
        raise ValueError(str(bad)) from None


def _failed(task: str, failure: BaseException) -> None:
    raise RuntimeError(f"a task of the Kafka client failed: {task}") from failure


def asked(place: TopicPlace, work: Callable[[AdminClient], Awaitable[T]]) -> T:
    """Run `work` with a client, in a separate event loop, and return its result. Raises the client's exceptions."""

    async def run() -> T:
        async with connected(place) as client:
            return await work(client)

    return asyncio.run(run())


async def partitions_of(client: AdminClient, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic. Raises KafkaUnavailable if there is no such topic, or if no broker replies."""
    deadline = time.monotonic() + KNOWN_WITHIN_S
    while (info := (await client.metadata([topic])).topics.get(topic)) is None or not info.partitions:
        if time.monotonic() > deadline:
            raise KafkaUnavailable(f"there is no topic {topic}" + ("" if info is None else f" ({info.error.name})"))
        await asyncio.sleep(LOOK_AGAIN_S)
    return [TopicPartition(topic, row.partition) for row in sorted(info.partitions)]


async def records_between(
    client: AdminClient, partition: TopicPartition, begin: int, end: int
) -> AsyncGenerator[list[Record], None]:
    """Yield the records between two offsets, in batches. Raises LostRecords if the log stops returning records."""
    position, deadline = begin, time.monotonic() + NO_PROGRESS_S
    while position < end:
        fetched = await client.fetch(partition, position)
        if some := [record for record in fetched.records if record.offset < end]:
            yield some
        if fetched.next_offset > position:
            position, deadline = fetched.next_offset, time.monotonic() + NO_PROGRESS_S
        elif time.monotonic() > deadline:
            raise LostRecords(
                f"topic {partition.topic}, partition {partition.partition}: records up to offset {end} were there, and "
                f"from offset {position} on none came in {NO_PROGRESS_S:.0f} s: if the log lost its end, publish to "
                "another topic, and read that into a directory of its own"
            )
