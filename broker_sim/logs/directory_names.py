"""Names of replica directories: `topic-N`, `topic-N.<unique>-future`, `topic-N.<unique>-delete` (LocalLog)."""

from __future__ import annotations

from zabka.journal.events import TopicPartition

FUTURE_SUFFIX = "-future"
"""Suffix of the directory of a replica that is being copied from another log directory."""
DELETE_SUFFIX = "-delete"
"""Suffix of the directory of a replica that is marked for deletion."""
LENGTH_MAX = 255
"""Maximum length of a file name in common file systems."""


def partition_of(directory_name: str) -> TopicPartition | None:
    """Return the partition of a replica directory (topic-number), or None if the name has another form."""
    topic, dash, number = directory_name.rpartition("-")
    if not (dash and topic and number.isdigit() and number.isascii()) or str(int(number)) != number:
        return None
    return TopicPartition(topic, int(number))


def future_of(directory_name: str) -> TopicPartition | None:
    """Return the partition of a future replica's directory, or None for other names."""
    return _marked(directory_name, FUTURE_SUFFIX)


def is_deleted(directory_name: str) -> bool:
    """Return whether this is the directory of a replica that is marked for deletion."""
    return _marked(directory_name, DELETE_SUFFIX) is not None


def _marked(directory_name: str, suffix: str) -> TopicPartition | None:
    if not directory_name.endswith(suffix):
        return None
    name, dot, unique = directory_name.removesuffix(suffix).rpartition(".")
    return partition_of(name) if dot and unique else None


def future_name(topic_partition: TopicPartition, unique: str) -> str:
    """Return the directory name of a future replica.

    With a long topic name, the directory name exceeds the limit of file systems (KAFKA-4893); see `has_future_name`.
    """
    return f"{topic_partition}.{unique}{FUTURE_SUFFIX}"


def has_future_name(topic_partition: TopicPartition) -> bool:
    """Return whether the directory name of a future replica, with a unique part of 32 characters, is short enough."""
    return len(future_name(topic_partition, "u" * 32)) <= LENGTH_MAX


def delete_name(topic_partition: TopicPartition, unique: str) -> str:
    """Return the directory name of a replica that is marked for deletion. A long topic name is shortened."""
    rest = f"-{topic_partition.partition}.{unique}{DELETE_SUFFIX}"
    return topic_partition.topic[: LENGTH_MAX - len(rest)] + rest
