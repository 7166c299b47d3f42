"""Invalid values in znodes: whatever a client writes, the controller keeps running and handles all other topics.

The tests run a whole cluster of brokers with a fake ensemble. A client writes an invalid value. Then the controller's
session expires, so that a new controller reads all znodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.journal.events import ControllerEventFailed, TopicPartition
from zabka.kafka.record_batch import Record
from zabka.kafka.zk import znodes

GOOD = TopicPartition("good", 0)
FOREIGN_SESSION = 0x666
"""Session id of the client that writes invalid values. It owns the client's ephemeral znodes."""

LAWFUL: dict[str, object] = {
    "/brokers/ids/9": {
        "version": 5,
        "host": "broker-1",
        "port": 9092,
        "jmx_port": -1,
        "timestamp": "1",
        "endpoints": ["PLAINTEXT://broker-1:9092"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "features": {},
    },
    "/brokers/topics/bad": {
        "version": 3,
        "partitions": {"0": [1, 2, 3], "1": [2, 3, 1]},
        "adding_replicas": {},
        "removing_replicas": {},
        "topic_id": "GAcujDW_SS2J6cYWYS52lg",
    },
    "/brokers/topics/b ä d": {"version": 2, "partitions": {"0": [1]}},
    "/brokers/topics/bad/partitions/0/state": {
        "version": 1,
        "leader": 2,
        "leader_epoch": 0,
        "controller_epoch": 1,
        "isr": [2, 3, 1],
    },
    "/config/topics/bad": {"version": 1, "config": {"min.insync.replicas": "2", "segment.bytes": "1024"}},
    "/config/brokers/<default>": {"version": 1, "config": {"unclean.leader.election.enable": "true"}},
    "/config/changes/config_change_0000000001": {"version": 2, "entity_path": "topics/bad"},
    "/admin/preferred_replica_election": {"version": 1, "partitions": [{"topic": "bad", "partition": 0}]},
    "/admin/reassign_partitions": {"version": 1, "partitions": [{"topic": "bad", "partition": 0, "replicas": [3, 1]}]},
    "/isr_change_notification/isr_change_0000000001": {
        "version": 1,
        "partitions": [{"topic": "bad", "partition": 0}],
    },
    "/log_dir_event_notification/log_dir_event_0000000001": {"version": 1, "broker": 1, "event": 1},
    "/latest_producer_id_block": {"version": 1, "broker": 1, "block_start": "0", "block_end": "999"},
    "/controller": {"version": 2, "brokerid": 1, "timestamp": "1", "kraftControllerEpoch": -1},
    "/feature": {"version": 2, "status": 1, "features": {"metadata.version": {"max_version_level": 3}}},
    "/admin/delete_topics/no such topic": {},
}

ODD = (
    *(None, True, -1, -2, 0, 2**31, 2**63, 2**100, 1.5, "", "x", "٣", "1" * 30, "\ud800", "a" * 100_000),
    *([], {}, [[]], [None], [1, 1], [2**31], ["1"], {"a": 1}, {"-1": [1]}, {"2147483648": [1]}, {"٣": [1]}),
    *({"0": [-5]}, {"0": [2**31]}, {"0": []}, {"0": "x"}, {"0": [1, 2, 3], "1": [9]}),
    *("PLAINTEXT://h:99999999", ["PLAINTEXT://h:99999999"], ["PLAINTEXT://:1"], ["\ud800://h:1"], ["X://h:٣"]),
)
RAW = (None, b"", b"\xff\xfe", b"{", b"[]", b"null", b"5", b"9" * 40, b"[" * 100_000, b"{}", b'{"version":99}')


def made_odd(lawful: object, random: Random) -> bytes | None:
    """Return a damaged copy of the znode's JSON: one or two values are removed or replaced, or it is no JSON at all."""
    if random.random() < 0.15:
        return random.choice(RAW)
    value = json.loads(json.dumps(lawful))
    for _ in range(random.choice((1, 2))):
        holder: Any = value
        while holder:
            key = random.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
            inside = holder[key]
            if isinstance(inside, dict | list) and inside and random.random() < 0.6:
                holder = inside
                continue
            if random.random() < 0.15:
                del holder[key]
            else:
                holder[key] = json.loads(json.dumps(random.choice(ODD)))
            break
    return json.dumps(value).encode()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster(3).start()
    for topic in ("good", "bad"):
        cluster.run(cluster.client.create_topic(topic, 2, 3))
    yield cluster
    cluster.stop_all()


def change_controller(cluster: Cluster) -> None:
    for node in cluster.nodes.values():
        if node.broker.controller.is_active:
            cluster.expire(node)
    cluster.wait(3_000)


def failures(cluster: Cluster) -> list[str]:
    return [event.problem for node in cluster.nodes.values() for event in node.of(ControllerEventFailed)]


def assert_others_are_served(cluster: Cluster) -> None:
    assert [node.broker.state for node in cluster.nodes.values()] == ["running"] * 3
    assert cluster.controller is not None
    assert cluster.run(cluster.client.produce(GOOD, [Record(None, b"x")])) >= 0
    cluster.run(cluster.client.create_topic("later", 1, 1))


@pytest.mark.parametrize("seed", range(100))
def test_invalid_znode_affects_only_the_entity_it_describes(cluster: Cluster, seed: int) -> None:
    random = Random(seed)
    for _ in range(random.choice((1, 1, 2, 3))):
        path = random.choice(list(LAWFUL))
        owner = FOREIGN_SESSION if path.startswith("/brokers/ids") else 0
        cluster.ensemble.put(path, made_odd(LAWFUL[path], random), owner=owner)
        cluster.wait(random.choice((0, 5, 300)))
    if random.random() < 0.7:
        change_controller(cluster)
    cluster.wait(1_500)
    # If /controller has no valid broker id, only an administrator can remove the znode. The removal starts an election.
    if znodes.CONTROLLER in cluster.ensemble.nodes:
        cluster.ensemble.delete(znodes.CONTROLLER)
    cluster.wait(1_500)
    assert_others_are_served(cluster)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/brokers/topics/bad", {"version": 3, "partitions": {"0": [1, 2**31, 2]}}),
        ("/brokers/topics/bad", {"version": 3, "partitions": {str(2**31): [1]}}),
        ("/brokers/topics/bad", {"version": 3, "partitions": {"0": [1]}, "adding_replicas": {"0": [2**63]}}),
        (
            "/brokers/topics/bad/partitions/0/state",
            {"version": 1, "leader": 2, "leader_epoch": 2**31 - 1, "controller_epoch": 1, "isr": [2, 3, 1]},
        ),
    ],
)
def test_out_of_range_numbers_do_not_stop_the_controller(cluster: Cluster, path: str, value: object) -> None:
    cluster.ensemble.put(path, json.dumps(value).encode())
    change_controller(cluster)
    assert any("not readable" in problem for problem in failures(cluster))
    assert_others_are_served(cluster)


HALF_A_PAIR = "\ud800"
"""Half of a surrogate pair. JSON can contain it, but Kafka requests and znodes cannot."""


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/brokers/ids/9", {"version": 3, "endpoints": ["PLAINTEXT://broker-1:9092"], "rack": HALF_A_PAIR}),
        ("/brokers/ids/9", {"version": 1, "host": HALF_A_PAIR, "port": 9092}),
        ("/feature", {"version": 2, "status": 1, "features": {HALF_A_PAIR: {"max_version_level": 1}}}),
        (
            "/admin/reassign_partitions",
            {
                "version": 1,
                "partitions": [
                    {"topic": HALF_A_PAIR, "partition": 0, "replicas": [1]},
                    {"topic": "good", "partition": 0, "replicas": [1, 2, 3]},
                ],
            },
        ),
    ],
)
def test_half_a_surrogate_in_a_string_does_not_stop_controller(cluster: Cluster, path: str, value: object) -> None:
    cluster.ensemble.put(path, json.dumps(value).encode(), owner=FOREIGN_SESSION if "ids" in path else 0)
    change_controller(cluster)
    assert any(f"{path} is not readable" in problem for problem in failures(cluster))
    assert_others_are_served(cluster)


LONG = "a" * 32_768
"""String that is one byte longer than a Kafka request can contain."""


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/brokers/ids/9", {"version": 3, "endpoints": ["PLAINTEXT://broker-1:9092"], "rack": LONG}),
        ("/brokers/ids/9", {"version": 3, "endpoints": [f"PLAINTEXT://{LONG}:9092"]}),
        ("/brokers/ids/9", {"version": 3, "endpoints": [f"{LONG}://broker-1:9092"]}),
        ("/brokers/ids/9", {"version": 1, "host": LONG, "port": 9092}),
        (f"/brokers/topics/{LONG}", {"version": 2, "partitions": {"0": [1]}}),
    ],
)
def test_string_too_long_for_the_protocol_is_not_sent(cluster: Cluster, path: str, value: object) -> None:
    cluster.ensemble.put(path, json.dumps(value).encode(), owner=FOREIGN_SESSION if "ids" in path else 0)
    change_controller(cluster)
    for node in cluster.nodes.values():
        assert [broker.broker_id for broker in node.broker.metadata.brokers()] == [1, 2, 3]
        assert node.broker.metadata.topics() == ["bad", "good"]
    assert_others_are_served(cluster)


@pytest.mark.parametrize("name", [str(2**31), "9" * 5_000, "\N{ARABIC-INDIC DIGIT THREE}", "x"])
def test_broker_registration_with_an_invalid_id_is_ignored(cluster: Cluster, name: str) -> None:
    cluster.ensemble.put(f"/brokers/ids/{name}", json.dumps(LAWFUL["/brokers/ids/9"]).encode(), owner=FOREIGN_SESSION)
    change_controller(cluster)
    assert failures(cluster) == []
    assert_others_are_served(cluster)


@pytest.mark.parametrize("epoch", [b"null", b"-5", b"9" * 40, b"\xff", str(2**31 - 1).encode()])
def test_invalid_controller_epoch_is_reported_until_corrected(cluster: Cluster, epoch: bytes) -> None:
    cluster.ensemble.put(znodes.CONTROLLER_EPOCH, epoch)
    change_controller(cluster)
    assert any("/controller_epoch holds no number" in problem for problem in failures(cluster))
    cluster.ensemble.put(znodes.CONTROLLER_EPOCH, b"7")
    cluster.wait(5_000)
    assert cluster.controller.broker.controller.controller_epoch == 8
    assert_others_are_served(cluster)


@pytest.mark.parametrize("block", [b"{}", b"garbage", znodes.encode_producer_id_block(1, 2**63 - 1000, 2**63 - 1)])
def test_producer_ids_are_not_reused_if_the_block_is_unreadable(cluster: Cluster, block: bytes) -> None:
    cluster.ensemble.put(znodes.LATEST_PRODUCER_ID_BLOCK, block)
    refused = cluster.refused(cluster.client.init_producer_id())
    assert refused is not None and refused[0] is ErrorCode.unknown_server_error
    assert_others_are_served(cluster)
