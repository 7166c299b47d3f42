"""Publishes journals to a topic, each line once, continuing at the topic's end.

The topic itself shows up to which position each file was published, so there is no other state. Records are produced
with acks=all by an idempotent producer: if a reply is lost because a leader fails, the request is sent again, and the
line is still stored only once.

Each record contains the mark of its file, because a name does not identify a file. Files of a cluster other than that
of the topic are rejected.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaUnavailable
from zabka.kafka.client.partitioner import partition_for
from zabka.kafka.record_batch import Record
from zabka.pipeline.positions import Offset, is_recreated, key_of, mark_of
from zabka.pipeline.ranges import LongLine, blocks, complete_bytes
from zabka.pipeline.runs import journal_files
from zabka.pipeline.topic.alone import alone
from zabka.pipeline.topic.connection import TopicPlace, connected, partitions_of, records_between
from zabka.pipeline.topic.records import end_of, ending_in, is_cut, mark_in, place_of, record_of

BATCH_RECORDS, BATCH_BYTES = 2_000, 500_000
"""Maximum number of records and of bytes in a batch. A batch ends with the record that reaches either limit."""
LOOK_S = 0.5
"""Interval at which the files are checked for new lines."""
GIVE_UP_S = 120.0
"""Time after which publishing fails if brokers reject batches or do not reply. Until then each batch is retried."""
LATEST, EARLIEST = -1, -2


class Recreated(Exception):
    """A file does not continue the lines in the topic: the cluster was created again in the same directory."""


class Published(NamedTuple):
    """Number of published lines, and how many of them were truncated to a size that brokers accept."""

    lines: int
    cut: int


class Publisher:
    """Publishes the journals in a directory, or one journal file."""

    def __init__(self, root: Path, client: AdminClient, topic: str) -> None:
        self._root = root
        self._client = client
        self._topic = topic
        self._reached: Offset = {}
        self._partitions: list[TopicPartition] = []
        self._producer = (-1, -1)
        self._sequences: dict[TopicPartition, int] = {}
        self.lines = self.cut = 0

    async def load_published(self) -> None:
        """Read the topic to find out which lines were published.

        Raises KafkaUnavailable, KafkaRequestFailed, LostRecords.
        """
        self._partitions = await partitions_of(self._client, self._topic)
        for partition in self._partitions:
            position = await self._client.list_offset(partition, EARLIEST)
            end = await self._client.list_offset(partition, LATEST)
            async for some in records_between(self._client, partition, position, end):
                for record in some:
                    self._note(record)
        self._producer = await self._client.init_producer_id()

    def _note(self, record: Record) -> None:
        if (place := place_of(record)) is not None:
            known, mark, _, _ = self._reached.get(place[0], (0, "", 1, ""))
            # If two files have the same name, continue with the later one.
            if mark != mark_in(record) or known < end_of(record):
                self._reached[place[0]] = [end_of(record), mark_in(record), 1, ending_in(record)]

    async def publish_what_is_there(self) -> int:
        """Publish every complete line that is not in the topic yet, and return the number of published lines. Raises
        Recreated.
        """
        before = self.lines
        for key, (path, mark) in self._files().items():
            number = partition_for(key.encode(), len(self._partitions), 0)
            for batch in _batches(_records(key, path, mark, self._reached.get(key, (0,))[0])):
                await self._produce(self._partitions[number], batch)
                self._note(batch[-1])
                self.lines += len(batch)
                self.cut += sum(map(is_cut, batch))
        return self.lines - before

    def _files(self) -> dict[str, tuple[Path, str]]:
        """Return the files that have lines, each with its mark (a checksum of its first line).

        Raises Recreated if a file does not continue what the topic contains. No line has been published then.
        """
        found: dict[str, tuple[Path, str]] = {}
        recreated: list[str] = []
        for file in journal_files(self._root):
            # A file that has been removed has nothing to publish.
            with suppress(FileNotFoundError):
                if (mark := mark_of(file.path)) is not None:
                    key = key_of(self._root, file.path)
                    found[key] = file.path, mark
                    recreated += [key] * is_recreated(key, file.path, mark, self._reached)
        if recreated:
            raise Recreated(
                f"{recreated[0]} does not go on from what topic {self._topic} holds: its cluster was made anew, or the "
                "topic lost what it held or has it without marks; publish to another topic"
            )
        return found

    async def _produce(self, partition: TopicPartition, batch: list[Record]) -> None:
        sequence = self._sequences.get(partition, 0)
        deadline = time.monotonic() + GIVE_UP_S
        while True:
            try:
                await self._client.produce(partition, batch, producer=(*self._producer, sequence))
            except KafkaUnavailable:
                if time.monotonic() > deadline:
                    raise
            else:
                self._sequences[partition] = sequence + len(batch)
                return


def _records(key: str, path: Path, mark: str, begin: int) -> Iterator[Record]:
    """Yield the complete lines of a file at or after a position as records; none if the file was removed."""
    try:
        end = complete_bytes(path, begin)
        with path.open("rb") as file:
            for block in blocks(file, begin, end):
                if isinstance(block, LongLine):
                    yield record_of(key, mark, block.position, block.begin, block.size - 1)
                    continue
                position = block.position
                for line in block.lines:
                    yield record_of(key, mark, position, line)
                    position += len(line) + 1
    except FileNotFoundError:
        return


def _batches(records: Iterator[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.value or b"")
        if len(batch) >= BATCH_RECORDS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


async def publish(root: Path, place: TopicPlace, *, follow: bool, progress: Callable[[int], None]) -> Published:
    """Publish the journals in a directory. With `follow`, continue with new lines until the coroutine is cancelled.

    `progress` is called with the number of lines published so far. Raises KafkaUnavailable, KafkaRequestFailed,
    LostRecords, Recreated, and NotAlone if another process publishes the same journals.
    """
    async with connected(place) as client:
        cluster = await client.metadata([place.topic])
        with alone(root, place, cluster.cluster_id):
            publisher = Publisher(root, client, place.topic)
            await publisher.load_published()
            while True:
                if await publisher.publish_what_is_there():
                    progress(publisher.lines)
                elif not follow:
                    return Published(publisher.lines, publisher.cut)
                await asyncio.sleep(LOOK_S if follow else 0)
