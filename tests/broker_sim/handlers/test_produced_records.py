"""Produced records from request to response, at a broker on virtual time.

tests/interop compares the results with Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.kafka.compression import CODECS, Codec
from zabka.kafka.message_set import Message, read_message, write_message
from zabka.kafka.record_batch import Record, build_batch, split_batches
from zabka.kafka.wire.kafka_schema import ApiKey, request

ROWS = [Record(b"k", b"v", 1_000), Record(b"k", b"w", 2_000)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(1, **{"log.message.timestamp.after.max.ms": "1"}).start()
    yield made
    made.stop_all()


def produce(cluster: Cluster, data: bytes, version: int = 9, acks: int = 1) -> Any:
    rows = [{"name": "t", "partition_data": [{"index": 0, "records": data}]}]
    values: dict[str, Any] = {"acks": acks, "timeout": 1_000, "topic_data": rows}
    answer = ask(cluster, request(ApiKey.PRODUCE, version, **values))
    return answer.responses[0].partition_responses[0]


def fetch(cluster: Cluster, version: int) -> Any:
    row = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    values: dict[str, Any] = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20}
    topics = [{"topic": "t", "partitions": [row]}]
    asked = request(ApiKey.FETCH, version, **values, session_epoch=-1, topics=topics)
    return ask(cluster, asked).responses[0].partitions[0]


def ask(cluster: Cluster, message: Any) -> Any:
    return cluster.run(cluster.nodes[1].broker.handle(message, "client", "PLAINTEXT"))


def topic(cluster: Cluster, **configs: str) -> None:
    keys = {key.replace("_", "."): value for key, value in configs.items()}
    cluster.run(cluster.client.create_topic("t", 1, 1, configs=keys))


def test_produce_error_has_the_index_of_the_invalid_record(cluster: Cluster) -> None:
    topic(cluster, cleanup_policy="compact", message_timestamp_after_max_ms=str(2**63 - 1))
    row = produce(cluster, build_batch([ROWS[0], Record(None, b"v", 1_000)]))
    assert row.error_code == ErrorCode.invalid_record
    (wrong,) = row.record_errors
    text = "Compacted topic cannot accept message without key in topic partition t-0"
    assert (wrong.batch_index, wrong.batch_index_error_message) == (1, text)
    assert row.error_message.endswith(f"[RecordError(batchIndex=1, message='{text}')]")


def test_broker_timestamp_limit_applies_to_topics_without_limit(cluster: Cluster) -> None:
    topic(cluster)
    row = produce(cluster, build_batch([Record(b"k", b"v", 1 << 50)]))
    assert row.error_code == ErrorCode.invalid_timestamp
    assert produce(cluster, build_batch(ROWS)).error_code == 0


@pytest.mark.parametrize("name", CODECS)
def test_broker_compresses_batches_with_the_codec_of_the_topic(cluster: Cluster, name: str) -> None:
    topic(cluster, compression_type=name)
    assert produce(cluster, build_batch(ROWS, codec=Codec.GZIP)).error_code == 0
    (header,) = split_batches(fetch(cluster, 11).records) or ()
    assert header.attributes == CODECS[name]


def test_client_older_than_0_11_produces_and_fetches(cluster: Cluster) -> None:
    topic(cluster)
    assert produce(cluster, write_message(Message(0, 1, 0, 1_000, b"k", b"v")), 2).error_code == 0
    for version, magic in ((0, 0), (1, 0), (2, 1), (3, 1)):
        data = bytes(fetch(cluster, version).records)
        message = read_message(data, 0, len(data))
        assert (message.magic, message.key, message.value) == (magic, b"k", b"v")
    assert len(split_batches(fetch(cluster, 4).records) or ()) == 1


def test_topic_can_forbid_message_down_conversion(cluster: Cluster) -> None:
    topic(cluster, message_downconversion_enable="false")
    assert produce(cluster, build_batch(ROWS)).error_code == 0
    assert fetch(cluster, 3).error_code == ErrorCode.unsupported_version
    assert fetch(cluster, 4).error_code == 0


def test_transactional_batch_in_a_plain_produce_is_rejected(cluster: Cluster) -> None:
    topic(cluster)
    data = bytearray(build_batch(ROWS))
    data[22] |= 0x10
    assert produce(cluster, bytes(data)).error_code == ErrorCode.transactional_id_authorization_failed
