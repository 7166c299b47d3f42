"""Basic types of journal events: the base class, the journal level, and the name of a partition."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import ClassVar, NamedTuple

import msgspec


class Level(IntEnum):
    """Level that determines which events a node writes to its journal."""

    NORMAL = 0
    FULL = 1


def snake(name: str) -> str:
    """Return the `type` of an event class: the class name in snake case."""
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name))


class Event(msgspec.Struct, tag_field="type", tag=snake, gc=False):
    """Base class of every event body. The `type` is the name of the subclass in snake case."""

    level: ClassVar[Level] = Level.NORMAL


class TopicPartition(NamedTuple):
    """A partition's name, as Kafka writes it: the topic and the partition number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@lru_cache(65_536)
def topic_partition(topic: str, partition: int) -> TopicPartition:
    """Return a partition's name from a cache, which is faster than creating a new object."""
    return TopicPartition(topic, partition)
