"""Requests of administrators to the controller under /admin: preferred leader elections, and reassignments.

Leaders write a list of partitions in the same format under /isr_change_notification.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zabka.journal.events import TopicPartition
from zabka.kafka.zk.znodes.json_content import broker_ids, decode, encode, is_int32


def encode_partition_set(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode the content of /admin/preferred_replica_election and of an ISR change notification."""
    listed = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return encode({"version": 1, "partitions": listed})


def decode_partition_set(data: bytes | None) -> list[TopicPartition] | None:
    """Decode the partitions in order, without duplicates; None if the data is not valid."""
    value = decode(data)
    listed = value.get("partitions") if value else None
    if not isinstance(listed, list):
        return None
    found: dict[TopicPartition, None] = {}
    for each in listed:
        if not isinstance(each, dict):
            return None
        topic, partition = each.get("topic"), each.get("partition")
        if not isinstance(topic, str) or not isinstance(partition, int) or not is_int32(partition, 0):
            return None
        found[TopicPartition(topic, partition)] = None
    return list(found)


def encode_reassignments(targets: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    """Encode the content of /admin/reassign_partitions."""
    rows = [{"topic": p.topic, "partition": p.partition, "replicas": replicas} for p, replicas in targets.items()]
    return encode({"version": 1, "partitions": rows})


def decode_reassignments(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]] | None:
    """Decode the target replicas of each partition. If a partition occurs more than once, its last entry counts."""
    value = decode(data)
    listed = value.get("partitions") if value else None
    if not isinstance(listed, list):
        return None
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for each in listed:
        if not isinstance(each, dict):
            return None
        topic, partition, replicas = each.get("topic"), each.get("partition"), broker_ids(each.get("replicas"))
        if not isinstance(topic, str) or not isinstance(partition, int) or not is_int32(partition, 0):
            return None
        if replicas is None:
            return None
        found[TopicPartition(topic, partition)] = replicas
    return found
