"""Producers with a transactional id, which these brokers do not serve: each client says so at once."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TransactionalIdAuthorizationFailed
from confluent_kafka import KafkaException, Producer

from tests.interop.interop_brokers import BrokerCluster, broker_cluster
from tests.interop.kafka_tools import alone

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function of importlib.resources that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer
    from kafka.errors import TransactionalIdAuthorizationFailedError

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")]

PATIENCE_S = 30
"""What the clients would wait for a coordinator that is still to come."""
AT_ONCE_S = 10
SAID = "Transactions are not supported by this broker."


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    with broker_cluster(tmp_path_factory.mktemp("transactional")) as running:
        yield running


@pytest.fixture(autouse=True)
def at_once(cluster: BrokerCluster) -> Iterator[None]:
    before = time.monotonic()
    yield
    assert time.monotonic() - before < AT_ONCE_S


def test_librdkafka(cluster: BrokerCluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "t"})
    with pytest.raises(KafkaException, match=SAID) as refused:
        producer.init_transactions(PATIENCE_S)
    assert refused.value.args[0].fatal()


def test_kafka_python(cluster: BrokerCluster) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id="t", max_block_ms=PATIENCE_S * 1_000)
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        producer.init_transactions()
    producer.close(timeout=1)


def test_aiokafka(cluster: BrokerCluster) -> None:
    async def start() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id="t")
        try:
            await asyncio.wait_for(producer.start(), PATIENCE_S)
        finally:
            await producer.stop()

    with pytest.raises(TransactionalIdAuthorizationFailed):
        asyncio.run(start())


def test_javas_client(cluster: BrokerCluster) -> None:
    said = alone(
        "org.apache.kafka.tools.ProducerPerformance", "--topic", "t", "--num-records", "1", "--record-size", "1",
        "--throughput", "-1", "--transactional-id", "t", "--transaction-duration-ms", "100",
        "--producer-props", f"bootstrap.servers={cluster.bootstrap}",
    )  # fmt: skip
    assert "TransactionalIdAuthorizationException: Transactional Id authorization failed." in said
