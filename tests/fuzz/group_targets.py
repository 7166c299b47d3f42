"""Consumer groups, as fuzz targets.

The inputs are records of `__consumer_offsets`, messages of group members, and znodes of ZooKeeper-based consumers.
"""

from __future__ import annotations

from contextlib import suppress

from tests.fuzz.choices import Target
from zabka.broker_sim.groups.log import GroupLog
from zabka.broker_sim.groups.records import (
    OffsetAndMetadata,
    StoredGroup,
    StoredMember,
    group_key,
    group_value,
    offset_key,
    offset_value,
    read_group,
    read_key,
    read_offset,
)
from zabka.broker_sim.record_reader import UnreadableRecord
from zabka.journal.events import TopicPartition
from zabka.kafka.client.consumer_protocol import (
    BadConsumerProtocol,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from zabka.kafka.record_batch import Record, build_batch
from zabka.kafka.zk.consumer_znodes import decode_member, decode_offset, encode_member

_PARTITION = TopicPartition("orders", 3)
_OFFSET = OffsetAndMetadata(7, 2, "note", 1_000)
_MEMBER = StoredMember("m-1", "i", "c", "/h", 8, 9, encode_subscription(["orders"]), encode_assignment([_PARTITION]))
_GROUP = StoredGroup("consumer", 4, "range", "m-1", 1_234, (_MEMBER,))


def group_records(data: bytes) -> None:
    """Decode record keys and values, alone and in batches that a group coordinator loads."""
    for read in (read_key, read_offset, read_group):
        with suppress(UnreadableRecord):
            read(data)
    records = [(data, data), (group_key("g"), data), (offset_key("g", _PARTITION), data), (data, None)]
    log = GroupLog()
    for _ in log.load_batches(build_batch([Record(key, value) for key, value in records])):
        pass
    for group in log.groups(1):
        assert group.group_id is not None


def consumer_protocol(data: bytes) -> None:
    """Decode subscriptions and assignments, which group members exchange through the coordinator."""
    for decode in (decode_subscription, decode_assignment):
        with suppress(BadConsumerProtocol):
            decode(data)


def consumer_znodes(data: bytes) -> None:
    """Decode the members and offsets in znodes of ZooKeeper-based consumers."""
    decode_member(data)
    decode_offset(data)


GROUP_TARGETS = {
    "group-records": Target(
        group_records,
        lambda: [
            offset_key("g", _PARTITION),
            group_key("g"),
            offset_value(_OFFSET),
            offset_value(_OFFSET._replace(expire_timestamp_ms=2_000)),
            group_value(_GROUP),
        ],
    ),
    "consumer-protocol": Target(
        consumer_protocol, lambda: [encode_subscription(["orders", "more"]), encode_assignment([_PARTITION])]
    ),
    "consumer-znodes": Target(consumer_znodes, lambda: [encode_member({"orders": 1}, 5), b"12"]),
}
