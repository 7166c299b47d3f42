"""franz-go's own tests of its client, from the Go module, run with three of our brokers.

Only the tests of package kgo use brokers. The tests of package kadm, in the matching version, cover its types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from bench.free_ports import free_ports
from tests.ensemble.server.pem_files import Authority, needs_openssl
from tests.interop.go_suites import GoSuite, Module, built, source
from tests.interop.interop_brokers import BrokerCluster, broker_cluster
from tests.interop.scram_users import upsert_scram_user

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
    "TestSCRAMAuth",
    "TestSCRAMAuthBadCredentials",
    "TestTxnEtl",
}
"""Tests that cannot pass without brokers. They must have passed, as proof that the suite used our brokers."""

USER, PASSWORD = "admin", "admin-secret"
OVER_TLS = {"TestPing", "TestGroupETL", "TestTxnEtl", "TestConsumeRegex", "TestAddRemovePartitions"}
"""Tests that also run over TLS, with a certificate of the client."""
RECORDS_OVER_TLS = 5_000

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500), needs_openssl]


class Served(NamedTuple):
    """The brokers, and the bootstrap servers of each security protocol."""

    brokers: BrokerCluster
    bootstraps: dict[str, str]
    authority: Authority


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> GoSuite:
    """Return the compiled tests of package kgo."""
    return built(source(FRANZ_GO, tmp_path_factory.mktemp("franz-go")) / "pkg" / "kgo")


@pytest.fixture(scope="module")
def cluster(suite: GoSuite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    authority = Authority(tmp_path_factory.mktemp("franz-go-ssl"))
    store = authority.store("broker", "/CN=broker", "DNS:localhost,IP:127.0.0.1")
    authority.store("client", "/CN=client")
    ports = free_ports(9)
    listeners = {"PLAINTEXT": ports[:3], "SASL_PLAINTEXT": ports[3:6], "SSL": ports[6:]}
    with broker_cluster(
        tmp_path_factory.mktemp("franz-go-brokers"),
        ports[:3],
        listeners=lambda i: ",".join(f"{name}://127.0.0.1:{own[i - 1]}" for name, own in listeners.items()),
        **{
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "ssl.keystore.location": store,
            "ssl.truststore.location": authority.ca,
            "ssl.client.auth": "required",
        },
    ) as brokers:
        upsert_scram_user(brokers.bootstrap, USER, {"SCRAM-SHA-512": PASSWORD})
        bootstraps = {name: ",".join(f"127.0.0.1:{port}" for port in own) for name, own in listeners.items()}
        yield Served(brokers, bootstraps, authority)


def test_franz_gos_own_test_suite_passes(suite: GoSuite, cluster: Served) -> None:
    assert not suite.missing(PASSED_OVER.keys())
    settings = {
        "KGO_SEEDS": cluster.bootstraps["PLAINTEXT"], "KGO_TEST_RF": "3", "KGO_TEST_RECORDS": str(RECORDS),
        "KGO_TEST_SCRAM_SEEDS": cluster.bootstraps["SASL_PLAINTEXT"], "KGO_TEST_SCRAM": f"{USER}:{PASSWORD}:512",
    }  # fmt: skip
    ended = suite.run((), settings, SUITE_S)
    assert ended.code == 0, ended.complaint()
    assert ended.outcomes("SKIP") == PASSED_OVER.keys()
    passed = ended.outcomes("PASS")
    assert passed >= REACH_BROKERS and len(passed) >= PASSED_MIN


def test_franz_gos_group_and_transaction_tests_pass_over_tls(suite: GoSuite, cluster: Served) -> None:
    directory = cluster.authority.directory
    settings = {
        "KGO_SEEDS": cluster.bootstraps["SSL"], "KGO_TEST_RF": "3", "KGO_TEST_RECORDS": str(RECORDS_OVER_TLS),
        "KGO_TEST_TLS": f"ca:{cluster.authority.ca},cert:{directory / 'client.crt'},key:{directory / 'client.key'}",
    }  # fmt: skip
    ended = suite.run((), settings, SUITE_S, run="|".join(f"^{name}$" for name in sorted(OVER_TLS)))
    assert ended.code == 0, ended.complaint()
    assert ended.outcomes("PASS") == OVER_TLS
