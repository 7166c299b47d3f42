"""What consumers of the old kind keep in ZooKeeper, under `/consumers` (kafka.utils.ZkUtils up to Kafka 2.0): offsets,
who is in a group, and who owns which partition.

Offsets and owners are plain text; a member's znode is JSON.  `offsets` is also where version 0 of OffsetCommit and
OffsetFetch keep theirs.
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
    """Where a group's offset of a partition stands."""
    return f"{CONSUMERS}/{group_id}/offsets/{topic_partition.topic}/{topic_partition.partition}"


def members_path(group_id: str) -> str:
    """The ephemerals of a group's live members."""
    return f"{CONSUMERS}/{group_id}/ids"


def owners_path(group_id: str, topic: str) -> str:
    """The ephemerals that say who owns the partitions of a topic."""
    return f"{CONSUMERS}/{group_id}/owners/{topic}"


def owner_path(group_id: str, topic_partition: TopicPartition) -> str:
    """The ephemeral that says who owns a partition."""
    return f"{owners_path(group_id, topic_partition.topic)}/{topic_partition.partition}"


def encode_member(topics: Mapping[str, int], timestamp_ms: int) -> bytes:
    """A member: the topics it subscribes to, with the number of threads (streams) it has for each."""
    value = {"version": 1, "subscription": dict(topics), "pattern": "static", "timestamp": str(timestamp_ms)}
    return json.dumps(value, separators=(",", ":")).encode()


def decode_member(data: bytes | None) -> dict[str, int] | None:
    """The topics of a member with the number of its threads; None where the data is none."""
    try:
        value: Any = json.loads(data or b"")
    except ValueError:
        return None
    subscription = value.get("subscription") if isinstance(value, dict) else None
    if not isinstance(subscription, dict):
        return None
    return {topic: n for topic, n in subscription.items() if isinstance(n, int) and not isinstance(n, bool) and n > 0}


def decode_offset(data: bytes | None) -> int | None:
    """A stored offset; None where the data is no number."""
    text = (data or b"").strip()
    digits = text.removeprefix(b"-")
    return int(text) if digits.isdigit() and len(digits) <= 19 else None


async def read_offset(zk: Zk, group_id: str, topic_partition: TopicPartition) -> int | None:
    """A group's offset of a partition, None where there is none.  Raises ZooKeeperError."""
    outcome = await zk.attempt(lambda: zk.service.get(offset_path(group_id, topic_partition)))
    if outcome.error is ErrorCode.NO_NODE:
        return None
    if outcome.error is not ErrorCode.OK or outcome.value is None:
        raise error_for(outcome.error)
    return decode_offset(outcome.value[0])


async def write_offset(zk: Zk, group_id: str, topic_partition: TopicPartition, offset: int) -> None:
    """Keep a group's offset of a partition; whoever writes last has it (setData -1, made where it is missing).

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
