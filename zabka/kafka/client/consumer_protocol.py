"""Encodes and decodes the consumer data in group requests (ConsumerProtocol, protocol type "consumer").

These data are the topics to which a member subscribes, and the partitions that the group's leader assigns to a member.
This code writes version 0; from newer versions it reads only the part common to all versions.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from zabka.journal.events import TopicPartition

PROTOCOL_TYPE = "consumer"
NO_MEMBER = ""
"""Member id in the first JoinGroup request of a member, which has no id yet."""
NO_GENERATION = -1

_SHORT, _INT = struct.Struct(">h"), struct.Struct(">i")
_VERSION = 0
_NO_USER_DATA = -1


class BadConsumerProtocol(Exception):
    """The bytes are not a valid subscription or assignment."""


def _string(text: str) -> bytes:
    data = text.encode()
    return _SHORT.pack(len(data)) + data


def encode_subscription(topics: Sequence[str]) -> bytes:
    """Encode the subscription that a member sends when it joins."""
    names = b"".join(_string(topic) for topic in topics)
    return _SHORT.pack(_VERSION) + _INT.pack(len(topics)) + names + _INT.pack(_NO_USER_DATA)


def encode_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    """Encode the partitions that the group's leader assigns to a member."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    body = b"".join(
        _string(topic) + _INT.pack(len(numbers)) + b"".join(_INT.pack(number) for number in numbers)
        for topic, numbers in topics.items()
    )
    return _SHORT.pack(_VERSION) + _INT.pack(len(topics)) + body + _INT.pack(_NO_USER_DATA)


def _numbers(data: bytes, position: int, form: struct.Struct) -> tuple[int, int]:
    if position + form.size > len(data):
        raise BadConsumerProtocol("cut short")
    (number,) = form.unpack_from(data, position)
    return int(number), position + form.size


def _text(data: bytes, position: int) -> tuple[str, int]:
    size, position = _numbers(data, position, _SHORT)
    if size < 0 or position + size > len(data):
        raise BadConsumerProtocol("cut short")
    try:
        return data[position : position + size].decode(), position + size
    except UnicodeDecodeError:
        raise BadConsumerProtocol("a topic's name is not UTF-8") from None


def _count(data: bytes, position: int) -> tuple[int, int]:
    version, position = _numbers(data, position, _SHORT)
    if version < 0:
        raise BadConsumerProtocol(f"version {version}")
    count, position = _numbers(data, position, _INT)
    if not 0 <= count <= len(data):
        raise BadConsumerProtocol(f"{count} topics")
    return count, position


def decode_subscription(data: bytes) -> tuple[str, ...]:
    """Return the topics that a member subscribes to.  Raises BadConsumerProtocol."""
    count, position = _count(data, 0)
    topics = []
    for _ in range(count):
        topic, position = _text(data, position)
        topics.append(topic)
    return tuple(topics)


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions assigned to a member; none for an empty assignment. Raises BadConsumerProtocol."""
    if not data:
        return ()
    count, position = _count(data, 0)
    partitions = []
    for _ in range(count):
        topic, position = _text(data, position)
        size, position = _numbers(data, position, _INT)
        if not 0 <= size <= len(data):
            raise BadConsumerProtocol(f"{size} partitions")
        for _ in range(size):
            number, position = _numbers(data, position, _INT)
            partitions.append(TopicPartition(topic, number))
    return tuple(partitions)


def assign_ranges(
    subscriptions: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Assign partitions as Kafka's RangeAssignor does.

    For each topic, the members in the order of their ids get consecutive partitions, the same number each. If there is
    a remainder, each of the first members gets one partition more.
    """
    given: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    for topic in sorted(partition_counts):
        members = sorted(member for member, topics in subscriptions.items() if topic in topics)
        if not members:
            continue
        share, more = divmod(partition_counts[topic], len(members))
        begin = 0
        for index, member in enumerate(members):
            end = begin + share + (1 if index < more else 0)
            given[member] += [TopicPartition(topic, number) for number in range(begin, end)]
            begin = end
    return given
