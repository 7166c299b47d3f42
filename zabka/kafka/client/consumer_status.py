"""How a consumer stands, of whichever kind it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from zabka.journal.events import TopicPartition
from zabka.kafka.client.consumer_protocol import NO_GENERATION
from zabka.kafka.record_batch import Record

TakeRecords = Callable[[TopicPartition, Sequence[Record]], None]
"""Gets the records of a partition, in order."""


class ConsumerStatus(NamedTuple):
    """A consumer's partitions, how many records it is behind their high watermarks, and its generation in the group
    (-1 while it is in none, and for consumers of the old kind).

    `assignment` counts up whenever it is given partitions anew, or goes elsewhere in one: what it reads from then on
    need not continue what it had read.
    """

    partitions: tuple[TopicPartition, ...]
    lag: int
    last_error: str | None
    assignment: int = 0
    generation_id: int = NO_GENERATION


def records_behind(positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    """How many records a consumer has not read yet, as far as it was told of the high watermarks."""
    return sum(max(0, ends.get(partition, position) - position) for partition, position in positions.items())
