"""What a topic may be called (org.apache.kafka.common.internals.Topic)."""

from __future__ import annotations

import re

NAME_LENGTH_MAX = 249
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def invalid_name(topic: str) -> str | None:
    """What is wrong with a topic's name, in Kafka's words; None where nothing is."""
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
    """Would the metric names of these two topics be the same?  Periods and underscores are one there."""
    return topic.replace(".", "_") == other.replace(".", "_")
