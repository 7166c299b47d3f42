"""Configurations with which clients connect to a live cluster. A simulated world has no such configuration."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from zabka.testing import ClusterFailed, LiveCluster, running_world

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function of importlib.resources that is deprecated in Python 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
def test_each_client_library_connects_with_its_client_config(zabka_cluster: LiveCluster) -> None:
    async def send_with_aiokafka(config: dict[str, Any]) -> None:
        async with AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait("orders", b"aiokafka")

    zabka_cluster.topics.create("orders")
    librdkafka = Producer(zabka_cluster.client_config("confluent"))
    librdkafka.produce("orders", b"confluent")
    assert librdkafka.flush(10) == 0
    kafka_python = KafkaProducer(**zabka_cluster.client_config("kafka-python"))
    kafka_python.send("orders", b"kafka-python").get(10)
    kafka_python.close()
    asyncio.run(send_with_aiokafka(zabka_cluster.client_config("aiokafka")))

    # By default, two of these producers use acks=1.
    sent = ["confluent", "kafka-python", "aiokafka"]
    zabka_cluster.until(lambda: zabka_cluster.consume("orders") == sent)
    assert zabka_cluster.client_config("java") == {"bootstrap.servers": zabka_cluster.bootstrap}
    with pytest.raises(ValueError, match="'ruby' is not one of confluent, aiokafka, kafka-python, java"):
        zabka_cluster.client_config("ruby")  # type: ignore[arg-type]


def test_simulated_cluster_has_no_network_addresses() -> None:
    with running_world(peers=1, brokers=1) as world:
        for address in ("bootstrap", "zookeeper_connect"):
            with pytest.raises(ClusterFailed, match="use the fixture zabka_cluster"):
                getattr(world, address)
        with pytest.raises(ClusterFailed, match="simulated world has no network"):
            world.client_config("java")
