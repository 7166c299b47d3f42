"""Producers with a transactional id, which brokers here do not support: each client reports that at once."""

from __future__ import annotations

import asyncio
import subprocess
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import UnsupportedVersionError
from confluent_kafka import KafkaException, Producer

from tests.interop.interop_brokers import BrokerCluster, broker_cluster, tool
from tests.interop.kafka_tools import alone

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function of importlib.resources that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")]

PATIENCE_S = 30
"""Time that the clients would wait for a coordinator that may still appear."""
AT_ONCE_S = 10
INSTALL_S = 60
KAFKAJS = "kafkajs@2.2.4"
TRANSACTIONAL_JS = """
const { Kafka, logLevel } = require('kafkajs')
const kafka = new Kafka({ clientId: 'js', brokers: process.argv.slice(2), logLevel: logLevel.NOTHING })
const producer = kafka.producer({ transactionalId: 't', maxInFlightRequests: 1, idempotent: true })
producer.connect()
  .then(() => producer.transaction())
  .catch(error => console.log(error.name, error.type, error.message))
  .finally(() => process.exit())
"""
MESSAGES = "Transactions are not supported by this broker."


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    with broker_cluster(tmp_path_factory.mktemp("transactional")) as running:
        yield running


@pytest.fixture
def at_once(cluster: BrokerCluster) -> Iterator[None]:
    before = time.monotonic()
    yield
    assert time.monotonic() - before < AT_ONCE_S


@pytest.mark.usefixtures("at_once")
def test_librdkafka_transactional_producer_reports_no_support(cluster: BrokerCluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "t"})
    with pytest.raises(KafkaException, match=MESSAGES) as refused:
        producer.init_transactions(PATIENCE_S)
    assert refused.value.args[0].fatal()


@pytest.mark.usefixtures("at_once")
def test_kafka_python_transactional_producer_reports_no_support(cluster: BrokerCluster) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id="t", max_block_ms=PATIENCE_S * 1_000)
    with pytest.raises(KafkaError, match="UnsupportedVersionError"):
        producer.init_transactions()
    producer.close(timeout=1)


@pytest.mark.usefixtures("at_once")
def test_aiokafka_transactional_producer_reports_no_support(cluster: BrokerCluster) -> None:
    async def start() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id="t")
        try:
            await asyncio.wait_for(producer.start(), PATIENCE_S)
        finally:
            await producer.stop()

    with pytest.raises(UnsupportedVersionError):
        asyncio.run(start())


@pytest.mark.usefixtures("at_once")
def test_java_transactional_producer_reports_no_support(cluster: BrokerCluster) -> None:
    output = alone(
        "org.apache.kafka.tools.ProducerPerformance", "--topic", "t", "--num-records", "1", "--record-size", "1",
        "--throughput", "-1", "--transactional-id", "t", "--transaction-duration-ms", "100",
        "--producer-props", f"bootstrap.servers={cluster.bootstrap}",
    )  # fmt: skip
    assert (
        f"Could not find a coordinator with type TRANSACTION with key t due to unexpected error: {MESSAGES}" in output
    )


def test_kafkajs_transactional_producer_reports_no_support(cluster: BrokerCluster, tmp_path: Path) -> None:
    node, npm = tool("node"), tool("npm")
    install = [npm, "install", "--prefix", str(tmp_path), "--no-audit", "--no-fund", KAFKAJS]
    if subprocess.run(install, capture_output=True, timeout=INSTALL_S, check=False).returncode:
        pytest.skip(f"{KAFKAJS} cannot be fetched")
    script = tmp_path / "transactional.js"
    script.write_text(TRANSACTIONAL_JS)
    before = time.monotonic()
    ran = subprocess.run(
        [node, str(script), *cluster.bootstrap.split(",")], capture_output=True, text=True, timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip
    assert ran.stdout.strip() == "KafkaJSProtocolError UNSUPPORTED_VERSION The version of API is not supported"
    assert time.monotonic() - before < AT_ONCE_S
