"""Status of a consumer: a member of a consumer group, or an old ZooKeeper consumer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from zabka.journal.events import TopicPartition
from zabka.kafka.client.consumer_protocol import NO_GENERATION
from zabka.kafka.record_batch import Record

TakeRecords = Callable[[TopicPartition, Sequence[Record]], None]
"""Function that receives the records of a partition, in order."""


class ConsumerStatus(NamedTuple):
    """A consumer's partitions, its lag in records, and its generation in the group (-1 if it has none).

    `assignment` is incremented whenever the consumer is assigned partitions again or seeks in a partition, because the
    records that it reads afterwards may not directly follow the earlier ones. The old ZooKeeper consumers have no
    generation.
    """

    partitions: tuple[TopicPartition, ...]
    lag: int
    last_error: str | None
    assignment: int = 0
    generation_id: int = NO_GENERATION


def lag_of(positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    """Return how many records below the last known high watermarks a consumer has not read yet."""
    return sum(max(0, ends.get(partition, position) - position) for partition, position in positions.items())
