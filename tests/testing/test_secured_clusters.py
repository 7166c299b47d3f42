"""Secured clusters: each client library connects with its client config, and other clients are rejected."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any, get_args

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Producer

from zabka.testing import ClusterFailed, LiveCluster, running_cluster
from zabka.testing.live.secured import SaslMechanism, Security

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function of importlib.resources that is deprecated in Python 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

# aiokafka does not wait until its TLS connections are closed.
pytestmark = pytest.mark.filterwarnings(
    "ignore:(read|open)_text is deprecated:DeprecationWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore:unclosed:ResourceWarning",
)


def send_with_all(cluster: LiveCluster, topic: str, **options: Any) -> list[str]:
    """Send one record with each client library, and return the values."""

    async def send_with_aiokafka(config: dict[str, Any]) -> None:
        async with AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait(topic, b"aiokafka")

    cluster.topics.create(topic)
    librdkafka = Producer(cluster.client_config("confluent", **options))
    librdkafka.produce(topic, b"confluent")
    assert librdkafka.flush(30) == 0
    kafka_python = KafkaProducer(**cluster.client_config("kafka-python", **options))
    kafka_python.send(topic, b"kafka-python").get(30)
    kafka_python.close()
    asyncio.run(send_with_aiokafka(cluster.client_config("aiokafka", **options)))
    return ["confluent", "kafka-python", "aiokafka"]


def rejects_a_plain_client(cluster: LiveCluster) -> bool:
    errors: list[KafkaError] = []
    plain = Producer({"bootstrap.servers": cluster.bootstrap, "error_cb": errors.append, "log_level": 0})
    cluster.until(lambda: plain.poll(0.1) >= 0 and bool(errors))
    return all(error.code() != KafkaError.NO_ERROR for error in errors)


@pytest.mark.zabka(peers=1, brokers=2, secure="SASL_SSL")
def test_sasl_ssl_cluster_serves_every_library_and_mechanism(zabka_cluster: LiveCluster) -> None:
    for mechanism in get_args(SaslMechanism):
        topic = f"orders-{mechanism}"
        sent = send_with_all(zabka_cluster, topic, mechanism=mechanism, user="bob")
        zabka_cluster.until(lambda topic=topic, sent=sent: zabka_cluster.consume(topic) == sent)  # type: ignore[misc]
    assert rejects_a_plain_client(zabka_cluster)
    # The users are those of the cluster, so they stay after the reset before the next test.
    zabka_cluster.start_test()
    sent = send_with_all(zabka_cluster, "orders")
    zabka_cluster.until(lambda: zabka_cluster.consume("orders") == sent)


@pytest.mark.zabka(peers=1, brokers=2, secure="SASL_SSL")
def test_fault_selects_kafka_clients_by_their_principal(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("orders", partitions=1)
    refused = zabka_cluster.faults.on_request("Produce", principal="User:alice")
    refused.error("TOPIC_AUTHORIZATION_FAILED").until_removed()
    results: dict[str, list[KafkaError | None]] = {"alice": [], "bob": []}
    for user, errors in results.items():
        producer = Producer(zabka_cluster.client_config("confluent", user=user))
        producer.produce("orders", user.encode(), on_delivery=lambda error, _, errors=errors: errors.append(error))
        assert producer.flush(30) == 0
    (alice,), (bob,) = results.values()
    assert alice is not None and alice.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert bob is None
    assert zabka_cluster.consume("orders") == ["bob"]


@pytest.mark.zabka(peers=1, brokers=1, secure="SSL")
def test_ssl_cluster_requires_a_certificate(zabka_cluster: LiveCluster) -> None:
    sent = send_with_all(zabka_cluster, "orders")
    zabka_cluster.until(lambda: zabka_cluster.consume("orders") == sent)
    assert rejects_a_plain_client(zabka_cluster)


def test_sasl_plaintext_cluster_accepts_its_users() -> None:
    with running_cluster(peers=1, brokers=1, secure="SASL_PLAINTEXT") as cluster:
        sent = send_with_all(cluster, "orders")
        cluster.until(lambda: cluster.consume("orders") == sent)
        config = cluster.client_config("java", user="bob", mechanism="PLAIN")
        assert config == {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="bob" password="bob-secret";',
        }
        token = cluster.client_config("java", user="bob", mechanism="OAUTHBEARER")["sasl.jaas.config"]
        assert token.endswith('OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="bob";')
        for wrong in ({"user": "carol"}, {"mechanism": "GSSAPI"}):
            with pytest.raises(ValueError, match="is not one of"):
                cluster.client_config("java", **wrong)  # type: ignore[arg-type]


def test_unknown_security_protocol_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ClusterFailed, match="secure is one of SSL, SASL_SSL, SASL_PLAINTEXT, not 'TLS'"):
        Security("TLS", tmp_path)  # type: ignore[arg-type]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl cannot be found")
def test_certificates_of_a_cluster_are_pem_files_for_java(tmp_path: Path) -> None:
    """Java reads private keys only in PKCS 8."""
    Security("SSL", tmp_path)
    for name in ("broker", "alice", "bob"):
        text = (tmp_path / f"{name}.pem").read_text()
        assert text.startswith("-----BEGIN PRIVATE KEY-----\n") and text.count("BEGIN CERTIFICATE") == 1
        assert (tmp_path / f"{name}.pem").stat().st_mode & 0o777 == 0o600
        command = ["openssl", "verify", "-CAfile", str(tmp_path / "ca.pem"), str(tmp_path / f"{name}.pem")]
        assert subprocess.run(command, capture_output=True, check=True).stdout.strip().endswith(b": OK")
