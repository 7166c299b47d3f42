"""kafka-go's own tests, from its Go module.

They run against a single zabka broker, because they expect a cluster of one broker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.free_ports import free_ports
from tests.interop.go_suites import Module, built, source
from tests.interop.interop_brokers import BrokerCluster, broker_cluster
from tests.interop.scram_users import PLAIN_MODULE, upsert_scram_user
from zabka.broker_sim.configs.authorizer_keys import AUTHORIZER_CLASS

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
        "TestReaderConsumerGroup/consumer_group_commits_on_close": CALLS_NIL,
        "TestReaderConsumerGroup/consumer_group_rebalance": UNEVEN,
        "TestReaderConsumerGroup/verify_offset_committed": CALLS_NIL,
        "TestReaderConsumerGroup/verify_offset_committed_when_using_interval_committer": CALLS_NIL,
    },
    "topics": {},
    "compress": {},
    "sasl": {},
}
"""Tests that are not run, with the reason, for each package."""
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
    "sasl": {},
}
"""Tests that kafka-go itself skips."""
PASSED_MIN = {".": 145, "topics": 1, "compress": 1, "sasl": 1}
SASL_PORT_OF_THE_SUITE = re.compile(r"\b9093\b")
PLAIN_USER = 'user_adminplain="admin-secret"'
SCRAM_USER, SCRAM_PASSWORDS = "adminscram", {"SCRAM-SHA-256": "admin-secret-256", "SCRAM-SHA-512": "admin-secret-512"}
SECURITY = {
    "TestClientCreateACLs",
    "TestClientDeleteACLs",
    "TestClientDescribeACLs",
    "TestSASL",
    "TestUnsupportedSASLMechanism",
    "TestWriter",
}
"""Tests that use the authorizer or the listener with SASL."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]


class Served(NamedTuple):
    """The broker, and the port of its listener with SASL."""

    brokers: BrokerCluster
    sasl_port: int


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    port, sasl_port = free_ports(2)
    own = "listener.name.sasl_plaintext"
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}",
        "advertised_listeners": f"PLAINTEXT://localhost:{port},SASL_PLAINTEXT://localhost:{sasl_port}",
        f"{own}.sasl.enabled.mechanisms": f"PLAIN,{','.join(SCRAM_PASSWORDS)}",
        f"{own}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {PLAIN_USER};",
        "authorizer_class_name": AUTHORIZER_CLASS,
        "allow_everyone_if_no_acl_found": "true",
        "num_partitions": 1,
        "default_replication_factor": 1,
        "offsets_topic_replication_factor": 1,
        "transaction_state_log_replication_factor": 1,
        "transaction_state_log_min_isr": 1,
        # Use the value from the compose file of these tests.
        "message_max_bytes": 200_000_000,
    }
    with broker_cluster(tmp_path_factory.mktemp("kafka-go-broker"), ports=[port], **settings) as running:
        upsert_scram_user(running.bootstrap, SCRAM_USER, SCRAM_PASSWORDS)
        yield Served(running, sasl_port)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, cluster: Served) -> Path:
    """Return the module's source. Ports 9092 and 9093 are replaced by the broker's ports everywhere."""
    copy = source(KAFKA_GO, tmp_path_factory.mktemp("kafka-go"))
    (broker,) = cluster.brokers.brokers.values()
    for file in copy.rglob("*.go"):
        text = PORT_OF_THE_SUITE.sub(str(broker.port), file.read_text())
        file.write_text(SASL_PORT_OF_THE_SUITE.sub(str(cluster.sasl_port), text))
    return copy


@pytest.mark.parametrize("package", LEFT_OUT)
def test_tests_from_the_kafka_go_project_pass(sources: Path, package: str) -> None:
    suite = built(sources / package)
    assert not suite.missing(LEFT_OUT[package].keys() | PASSED_OVER[package].keys())
    settings = {"KAFKA_VERSION": KAFKA_VERSION, "KAFKA_SKIP_NETTEST": "1"}
    ended = suite.run(LEFT_OUT[package], settings, SUITE_S, parallel=PARALLEL)
    assert ended.code == 0, ended.complaint()
    assert ended.outcomes("SKIP") == PASSED_OVER[package].keys()
    passed = ended.outcomes("PASS")
    assert len(passed) >= PASSED_MIN[package]
    assert passed & SECURITY == (
        {"TestSASL"} if package == "sasl" else SECURITY - {"TestSASL"} if package == "." else set()
    )


def test_transaction_tests_of_kafka_go_pass(sources: Path) -> None:
    settings = {"KAFKA_VERSION": OLDER_VERSION, "KAFKA_SKIP_NETTEST": "1"}
    ended = built(sources).run(
        [NO_STATIC_MEMBER], settings, SUITE_S, run="|".join(f"^{name}$" for name in sorted(TRANSACTIONS))
    )
    assert ended.code == 0, ended.complaint()
    assert ended.outcomes("PASS") == TRANSACTIONS - {NO_STATIC_MEMBER}
