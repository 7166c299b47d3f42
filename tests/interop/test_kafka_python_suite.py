"""kafka-python's own integration tests, from a checkout of its repository, run with one of our brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.free_ports import free_ports
from tests.interop.interop_brokers import broker_cluster
from tests.interop.python_suites import ONE_BROKER, checkout, run

KAFKA_VERSION = "3.9.1"
SUITE_S = 500.0
FILES = [f"test/integration/test_{name}_integration.py" for name in ("producer", "consumer", "admin")]
LEFT_OUT = {
    "test/integration/test_admin_integration.py::test_create_describe_delete_acls": "there is no authorizer",
}
"""Tests that are not run, each with the reason."""
PASSED_MIN = 40
TRANSACTIONS = {"test_transactional_producer_messages", "test_transactional_producer_offsets"}

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def test_tests_from_the_kafka_python_project_pass(tmp_path: Path) -> None:
    folder = checkout("kafka-python", tmp_path)
    (tmp_path / "brokers").mkdir()
    with broker_cluster(tmp_path / "brokers", free_ports(1), first_id=0, num_partitions=4, **ONE_BROKER) as cluster:
        address = f"kafka://{cluster.bootstrap}"
        settings = {"KAFKA_VERSION": KAFKA_VERSION, "KAFKA_URI": address, "KAFKA_ROOT": str(tmp_path)}
        outcomes = run(folder, FILES, LEFT_OUT, settings, SUITE_S)
    assert not outcomes.failed, outcomes.failed
    assert all(map(outcomes.has_passed, TRANSACTIONS)) and len(outcomes.passed) >= PASSED_MIN
