"""What replica directories are called: `topic-N`, `topic-N.<unique>-future`, `topic-N.<unique>-delete` (LocalLog)."""

from __future__ import annotations

from zabka.journal.events import TopicPartition

FUTURE_SUFFIX = "-future"
"""Of a replica that is being copied into another log directory."""
DELETE_SUFFIX = "-delete"
"""Of one that is about to go."""
LENGTH_MAX = 255
"""Of a name, as file systems have it."""


def partition_of(directory_name: str) -> TopicPartition | None:
    """The partition a replica directory belongs to (topic-number); None where the name is not of that form."""
    topic, dash, number = directory_name.rpartition("-")
    if not (dash and topic and number.isdigit() and number.isascii()) or str(int(number)) != number:
        return None
    return TopicPartition(topic, int(number))


def future_of(directory_name: str) -> TopicPartition | None:
    """The partition of which that is a replica on its way; None for other names."""
    return _marked(directory_name, FUTURE_SUFFIX)


def is_deleted(directory_name: str) -> bool:
    """Was that replica about to go?"""
    return _marked(directory_name, DELETE_SUFFIX) is not None


def _marked(directory_name: str, suffix: str) -> TopicPartition | None:
    if not directory_name.endswith(suffix):
        return None
    name, dot, unique = directory_name.removesuffix(suffix).rpartition(".")
    return partition_of(name) if dot and unique else None


def future_name(topic_partition: TopicPartition, unique: str) -> str:
    """The name of a replica on its way; longer than a name may be where the topic's is long (KAFKA-4893)."""
    return f"{topic_partition}.{unique}{FUTURE_SUFFIX}"


def has_future_name(topic_partition: TopicPartition) -> bool:
    """Is there a name for a replica of it on its way, whatever makes it unique (32 characters)?"""
    return len(future_name(topic_partition, "u" * 32)) <= LENGTH_MAX


def delete_name(topic_partition: TopicPartition, unique: str) -> str:
    """The name of a replica that is about to go; a long topic's is cut."""
    rest = f"-{topic_partition.partition}.{unique}{DELETE_SUFFIX}"
    return topic_partition.topic[: LENGTH_MAX - len(rest)] + rest
