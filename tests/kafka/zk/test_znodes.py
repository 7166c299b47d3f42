"""Kafka's znodes byte for byte (reference table 1.2), and how invalid bytes are handled."""

from __future__ import annotations

import pytest

from zabka.journal.events import TopicPartition
from zabka.kafka.topic_ids import is_topic_id, random_topic_id, topic_id_from_kafka, topic_id_to_kafka
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import BrokerEndpoint, BrokerInfo, LeaderAndIsr, ReplicaAssignment, TopicAssignment

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def test_controller_and_epoch_znodes_have_kafkas_format() -> None:
    assert znodes.encode_controller(1, 1700000000000) == (
        b'{"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}'
    )
    assert znodes.decode_controller(b'{"version":1,"brokerid":7,"timestamp":"1"}') == 7
    assert znodes.encode_controller_epoch(5) == b"5"
    assert znodes.decode_controller_epoch(b"12") == 12


def test_broker_registration_can_contain_a_rack() -> None:
    info = BrokerInfo(1, (BrokerEndpoint("PLAINTEXT", "h", 9092),), "r1")
    with_rack = (
        b'{"version":5,"host":"h","port":9092,"jmx_port":-1,"timestamp":"17","endpoints":["PLAINTEXT://h:9092"],'
        b'"rack":"r1","listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"features":{}}'
    )
    assert znodes.encode_broker(info, 17) == with_rack
    assert znodes.encode_broker(info._replace(rack=None), 17) == with_rack.replace(b'"rack":"r1",', b"")
    assert znodes.decode_broker(1, with_rack) == info


def test_features_in_broker_registration_contain_the_log_state() -> None:
    info = BrokerInfo(1, (BrokerEndpoint("PLAINTEXT", "h", 9092),), features=(("f", 1, 3),), log_intact=True)
    data = znodes.encode_broker(info, 1)
    assert b'"features":{"f":{"min_version":1,"max_version":3},"zabka.log.intact":{"min_version":1,"max_v' in data
    assert znodes.decode_broker(1, data) == info
    not_sure = info._replace(log_intact=False)
    assert znodes.decode_broker(1, znodes.encode_broker(not_sure, 1)) == not_sure


def test_broker_endpoints_can_have_listener_names_and_ipv6() -> None:
    info = BrokerInfo(2, (BrokerEndpoint("INSIDE", "::1", 1, "SSL"), BrokerEndpoint("OUT", "h", 2, "PLAINTEXT")))
    data = znodes.encode_broker(info, 1)
    assert b'"endpoints":["INSIDE://[::1]:1","OUT://h:2"]' in data
    assert b'"host":"h","port":2' in data
    assert znodes.decode_broker(2, data) == info
    only_ssl = info._replace(endpoints=info.endpoints[:1])
    assert b'"host":null,"port":-1' in znodes.encode_broker(only_ssl, 1)


def test_broker_znodes_of_old_versions_are_decoded() -> None:
    old = b'{"jmx_port":-1,"timestamp":"1","host":"h","version":1,"port":9092}'
    assert znodes.decode_broker(3, old) == BrokerInfo(3, (BrokerEndpoint("PLAINTEXT", "h", 9092),))


def test_topic_znode_has_partitions_in_numeric_order() -> None:
    rows = {10: ReplicaAssignment((2, 1)), 2: ReplicaAssignment((1, 2))}
    data = znodes.encode_topic(TopicAssignment(TOPIC_ID, rows))
    assert data == (
        b'{"version":3,"partitions":{"2":[1,2],"10":[2,1]},"adding_replicas":{},"removing_replicas":{},'
        b'"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ"}'
    )
    assert znodes.decode_topic(data) == TopicAssignment(TOPIC_ID, rows)


def test_topic_znodes_of_reassignments_and_version_1_are_decoded() -> None:
    rows = {0: ReplicaAssignment((3, 1), (3,), (1,))}
    data = znodes.encode_topic(TopicAssignment(None, rows))
    assert data == (b'{"version":2,"partitions":{"0":[3,1]},"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}')
    assert znodes.decode_topic(data) == TopicAssignment(None, rows)
    assert znodes.decode_topic(b'{"version":1,"partitions":{"0":[1]}}') == TopicAssignment(
        None, {0: ReplicaAssignment((1,))}
    )


def test_partition_state_has_recovery_field_only_if_recovering() -> None:
    state = LeaderAndIsr(1, 0, (1, 2), 1)
    plain = b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1,2]}'
    assert znodes.encode_partition_state(state) == plain
    recovering = plain[:-1] + b',"leader_recovery_state":1}'
    assert znodes.encode_partition_state(state._replace(recovering=True)) == recovering
    assert znodes.decode_partition_state(plain, 4) == state._replace(partition_epoch=4)
    assert znodes.decode_partition_state(recovering, 0) == state._replace(recovering=True)
    shuffled = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'
    assert znodes.decode_partition_state(shuffled, 0) == state


def test_znodes_of_partition_sets_and_events_match_kafka() -> None:
    partitions = [TopicPartition("T", 0), TopicPartition("U", 3)]
    data = znodes.encode_partition_set(partitions)
    assert data == (b'{"version":1,"partitions":[{"topic":"T","partition":0},{"topic":"U","partition":3}]}')
    assert znodes.decode_partition_set(data) == partitions
    moves = b'{"version":1,"partitions":[{"topic":"T","partition":0,"replicas":[3,4]}]}'
    assert znodes.encode_reassignments({TopicPartition("T", 0): (3, 4)}) == moves
    assert znodes.decode_reassignments(moves) == {TopicPartition("T", 0): (3, 4)}
    assert znodes.encode_log_dir_event(2) == b'{"version":1,"broker":2,"event":1}'
    assert znodes.decode_log_dir_event(znodes.encode_log_dir_event(2)) == 2
    assert znodes.encode_config({"k": "v"}) == b'{"version":1,"config":{"k":"v"}}'
    assert znodes.decode_config(b'{"version":1,"config":{"k":"v"}}') == {"k": "v"}
    assert znodes.encode_config_change("topics/T") == b'{"version":2,"entity_path":"topics/T"}'
    assert znodes.decode_config_change(b'{"version":2,"entity_path":"topics/T"}') == "topics/T"
    assert znodes.encode_cluster_id("x" * 22) == b'{"version":"1","id":"' + b"x" * 22 + b'"}'
    assert znodes.decode_cluster_id(znodes.encode_cluster_id("abc")) == "abc"
    block = b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    assert znodes.encode_producer_id_block(1, 0, 999) == block
    assert znodes.decode_producer_id_block(block) == (1, 0, 999)


@pytest.mark.parametrize(
    "garbage", [None, b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"version":true}', b"12"]
)
def test_znode_that_is_not_a_json_object_decodes_to_none(garbage: bytes | None) -> None:
    assert znodes.decode_controller(garbage) is None
    assert znodes.decode_broker(1, garbage) is None
    assert znodes.decode_topic(garbage) is None
    assert znodes.decode_partition_state(garbage, 0) is None
    assert znodes.decode_partition_set(garbage) is None
    assert znodes.decode_reassignments(garbage) is None
    assert znodes.decode_log_dir_event(garbage) is None
    assert znodes.decode_config(garbage) is None
    assert znodes.decode_config_change(garbage) is None
    assert znodes.decode_cluster_id(garbage) is None
    assert znodes.decode_producer_id_block(garbage) is None


@pytest.mark.parametrize(
    "topic",
    [
        b'{"partitions":{"0":[]}}',
        b'{"partitions":{"0":[1,1]}}',
        b'{"partitions":{"x":[1]}}',
        b'{"partitions":{"0":["1"]}}',
        b'{"partitions":{"0":[true]}}',
        b'{"partitions":[1]}',
    ],
)
def test_invalid_assignment_znode_decodes_to_none(topic: bytes) -> None:
    assert znodes.decode_topic(topic) is None


@pytest.mark.parametrize(
    "row",
    [
        b"1",
        b'{"topic":"T","partition":0}',
        b'{"topic":"T","partition":-1,"replicas":[1]}',
        b'{"topic":"T","partition":true,"replicas":[1]}',
        b'{"topic":7,"partition":0,"replicas":[1]}',
        b'{"topic":"T","partition":0,"replicas":["1"]}',
        b'{"topic":"T","partition":0,"replicas":[-2]}',
    ],
)
def test_invalid_reassignment_znode_decodes_to_none(row: bytes) -> None:
    assert znodes.decode_reassignments(b'{"version":1,"partitions":[' + row + b"]}") is None


@pytest.mark.parametrize("epoch", [b"-1", b"1.5", b"", None, b"x", "²".encode(), b"9" * 30])
def test_non_numeric_controller_epoch_decodes_to_none(epoch: bytes | None) -> None:
    assert znodes.decode_controller_epoch(epoch) is None


def test_topic_ids_of_22_characters_convert_to_uuids_and_back() -> None:
    from random import Random

    random = Random(1)
    for _ in range(200):
        text = random_topic_id(random)
        assert is_topic_id(text) and not text.startswith("-")
        value = topic_id_to_kafka(text)
        assert value.version == 4
        assert topic_id_from_kafka(value) == text
    assert topic_id_to_kafka(None) is None and topic_id_from_kafka(None) is None
    assert not is_topic_id("short") and not is_topic_id(None) and not is_topic_id("ä" * 22)
