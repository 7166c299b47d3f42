"""aiokafka's own tests, from a checkout of its repository. They run with one of our brokers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.free_ports import free_ports
from tests.interop.interop_brokers import broker_cluster
from tests.interop.python_suites import ONE_BROKER, checkout, run

KAFKA_VERSION = "3.9.1"
SUITE_S = 500.0
FILES = [
    f"tests/test_{name}.py"
    for name in (
        "transactional_producer", "transactional_consumer", "producer", "consumer", "coordinator", "fetcher", "admin",
        "client", "conn", "pep492", "sender",
    )
]  # fmt: skip
LEFT_OUT = {
    "tests/test_consumer.py::TestConsumerIntegration::test_ssl_consume": "there is no TLS",
    "tests/test_producer.py::TestKafkaProducerIntegration::test_producer_ssl": "there is no TLS",
}
"""Tests that are not run, each with the reason."""
PASSED_MIN = 200
TRANSACTIONS = {"test_producer_transactional_simple", "test_consumer_transactional_abort"}

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def test_own_tests_of_aiokafka_pass(tmp_path: Path) -> None:
    # Copy only the tests, so that they import the installed aiokafka: the package in the checkout has no compiled
    # modules.
    tests = checkout("aiokafka", tmp_path) / "tests"
    shutil.copytree(tests, tmp_path / "tests")
    shutil.copy(Path(__file__).with_name("aiokafka_fixtures.py"), tmp_path / "tests" / "conftest.py")
    (tmp_path / "brokers").mkdir()
    with broker_cluster(tmp_path / "brokers", free_ports(1), first_id=0, **ONE_BROKER) as cluster:
        settings = {"AIOKAFKA_TESTS_BROKER": cluster.bootstrap, "AIOKAFKA_TESTS_KAFKA_VERSION": KAFKA_VERSION}
        outcomes = run(tmp_path, FILES, LEFT_OUT, settings, SUITE_S)
    assert not outcomes.failed, outcomes.failed
    assert all(map(outcomes.has_passed, TRANSACTIONS)) and len(outcomes.passed) >= PASSED_MIN
