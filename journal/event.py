"""What every journal event has: its base, its level, and the name of a partition."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, NamedTuple

import msgspec


class Level(IntEnum):
    """How much a node writes to its journal."""

    NORMAL = 0
    FULL = 1


def snake(name: str) -> str:
    """A class's name as the `type` that it is written under."""
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name))


class Event(msgspec.Struct, tag_field="type", tag=snake):
    """Base of every event body.  Subclass names become the `type` in snake case."""

    level: ClassVar[Level] = Level.NORMAL


class TopicPartition(NamedTuple):
    """A partition's name, as Kafka writes it: topic and number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
