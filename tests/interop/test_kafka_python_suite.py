"""kafka-python's own integration tests, from a checkout of its repository, run with one of our brokers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.free_ports import free_ports
from tests.ensemble.server.pem_files import Authority, needs_openssl
from tests.interop.interop_brokers import broker_cluster
from tests.interop.kafka_jars import classpath
from tests.interop.python_suites import ONE_BROKER, checkout, run
from tests.interop.scram_users import PLAIN_MODULE, upsert_scram_user
from zabka.broker_sim.configs.authorizer_keys import AUTHORIZER_CLASS

KAFKA_VERSION = "3.9.1"
SUITE_S = 500.0
FILES = [f"test/integration/test_{name}_integration.py" for name in ("producer", "consumer", "admin", "sasl", "ssl")]
PASSED_MIN = 56
TRANSACTIONS = {"test_transactional_producer_messages", "test_transactional_producer_offsets"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SECURITY = {
    "test_create_describe_delete_acls",
    *(
        f"{name}[{mechanism}]"
        for name in ("test_admin", "test_client", "test_produce_and_consume")
        for mechanism in MECHANISMS
    ),
    "test_ssl_handshake",
    "test_legacy_kafka_client_ssl",
}
"""Tests of SASL, TLS and ACLs."""
USER, PASSWORD = "alice", "alice-secret"
"""The user in the suite's fixtures."""
FIXTURES = {
    "test/integration/conftest.py": (
        "return KafkaFixture.instance(0, host=host, port=port, external=True)",
        """import py
            port = int(os.environ.get("PORT_" + broker_params.get("transport", "PLAINTEXT"), port))
            folder = py.path.local.mkdtemp()
            broker = KafkaFixture.instance(0, host=host, port=port, external=True, tmp_dir=folder, **broker_params)
            broker.jaas_config = broker._jaas_config()
            return broker""",
    ),
    "test/integration/test_sasl_integration.py": ('skipif("KAFKA_URI" in os.environ,', "skipif(False,"),
    "test/integration/test_ssl_integration.py": (
        "broker = KafkaFixture.instance(0, tmp_dir=tmp, transport='SSL')",
        """port = int(os.environ["PORT_SSL"])
    broker = KafkaFixture.instance(0, tmp_dir=tmp, transport='SSL', port=port, external=True)
    broker.ssl_dir = os.environ["SSL_DIR"]""",
    ),
}
"""Changes to the suite's fixtures, which would start their own broker for SASL and TLS, by file."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(900), needs_openssl]


def adapt(folder: Path) -> None:
    """Make the suite's fixtures use the running broker, and give them Kafka's tool for topics."""
    for name, (old, new) in FIXTURES.items():
        text = (folder / name).read_text()
        assert text.count(old) == 1, name
        (folder / name).write_text(text.replace(old, new))
    tool = folder / "bin" / "kafka-topics.sh"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\nexec java -cp '{classpath()}' org.apache.kafka.tools.TopicCommand \"$@\"\n")
    tool.chmod(0o755)


def test_tests_from_the_kafka_python_project_pass(tmp_path: Path) -> None:
    folder = checkout("kafka-python", tmp_path)
    adapt(folder)
    (tmp_path / "brokers").mkdir()
    (tmp_path / "ssl").mkdir()
    authority = Authority(tmp_path / "ssl")
    ports = dict(zip(("PLAINTEXT", "SASL_PLAINTEXT", "SSL"), free_ports(3), strict=True))
    own = "listener.name.sasl_plaintext"
    security = {
        "listeners": ",".join(f"{name}://localhost:{port}" for name, port in ports.items()),
        f"{own}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{own}.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";',
        "ssl.keystore.location": authority.store("broker", "/CN=broker", "DNS:localhost"),
        "authorizer.class.name": AUTHORIZER_CLASS,
        "allow.everyone.if.no.acl.found": "true",
    }
    shutil.copy(authority.ca, tmp_path / "ssl" / "ca-cert")
    plain = [ports["PLAINTEXT"]]
    with broker_cluster(tmp_path / "brokers", plain, first_id=0, num_partitions=4, **ONE_BROKER, **security) as cluster:
        upsert_scram_user(cluster.bootstrap, USER, dict.fromkeys(MECHANISMS[1:], PASSWORD))
        settings = {
            "KAFKA_VERSION": KAFKA_VERSION, "KAFKA_URI": f"kafka://localhost:{ports['PLAINTEXT']}",
            "KAFKA_ROOT": str(folder), "SSL_DIR": str(tmp_path / "ssl"),
            **{f"PORT_{name}": str(port) for name, port in ports.items()},
        }  # fmt: skip
        outcomes = run(folder, FILES, (), settings, SUITE_S)
    assert not outcomes.failed, outcomes.failed
    assert all(map(outcomes.has_passed, TRANSACTIONS | SECURITY)) and len(outcomes.passed) >= PASSED_MIN
