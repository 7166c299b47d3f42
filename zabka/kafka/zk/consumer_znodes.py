"""Znodes of the old ZooKeeper consumers, under `/consumers` (kafka.utils.ZkUtils up to Kafka 2.0).

They contain a group's offsets, its members, and the owners of partitions. Offsets and owners are plain strings; a
member's znode is JSON. Version 0 of OffsetCommit and OffsetFetch also uses the znodes under `offsets`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from zabka.ensemble.errors import ErrorCode, error_for
from zabka.journal.events import TopicPartition
from zabka.kafka.zk.coordination import Zk
from zabka.kafka.zk.registration import create_recursive

CONSUMERS = "/consumers"


def offset_path(group_id: str, topic_partition: TopicPartition) -> str:
    """Return the path of the znode with a group's offset for a partition."""
    return f"{CONSUMERS}/{group_id}/offsets/{topic_partition.topic}/{topic_partition.partition}"


def members_path(group_id: str) -> str:
    """Return the path under which a group's live members have their ephemeral znodes."""
    return f"{CONSUMERS}/{group_id}/ids"


def owners_path(group_id: str, topic: str) -> str:
    """Return the path under which a group has the ephemeral znodes with the owners of a topic's partitions."""
    return f"{CONSUMERS}/{group_id}/owners/{topic}"


def owner_path(group_id: str, topic_partition: TopicPartition) -> str:
    """Return the path of the ephemeral znode with the owner of a partition."""
    return f"{owners_path(group_id, topic_partition.topic)}/{topic_partition.partition}"


def encode_member(topics: Mapping[str, int], timestamp_ms: int) -> bytes:
    """Encode the content of a member's znode: its topics, with the number of threads (streams) for each."""
    value = {"version": 1, "subscription": dict(topics), "pattern": "static", "timestamp": str(timestamp_ms)}
    return json.dumps(value, separators=(",", ":")).encode()


def decode_member(data: bytes | None) -> dict[str, int] | None:
    """Decode the content of a member's znode: its topics with the number of threads; None if it is not valid."""
    try:
        value: Any = json.loads(data or b"")
    except ValueError:
        return None
    subscription = value.get("subscription") if isinstance(value, dict) else None
    if not isinstance(subscription, dict):
        return None
    return {topic: n for topic, n in subscription.items() if isinstance(n, int) and not isinstance(n, bool) and n > 0}


def decode_offset(data: bytes | None) -> int | None:
    """Decode a stored offset; None if the data is not a number."""
    text = (data or b"").strip()
    digits = text.removeprefix(b"-")
    return int(text) if digits.isdigit() and len(digits) <= 19 else None


async def read_offset(zk: Zk, group_id: str, topic_partition: TopicPartition) -> int | None:
    """Return a group's offset for a partition, None if there is none. Raises ZooKeeperError."""
    outcome = await zk.attempt(lambda: zk.service.get(offset_path(group_id, topic_partition)))
    if outcome.error is ErrorCode.NO_NODE:
        return None
    if outcome.error is not ErrorCode.OK or outcome.value is None:
        raise error_for(outcome.error)
    return decode_offset(outcome.value[0])


async def write_offset(zk: Zk, group_id: str, topic_partition: TopicPartition, offset: int) -> None:
    """Store a group's offset for a partition; the last writer wins (setData -1, or create if the znode is missing).

    Raises ZooKeeperError.
    """
    path, data = offset_path(group_id, topic_partition), str(offset).encode()
    outcome = await zk.attempt(lambda: zk.service.set(path, data, -1))
    if outcome.error is ErrorCode.NO_NODE:
        if await create_recursive(zk, path, data):
            return
        outcome = await zk.attempt(lambda: zk.service.set(path, data, -1))
    if outcome.error is not ErrorCode.OK:
        raise error_for(outcome.error, path)
