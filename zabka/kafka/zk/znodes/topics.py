"""Content of /brokers/topics/T: the topic id, and the replicas of the topic's partitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from zabka.kafka.topic_ids import is_topic_id
from zabka.kafka.zk.znodes.json_content import INT32_MAX, broker_ids, decode, encode, plain_number


def _without(ids: tuple[int, ...], gone: tuple[int, ...]) -> tuple[int, ...]:
    """Return `ids` in order, without the ids in `gone`.

    The time is linear, because a request may list a hundred thousand of each.
    """
    if not gone:
        return ids
    looked_up = frozenset(gone)
    return tuple([b for b in ids if b not in looked_up])


class ReplicaAssignment(NamedTuple):
    """Replicas of a partition, the preferred leader first. `adding` and `removing` are set during a reassignment."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def origin(self) -> tuple[int, ...]:
        """Replicas before the current reassignment."""
        return _without(self.replicas, self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """Replicas after the current reassignment."""
        return _without(self.replicas, self.removing)

    @property
    def is_being_reassigned(self) -> bool:
        """Whether the partition is being reassigned."""
        return bool(self.adding or self.removing)

    def reassign_to(self, target: Iterable[int]) -> ReplicaAssignment:
        """Return the assignment during a reassignment to the target replicas.

        The target may replace that of an ongoing reassignment (KIP-455).
        """
        replacement, origin = tuple(target), self.origin
        full = tuple(dict.fromkeys((*replacement, *origin)))
        return ReplicaAssignment(full, _without(full, origin), _without(full, replacement))

    def without(self, broker_id: int) -> ReplicaAssignment:
        """Return the assignment without the replica on that broker."""
        return ReplicaAssignment(*(tuple(b for b in ids if b != broker_id) for ids in self))


class TopicAssignment(NamedTuple):
    """Content of /brokers/topics/T. `topic_id` is None for a topic created before Kafka 2.8."""

    topic_id: str | None
    partitions: dict[int, ReplicaAssignment]


def encode_topic(topic: TopicAssignment) -> bytes:
    """Encode the content of /brokers/topics/T (TopicZNode, version 3, or 2 without a topic id)."""
    numbers = sorted(topic.partitions)
    value: dict[str, object] = {
        "version": 2 if topic.topic_id is None else 3,
        "partitions": {str(n): topic.partitions[n].replicas for n in numbers},
        "adding_replicas": {str(n): topic.partitions[n].adding for n in numbers if topic.partitions[n].adding},
        "removing_replicas": {str(n): topic.partitions[n].removing for n in numbers if topic.partitions[n].removing},
    }
    if topic.topic_id is not None:
        value["topic_id"] = topic.topic_id
    return encode(value)


def decode_topic(data: bytes | None) -> TopicAssignment | None:
    """Decode the content of /brokers/topics/T, versions 1 to 3; None if it is not valid."""
    value = decode(data)
    if value is None:
        return None
    replicas = _numbered(value.get("partitions"))
    adding = _numbered(value.get("adding_replicas", {}))
    removing = _numbered(value.get("removing_replicas", {}))
    if replicas is None or adding is None or removing is None:
        return None
    if any(not each or len(set(each)) != len(each) for each in replicas.values()):
        return None
    topic_id = value.get("topic_id")
    return TopicAssignment(
        topic_id if is_topic_id(topic_id) else None,
        {n: ReplicaAssignment(replicas[n], adding.get(n, ()), removing.get(n, ())) for n in sorted(replicas)},
    )


def _numbered(value: object) -> dict[int, tuple[int, ...]] | None:
    if not isinstance(value, dict):
        return None
    found: dict[int, tuple[int, ...]] = {}
    for name, listed in value.items():
        ids, number = broker_ids(listed), plain_number(name, INT32_MAX)
        if ids is None or number is None:
            return None
        found[number] = ids
    return found
