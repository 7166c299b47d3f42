"""Our broker returns the same responses as an Apache Kafka 3.9.1 broker in ZooKeeper mode to the same requests."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kio.serial import entity_writer

from bench.free_ports import free_ports
from tests.interop.interop_brokers import broker_cluster
from tests.interop.interop_servers import running
from tests.interop.kafka_jars import classpath
from tests.interop.kafka_tools import alone
from tests.interop.real_kafka import KafkaServer
from zabka.kafka.wire.api_versions import SUPPORTED
from zabka.kafka.wire.frames import FRAME_SIZE
from zabka.kafka.wire.kafka_schema import ApiKey, fill, request_class

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

SETTINGS: dict[str, object] = {
    "default_replication_factor": 1,
    "offsets_topic_replication_factor": 1,
    "transaction_state_log_replication_factor": 1,
    "transaction_state_log_min_isr": 1,
    "offsets_topic_num_partitions": 5,
    "group_initial_rebalance_delay_ms": 0,
    "log_retention_hours": 2,
    "min_insync_replicas": 1,
}
ADMIN = Path(__file__).parent / "kafka_jars" / "AdminAnswers.java"
ANSWER_S = 20.0
JAVA_S = 90.0
TOPIC = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": []}
PARTITIONS = {"name": "t", "partitions": [0]}
ACL = {"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:a", "host": "*"}
REQUESTS: list[tuple[ApiKey, dict[str, Any]]] = [
    (ApiKey.API_VERSIONS, {"client_software_name": "a", "client_software_version": "1"}),
    (ApiKey.SASL_HANDSHAKE, {"mechanism": "PLAIN"}),
    (ApiKey.SASL_AUTHENTICATE, {"auth_bytes": b"\0a\0b"}),
    (ApiKey.ENVELOPE, {"request_data": b"abc", "client_host_address": b"\x7f\0\0\1"}),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, {"group_id": "g", "subscribed_topic_names": ["t"], "topic_partitions": []}),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, {"group_ids": ["g", "h"], "include_authorized_operations": True}),
    (ApiKey.CREATE_DELEGATION_TOKEN, {"max_lifetime": 1, "owner_principal_type": "User", "owner_principal_name": "b"}),
    (ApiKey.RENEW_DELEGATION_TOKEN, {"hmac": b"x", "renew_period": 1}),
    (ApiKey.EXPIRE_DELEGATION_TOKEN, {"hmac": b"x", "expiry_time_period": 1}),
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": None}),
    (ApiKey.DESCRIBE_ACLS, {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}),
    (ApiKey.CREATE_ACLS, {"creations": [{**ACL, "operation": 3, "permission_type": 3}]}),
    (
        ApiKey.DELETE_ACLS,
        {"filters": [{"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}]},
    ),
    (ApiKey.UPDATE_FEATURES, {"feature_updates": [{"feature": "metadata.version", "max_version_level": 21}]}),
    (ApiKey.LIST_TRANSACTIONS, {"state_filters": ["Odd"]}),
    (ApiKey.WRITE_TXN_MARKERS, {"markers": [{"topics": [{"name": "none", "partition_indexes": [0]}]}]}),
    (ApiKey.LEADER_AND_ISR, {"controller_id": 9, "controller_epoch": 0}),
    (ApiKey.UPDATE_METADATA, {"controller_id": 9, "controller_epoch": 0}),
    (ApiKey.CREATE_TOPICS, {"topics": [{**TOPIC, "name": "bad name", "configs": []}]}),
    (ApiKey.CREATE_TOPICS, {"topics": [{**TOPIC, "configs": [{"name": "cleanup.policy", "value": "delete,"}]}]}),
    (ApiKey.FIND_COORDINATOR, {"key": "s", "key_type": 2, "coordinator_keys": ["s"]}),
    (ApiKey.FIND_COORDINATOR, {"key": "s", "key_type": 7, "coordinator_keys": ["s"]}),
]
"""Requests whose responses are the same on any cluster. Each is sent in every version."""
FIRST_COMPARED = {ApiKey.FIND_COORDINATOR: 1}
"""First version that is compared.

Version 0 of FindCoordinator has no key type and finds a group coordinator, whose address differs.
"""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Yield the addresses of a Kafka broker and of our broker."""
    classpath()
    directory = tmp_path_factory.mktemp("answers")
    for name in ("peers", "ours"):
        (directory / name).mkdir()
    with (
        running("ours", 1, directory / "peers") as ensemble,
        broker_cluster(directory / "ours", free_ports(1), **SETTINGS) as ours,
    ):
        kafka = KafkaServer(1, directory / "kafka", ensemble.hosts, **SETTINGS)
        try:
            kafka.start()
            ours.until(lambda: is_ready(kafka.address), ANSWER_S * 3)
            yield kafka.address, ours.bootstrap
        finally:
            kafka.kill()


def is_ready(address: str) -> bool:
    """Return whether the broker has become controller, so that it accepts UpdateFeatures."""
    try:
        answer = response_to(address, ApiKey.UPDATE_FEATURES, 1, {"feature_updates": []})
    except OSError:
        return False
    return answer is not None and b"correct controller" not in answer


def response_to(address: str, key: ApiKey, version: int, values: dict[str, Any]) -> bytes | None:
    """Return the bytes of the response after the correlation id, or None if the broker closes the connection."""
    message = fill(request_class(key, version), values)
    body = BytesIO()
    entity_writer(type(message))(body, message)
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\0\1c"
    frame = head + (b"\0" if message.__flexible__ else b"") + body.getvalue()
    host, port = address.split(":")
    with closing(socket.create_connection((host, int(port)), ANSWER_S)) as link, link.makefile("rb") as stream:
        link.sendall(FRAME_SIZE.pack(len(frame)) + frame)
        size = stream.read(FRAME_SIZE.size)
        return stream.read(FRAME_SIZE.unpack(size)[0])[4:] if size else None


@pytest.mark.parametrize(("key", "values"), REQUESTS)
def test_every_request_version_gets_the_same_bytes_as_from_kafka(
    brokers: tuple[str, str], key: ApiKey, values: dict[str, Any]
) -> None:
    lowest, highest = SUPPORTED[key]
    for version in range(FIRST_COMPARED.get(key, lowest), highest + 1):
        kafka, ours = (response_to(address, key, version, values) for address in brokers)
        assert kafka == ours, version


def test_java_client_reads_equal_responses_from_kafka_and_zabka(brokers: tuple[str, str]) -> None:
    kafka, ours = (
        subprocess.run(
            ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classpath(), str(ADMIN), address],
            capture_output=True, text=True, timeout=JAVA_S, check=False,
        ).stdout
        for address in brokers
    )  # fmt: skip
    assert kafka == ours
    assert "NullPointerException" not in ours
    assert "retention.ms=1000 DYNAMIC_TOPIC_CONFIG" in ours
    assert "log directories know their sizes: true" in ours


def test_java_sasl_client_gets_the_same_error_from_both_brokers(brokers: tuple[str, str], tmp_path: Path) -> None:
    settings = tmp_path / "sasl.properties"
    settings.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";\n'
    )
    for address in brokers:
        arguments = ("--bootstrap-server", address, "--command-config", str(settings), "--list")
        output = alone("org.apache.kafka.tools.TopicCommand", *arguments)
        assert re.search("Unexpected handshake request with client mechanism PLAIN, enabled mechanisms are", output)


def test_idempotent_producer_and_group_work_on_kafka_and_zabka(brokers: tuple[str, str]) -> None:
    for address in brokers:
        producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
        for number in range(100):
            producer.produce("idempotent", b"%d" % number)
        assert producer.flush(ANSWER_S) == 0
        consumer = Consumer({"bootstrap.servers": address, "group.id": "classic", "auto.offset.reset": "earliest"})
        consumer.subscribe(["idempotent"])
        found = consumer.consume(100, ANSWER_S)
        assert sum(message.error() is None for message in found) == 100
        consumer.commit(asynchronous=False)
        partitions = [TopicPartition("idempotent", number) for number in range(2)]
        assert sum(max(each.offset, 0) for each in consumer.committed(partitions, ANSWER_S)) == 100
        consumer.close()


def test_transactions_commit_and_fence_producers_in_both_systems(brokers: tuple[str, str]) -> None:
    for address in brokers:
        settings = {"bootstrap.servers": address, "transactional.id": "t"}
        producer, successor = Producer(settings), Producer(settings)
        producer.init_transactions(ANSWER_S)
        for commits in (True, False):
            producer.begin_transaction()
            producer.produce("transactional", b"%r" % commits)
            producer.commit_transaction(ANSWER_S) if commits else producer.abort_transaction(ANSWER_S)
        successor.init_transactions(ANSWER_S)
        with pytest.raises(KafkaException) as refused:
            producer.begin_transaction()
            producer.produce("transactional", b"zombie")
            producer.commit_transaction(ANSWER_S)
        assert refused.value.args[0].fatal()
