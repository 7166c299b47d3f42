"""franz-go's own tests of its client, from the Go module, run with three of our brokers.

Only the tests of package kgo use brokers. The tests of package kadm, in the matching version, cover its types.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.go_suites import GoSuite, Module, built, source
from tests.interop.interop_brokers import BrokerCluster, broker_cluster

FRANZ_GO = Module("github.com/twmb/franz-go", "v1.22.2")
SUITE_S = 420.0
RECORDS = 20_000
"""Number of records that each group test produces and consumes.

The suite's default of 500,000 is meant for brokers on several machines.
"""
PASSED_MIN = 120
PASSED_OVER = {
    "Test848RegexBrokerResolves": "the newer protocol of groups, which Kafka 3.9 has not in ZooKeeper mode",
    "TestConsumeRegexShareSkipsInternal": "share groups, of Kafka 4.2",
    "TestIssueProduceBrokerTooOldFailsRecords": "for brokers that take no Produce 2; Kafka 3.9 does",
    "TestSCRAMAuth": "connections are not authenticated",
    "TestSCRAMAuthBadCredentials": "connections are not authenticated",
    "TestShareGroup": "share groups, of Kafka 4.2",
    "TestShareGroupAckOnClose": "share groups, of Kafka 4.2",
    "TestShareGroupETL": "share groups, of Kafka 4.2",
    "TestShareGroupOffsetsAdmin": "share groups, of Kafka 4.2",
}
"""Tests that franz-go itself skips because of the brokers' API versions."""
REACH_BROKERS = {
    "TestGroupETL",
    "TestGroupSimple",
    "TestPing",
    "TestConsumeRegex",
    "TestAddRemovePartitions",
    "TestTxnEtl",
}
"""Tests that cannot pass without brokers. They must have passed, as proof that the suite used our brokers."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> GoSuite:
    """Return the compiled tests of package kgo."""
    return built(source(FRANZ_GO, tmp_path_factory.mktemp("franz-go")) / "pkg" / "kgo")


@pytest.fixture(scope="module")
def cluster(suite: GoSuite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    with broker_cluster(tmp_path_factory.mktemp("franz-go-brokers")) as running:
        yield running


def test_franz_gos_own_test_suite_passes(suite: GoSuite, cluster: BrokerCluster) -> None:
    assert not suite.missing(PASSED_OVER.keys())
    settings = {"KGO_SEEDS": cluster.bootstrap, "KGO_TEST_RF": "3", "KGO_TEST_RECORDS": str(RECORDS)}
    ended = suite.run((), settings, SUITE_S)
    assert ended.code == 0, ended.complaint()
    assert ended.outcomes("SKIP") == PASSED_OVER.keys()
    passed = ended.outcomes("PASS")
    assert passed >= REACH_BROKERS and len(passed) >= PASSED_MIN
