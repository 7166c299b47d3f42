"""Records as tests write and read them, and functions that write and read them with a `KafkaClient`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    # Import this module for type checking only: tests start a live cluster before they import its clients.
    from zabka.kafka.client.client import KafkaClient

Payload = str | bytes | None
"""A key or value: bytes, a string to encode as UTF-8, or null."""
IsolationLevel = Literal["read_uncommitted", "read_committed"]
"""Possible values of Kafka's `isolation.level`."""

_FETCH_WAIT_MS = 100


class Record(msgspec.Struct, frozen=True):
    """A record to produce, or a record that was read from a partition.

    In a record to produce, `timestamp_ms` is by default the current time (milliseconds since 1970), `partition` is by
    default the partition argument of the call, and `offset` is ignored. A record that was read has all three fields,
    and its key, value and header values are bytes.
    """

    value: Payload
    key: Payload = None
    headers: tuple[tuple[str, Payload], ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None
    offset: int | None = None

    @property
    def text(self) -> str:
        """The value as a string: bytes that are not UTF-8 are escaped (`\\xff`), null is empty."""
        return self.value.decode(errors="backslashreplace") if isinstance(self.value, bytes) else self.value or ""


async def write_records(
    client: KafkaClient,
    topic: str,
    values: Iterable[Payload | Record],
    partition: int,
    *,
    now_ms: int,
    acks: int,
    timeout_s: float,
) -> int:
    """Write one batch to each partition, in the order of their first records; return the first record's offset."""
    from zabka.journal.events import TopicPartition
    from zabka.kafka.record_batch import Record as Written

    batches: dict[int, list[Written]] = {}
    for given in values:
        record = given if isinstance(given, Record) else Record(given)
        written = Written(
            key=_bytes_of(record.key),
            value=_bytes_of(record.value),
            timestamp_ms=now_ms if record.timestamp_ms is None else record.timestamp_ms,
            headers=tuple((name, _bytes_of(value)) for name, value in record.headers),
        )
        batches.setdefault(partition if record.partition is None else record.partition, []).append(written)
    timeout_ms = int(timeout_s * 1000)
    offsets = [
        await client.produce(TopicPartition(topic, number), batch, acks=acks, timeout_ms=timeout_ms)
        for number, batch in batches.items()
    ]
    return offsets[0]


async def read_records(
    client: KafkaClient, topic: str, partitions: Sequence[int], isolation_level: IsolationLevel, timeout_s: float
) -> list[Record]:
    """Return every committed record of these partitions from their start, ordered by partition and offset."""
    from zabka.journal.events import TopicPartition
    from zabka.kafka.client.client import Isolation

    isolation = Isolation[isolation_level.upper()]
    timeout_ms = int(timeout_s * 1000)
    found = []
    for number in partitions:
        name = TopicPartition(topic, number)
        offset = await client.list_offset(name, -2, timeout_ms=timeout_ms)
        end = await client.list_offset(name, -1, timeout_ms=timeout_ms, isolation=isolation)
        while offset < end:
            fetched = await client.fetch(
                name, offset, max_wait_ms=_FETCH_WAIT_MS, timeout_ms=timeout_ms, isolation=isolation
            )
            found += [Record(r.value, r.key, r.headers, r.timestamp_ms, number, r.offset) for r in fetched.records]
            offset = fetched.next_offset
    return found


def _bytes_of(payload: Payload) -> bytes | None:
    return payload.encode() if isinstance(payload, str) else payload
