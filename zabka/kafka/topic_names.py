"""The rules for topic names (org.apache.kafka.common.internals.Topic)."""

from __future__ import annotations

import re

NAME_LENGTH_MAX = 249
TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", TRANSACTION_STATE})
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def invalid_name(topic: str) -> str | None:
    """Return why a topic name is invalid, in Kafka's words, or None if it is valid."""
    if not topic:
        return "Topic name is invalid: the empty string is not allowed"
    if topic in (".", ".."):
        return f"Topic name is invalid: '{topic}' is not allowed"
    if len(topic) > NAME_LENGTH_MAX:
        return f"Topic name is invalid: the length of '{topic}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if not _LEGAL.match(topic):
        return (
            f"Topic name is invalid: '{topic}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def collide(topic: str, other: str) -> bool:
    """Return whether the metric names of two topics collide.

    Metric names do not distinguish periods and underscores.
    """
    return topic.replace(".", "_") == other.replace(".", "_")
