"""Records of `__consumer_offsets`, compared with bytes written by Kafka 3.9.1's classes."""

from __future__ import annotations

import pytest

from zabka.broker_sim.groups.records import (
    GroupKey,
    OffsetAndMetadata,
    OffsetKey,
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

OFFSET_KEY = bytes.fromhex("000100016700017400000003")
GROUP_KEY = bytes.fromhex("0002000167")
OFFSETS = {
    0: "0000000000000000004d00016d00000000000003e8",
    1: "0001000000000000004d00016d00000000000003e800000000000007d0",
    2: "0002000000000000004d00016d00000000000003e8",
    3: "0003000000000000004d0000000500016d00000000000003e8",
    4: "0004000000000000004d00000005026d00000000000003e800",
}
_HEAD = "0008636f6e73756d657200000004000572616e676500026d31"
GROUPS = {
    0: f"0000{_HEAD}0000000100026d3100016300022f68000000090000000201020000000103",
    1: f"0001{_HEAD}0000000100026d3100016300022f6800000008000000090000000201020000000103",
    2: f"0002{_HEAD}00000000000004d20000000100026d3100016300022f6800000008000000090000000201020000000103",
    3: f"0003{_HEAD}00000000000004d20000000100026d3100016900016300022f6800000008000000090000000201020000000103",
    4: "000409636f6e73756d6572000000040672616e6765036d3100000000000004d202036d3102690263032f68"
    "000000080000000903010202030000",
}
EMPTY_GROUP = "00030008636f6e73756d657200000005ffffffff00000000000004d200000000"

MEMBER = StoredMember(
    member_id="m1",
    group_instance_id="i",
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=8,
    session_timeout_ms=9,
    subscription=b"\x01\x02",
    assignment=b"\x03",
)
GROUP = StoredGroup("consumer", 4, "range", "m1", 1234, (MEMBER,))


def test_offset_and_group_keys_are_encoded_as_in_kafka() -> None:
    assert offset_key("g", TopicPartition("t", 3)) == OFFSET_KEY
    assert group_key("g") == GROUP_KEY
    assert read_key(OFFSET_KEY) == OffsetKey("g", TopicPartition("t", 3))
    assert read_key(b"\x00\x00" + OFFSET_KEY[2:]) == OffsetKey("g", TopicPartition("t", 3))
    assert read_key(GROUP_KEY) == GroupKey("g")


def test_key_of_an_unknown_version_decodes_to_none() -> None:
    assert read_key(b"\x00\x03\x00\x01g") is None


@pytest.mark.parametrize("version", OFFSETS)
def test_offset_values_of_every_version_are_decoded(version: int) -> None:
    expire = 2000 if version == 1 else None
    expected = OffsetAndMetadata(77, 5 if version >= 3 else -1, "m", 1000, expire)
    assert read_offset(bytes.fromhex(OFFSETS[version])) == expected


@pytest.mark.parametrize("version", GROUPS)
def test_group_values_of_every_version_are_decoded(version: int) -> None:
    member = MEMBER._replace(
        group_instance_id="i" if version >= 3 else None, rebalance_timeout_ms=8 if version >= 1 else 9
    )
    expected = GROUP._replace(members=(member,), state_timestamp_ms=1234 if version >= 2 else None)
    assert read_group(bytes.fromhex(GROUPS[version])) == expected


def test_offset_and_group_values_are_encoded_as_in_kafka_3_9() -> None:
    assert offset_value(OffsetAndMetadata(77, 5, "m", 1000)).hex() == OFFSETS[3]
    assert offset_value(OffsetAndMetadata(77, -1, "m", 1000, 2000)).hex() == OFFSETS[1]
    assert group_value(GROUP).hex() == GROUPS[3]
    assert group_value(StoredGroup("consumer", 5, None, None, 1234, ())).hex() == EMPTY_GROUP


@pytest.mark.parametrize("text", [*OFFSETS.values(), *GROUPS.values()])
def test_truncated_or_unknown_record_is_rejected(text: str) -> None:
    data = bytes.fromhex(text)
    read = read_offset if text in OFFSETS.values() else read_group
    for size in range(len(data)):
        with pytest.raises(UnreadableRecord):
            read(data[:size])
    with pytest.raises(UnreadableRecord):
        read(b"\x00\x05" + data[2:])


@pytest.mark.parametrize(
    "group",
    [
        GROUP._replace(members=(MEMBER, MEMBER._replace(member_id="m2"))),
        GROUP._replace(members=(MEMBER, MEMBER._replace(group_instance_id="i2"))),
        GROUP._replace(leader_id="m2"),
        GROUP._replace(leader_id=None),
    ],
    ids=["a static member twice", "a member id twice", "a leader that is no member", "no leader"],
)
def test_inconsistent_group_record_is_rejected(group: StoredGroup) -> None:
    assert read_group(group_value(GROUP)) == GROUP
    with pytest.raises(UnreadableRecord):
        read_group(group_value(group))
