"""A topic of journals as a Spark source, for batches and for streams, with the same rows as `zabka-journal`.

Use `spark.read.format("zabka-topic").option("bootstrap", "HOST:PORT").option("topic", TOPIC).load()`. A task reads a
range of one partition's offsets with zabka's own client, which finds a new leader when the leader has moved. The
stream's offset contains the read position in each partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.record_batch import Record
from zabka.pipeline.ranges import SCHEMA, Row, batches, requested_classes
from zabka.pipeline.topic.connection import LostRecords, TopicPlace, asked, connected, partitions_of, records_between
from zabka.pipeline.topic.records import rows_of_records

LATEST, EARLIEST = -1, -2
SPAN_RECORDS = 100_000
"""Number of records that one task reads."""

TOPIC_ID = "topic_id"
Offset = dict[str, Any]
"""Next offset to read in each partition, by partition number, and the topic id if brokers reported it."""


class Span(InputPartition):
    """A range of offsets of one partition, and the event types of the rows to return (None for all)."""

    def __init__(self, partition: int, begin: int, end: int, types: frozenset[str] | None) -> None:
        self.partition, self.begin, self.end, self.types = partition, begin, end, types


def spans(start: Offset, end: Offset, types: frozenset[str] | None) -> list[Span]:
    """Return the ranges to read between two stream offsets."""
    found = []
    for number, last in sorted(_partitions(end).items(), key=lambda each: int(each[0])):
        for begin in range(start.get(number, 0), last, SPAN_RECORDS):
            found.append(Span(int(number), begin, min(last, begin + SPAN_RECORDS), types))
    return found


def _partitions(offset: Offset) -> dict[str, int]:
    return {number: reached for number, reached in offset.items() if number != TOPIC_ID}


def advanced(topic: str, start: Offset, end: Offset) -> Offset:
    """Return the offset up to which a stream at `start` can read if the logs end at `end`.

    Raises LostRecords if the logs do not continue what was read. The stream would miss new records in that case,
    because their offsets have already been read.
    """
    what_to_do = "publish to another topic, and stream that into a directory of its own"
    known, now = start.get(TOPIC_ID), end.get(TOPIC_ID)
    if known is not None and now is not None and known != now:
        found = f"offsets by partition: {_partitions(start)} read of id {known}, {_partitions(end)} there of id {now}"
        raise LostRecords(f"topic {topic} was made anew ({found}): {what_to_do}")
    for number, reached in sorted(_partitions(start).items(), key=lambda each: int(each[0])):
        if end.get(number, reached) < reached:
            raise LostRecords(
                f"topic {topic}, partition {number}: it was read to offset {reached}, and ends at {end[number]}; it "
                f"lost its end, or was made anew: {what_to_do}"
            )
    return {**start, **end}


def read_span(place: TopicPlace, span: Span) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range of offsets. Records that brokers have removed from the topic are missing."""
    return batches(_rows(place, span))


def _rows(place: TopicPlace, span: Span) -> Iterator[Row]:
    requested = requested_classes(span.types)
    loop = asyncio.new_event_loop()
    records = _fetched(place, TopicPartition(place.topic, span.partition), span.begin, span.end)
    try:
        while (some := loop.run_until_complete(anext(records, None))) is not None:
            yield from rows_of_records(some, requested)
    finally:
        loop.run_until_complete(records.aclose())
        loop.close()


async def _fetched(
    place: TopicPlace, partition: TopicPartition, begin: int, end: int
) -> AsyncGenerator[list[Record], None]:
    async with connected(place) as client:
        await client.metadata([place.topic])
        first = max(begin, await client.list_offset(partition, EARLIEST))
        async with aclosing(records_between(client, partition, first, end)) as found:
            async for some in found:
                yield some


async def _reaches(client: AdminClient, topic: str) -> Offset:
    """Return the log end offset of each of the topic's partitions, and the topic id."""
    found = await _offsets(client, topic, LATEST)
    info = (await client.metadata([topic])).topics.get(topic)
    return found if info is None or info.topic_id is None else {**found, TOPIC_ID: info.topic_id}


async def _offsets(client: AdminClient, topic: str, which: int) -> Offset:
    return {str(each.partition): await client.list_offset(each, which) for each in await partitions_of(client, topic)}


class _BatchReader(DataSourceReader):
    def __init__(self, place: TopicPlace, types: frozenset[str] | None) -> None:
        self._place, self._types = place, types

    def partitions(self) -> Sequence[Span]:
        begin = asked(self._place, lambda client: _offsets(client, self._place.topic, EARLIEST))
        end = asked(self._place, lambda client: _offsets(client, self._place.topic, LATEST))
        # Spark requires at least one share.
        return spans(begin, end, self._types) or [Span(0, 0, 0, self._types)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Span)
        return read_span(self._place, partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, place: TopicPlace, types: frozenset[str] | None) -> None:
        self._place, self._types = place, types
        self._target: Offset | None = None
        self._all_now = False

    def initialOffset(self) -> Offset:
        return {}

    def prepareForTriggerAvailableNow(self) -> None:
        self._all_now = True

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        if self._target is None or not self._all_now:
            self._target = asked(self._place, lambda client: _reaches(client, self._place.topic))
        return advanced(self._place.topic, start, self._target)

    def partitions(self, start: Offset, end: Offset) -> Sequence[Span]:
        return spans(start, end, self._types)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Span)
        return read_span(self._place, partition)


class TopicSource(DataSource):
    """The format `zabka-topic`, with the options `bootstrap` (HOST:PORT, separated by commas), `topic` and `types`.

    The option `commandConfig` is the path of a properties file with client settings, on every executor. `types` has the
    same meaning as in `zabka-journal`.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "zabka-topic"

    def schema(self) -> StructType:
        """Return the columns. One row is one line of a journal."""
        return SCHEMA

    def _place(self) -> TopicPlace:
        return TopicPlace(self.options["bootstrap"], self.options["topic"], self.options.get("commandConfig", ""))

    def _types(self) -> frozenset[str] | None:
        types = self.options.get("types")
        return frozenset(types.split(",")) if types else None

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for batches."""
        return _BatchReader(self._place(), self._types())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader for streams."""
        return _StreamReader(self._place(), self._types())
