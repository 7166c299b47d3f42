"""kafka-go's own tests, from its Go module.

They run against a single zabka broker, because they expect a cluster of one broker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.free_ports import free_ports
from tests.interop.go_suites import Module, built, source
from tests.interop.interop_brokers import BrokerCluster, broker_cluster

KAFKA_GO = Module("github.com/segmentio/kafka-go", "v0.4.51")
KAFKA_VERSION = "3.7.0"
"""Newest Kafka version that these tests have requests for. Tests for newer versions need Kafka without ZooKeeper."""
SUITE_S = 600.0
PORT_OF_THE_SUITE = re.compile(r"\b9092\b")
PARALLEL = "16"
"""Number of tests that run in parallel.

The subtests of one test must run in parallel, however many processors there are.
"""
CALLS_NIL = "ends in the suite's own getOffsets, which calls a function that it has not set"
UNEVEN = "wants 12 of the 8 messages of one partition in three; it fails against Apache Kafka 3.9.1 too"
LEFT_OUT = {
    ".": {
        "TestClientCreateACLs": "there is no authorizer",
        "TestClientDeleteACLs": "there is no authorizer",
        "TestClientDescribeACLs": "there is no authorizer",
        "TestReaderConsumerGroup/consumer_group_commits_on_close": CALLS_NIL,
        "TestReaderConsumerGroup/consumer_group_rebalance": UNEVEN,
        "TestReaderConsumerGroup/verify_offset_committed": CALLS_NIL,
        "TestReaderConsumerGroup/verify_offset_committed_when_using_interval_committer": CALLS_NIL,
        "TestUnsupportedSASLMechanism": "there is no SASL",
        "TestWriter/writing_a_message_with_SASL_Plain_authentication": "there is no SASL",
    },
    "topics": {},
    "compress": {},
}
"""Tests that are not run, with the reason, for each package.

Package sasl is omitted, because the broker has no SASL.
"""
TRANSACTIONS = {
    "TestClientAddOffsetsToTxn",
    "TestClientAddPartitionsToTxn",
    "TestClientInitProducerId",
    "TestClientTxnOffsetCommit",
}
NO_STATIC_MEMBER = "TestClientTxnOffsetCommit"
"""Test that commits offsets with a group instance id that no member has.

Kafka 3.9 also replies UNKNOWN_MEMBER_ID.
"""
OLDER_VERSION = "2.8.1"
"""Kafka version reported to the tests, so that they run their transaction tests.

They skip these for Kafka 3.0 and later. The tests send no requests newer than this version.
"""
PASSED_OVER = {
    ".": {
        **dict.fromkeys(TRANSACTIONS, "skipped for Kafka 3.0 and later; a test of ours runs them"),
        "TestConsumerGroupWithMissingTopic": "skipped everywhere: it wants brokers that do not create topics",
        "TestReadTruncatedMessages": "skipped everywhere: it has succeeded against Kafka 0.10.1 only",
    },
    "topics": {},
    "compress": {},
}
"""Tests that kafka-go itself skips."""
PASSED_MIN = {".": 140, "topics": 1, "compress": 1}

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    (port,) = free_ports(1)
    settings = {
        "advertised_listeners": f"PLAINTEXT://localhost:{port}",
        "num_partitions": 1,
        "default_replication_factor": 1,
        "offsets_topic_replication_factor": 1,
        "transaction_state_log_replication_factor": 1,
        "transaction_state_log_min_isr": 1,
        # Use the value from the compose file of these tests.
        "message_max_bytes": 200_000_000,
    }
    with broker_cluster(tmp_path_factory.mktemp("kafka-go-broker"), ports=[port], **settings) as running:
        yield running


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, cluster: BrokerCluster) -> Path:
    """Return the module's source. Port 9092 is replaced by the broker's port everywhere."""
    copy = source(KAFKA_GO, tmp_path_factory.mktemp("kafka-go"))
    (broker,) = cluster.brokers.values()
    for file in copy.rglob("*.go"):
        text = file.read_text()
        file.write_text(PORT_OF_THE_SUITE.sub(str(broker.port), text))
    return copy


@pytest.mark.parametrize("package", LEFT_OUT)
def test_tests_from_the_kafka_go_project_pass(sources: Path, package: str) -> None:
    suite = built(sources / package)
    assert not suite.missing(LEFT_OUT[package].keys() | PASSED_OVER[package].keys())
    settings = {"KAFKA_VERSION": KAFKA_VERSION, "KAFKA_SKIP_NETTEST": "1"}
    ended = suite.run(LEFT_OUT[package], settings, SUITE_S, parallel=PARALLEL)
    assert ended.code == 0, ended.complaint()
    assert ended.outcomes("SKIP") == PASSED_OVER[package].keys()
    assert len(ended.outcomes("PASS")) >= PASSED_MIN[package]


def test_transaction_tests_of_kafka_go_pass(sources: Path) -> None:
    settings = {"KAFKA_VERSION": OLDER_VERSION, "KAFKA_SKIP_NETTEST": "1"}
    ended = built(sources).run(
        [NO_STATIC_MEMBER], settings, SUITE_S, run="|".join(f"^{name}$" for name in sorted(TRANSACTIONS))
    )
    assert ended.code == 0, ended.complaint()
    assert ended.outcomes("PASS") == TRANSACTIONS - {NO_STATIC_MEMBER}
