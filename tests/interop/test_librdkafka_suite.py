"""librdkafka's own tests of security and ACLs, from a checkout of its repository, run with three of our brokers."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.free_ports import free_ports
from tests.ensemble.server.pem_files import Authority, needs_openssl
from tests.interop.interop_brokers import broker_cluster, tool
from tests.interop.kafka_jars import classpath
from tests.interop.python_suites import checkout
from tests.interop.scram_users import PLAIN_MODULE, upsert_scram_user
from zabka.broker_sim.configs.authorizer_keys import AUTHORIZER_CLASS

KAFKA_VERSION = "3.9.1"
BUILD_S, SUITE_S = 900.0, 400.0
REAUTH_MS = 10_000
"""Value in librdkafka's own test cluster. With less, a client has to renew tokens more often than once a second."""
TIMES = "2"
"""Factor for the time limits of the tests."""
USER, PASSWORD = "alice", "alice-secret"
BUILD = (
    ["./configure", "--disable-gssapi", "--disable-curl", "--disable-lz4-ext", "--disable-zstd"],
    ["make", "-j2", "libs"],
    ["make", "-C", "tests", "-j2", "build"],
)
SHARE_GROUPS = re.compile(r"^ +do_test_share_\w+\([^;]*\);$", re.MULTILINE)
"""Calls of tests of share groups, which need Kafka 4.2."""
PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL")
LOGIN = {"sasl.username": USER, "sasl.password": PASSWORD}
RUNS: dict[str, tuple[dict[str, str], set[str]]] = {
    "plain": (
        {"security.protocol": "PLAINTEXT"},
        {"0081_admin", "0097_ssl_verify_local", "0115_producer_auth", "0119_consumer_auth", "0133_ssl_keys",
         "0134_ssl_provider"},
    ),
    "plain password": (
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **LOGIN}, {"0142_reauthentication"}
    ),
    "scram over tls": (
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", **LOGIN},
        {"0135_sasl_credentials", "0142_reauthentication"},
    ),
    "tokens": (
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.config": f"principal={USER}",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
        },
        {"0142_reauthentication"},
    ),
}  # fmt: skip
"""The client's settings, and the tests that are run with them."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800), needs_openssl]


class Served(NamedTuple):
    """The folder with the compiled tests, and the bootstrap servers of each security protocol."""

    folder: Path
    bootstraps: Mapping[str, str]
    ca: Path


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the checkout with its compiled tests, and with Kafka's tool for ACLs."""
    tool("make")
    folder = checkout("librdkafka", tmp_path_factory.mktemp("librdkafka"))
    for name in {name for _, names in RUNS.values() for name in names}:
        for file in (folder / "tests").glob(f"{name.removesuffix('_local').replace('_', '-', 1)}.c*"):
            file.write_text(SHARE_GROUPS.sub("", file.read_text()))
    for command in BUILD[1:] if (folder / "Makefile.config").exists() else BUILD:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_S, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    (folder / "bin").mkdir()
    script = folder / "bin" / "kafka-acls.sh"
    script.write_text(f"#!/bin/sh\nexec java -cp '{classpath()}' kafka.admin.AclCommand \"$@\"\n")
    script.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def served(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    authority = Authority(tmp_path_factory.mktemp("librdkafka-ssl"))
    ports = free_ports(9)
    by_protocol = {protocol: ports[3 * i : 3 * i + 3] for i, protocol in enumerate(PROTOCOLS)}
    options: dict[str, object] = {
        "listeners": lambda i: ",".join(f"{name}://localhost:{own[i - 1]}" for name, own in by_protocol.items()),
        "ssl.keystore.location": authority.store("broker", "/CN=broker", "DNS:localhost"),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "connections.max.reauth.ms": REAUTH_MS,
        "group.initial.rebalance.delay.ms": 0,
        "authorizer.class.name": AUTHORIZER_CLASS,
        "allow.everyone.if.no.acl.found": "true",
        **{
            f"listener.name.{name}.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";'
            for name in ("sasl_plaintext", "sasl_ssl")
        },
    }
    with broker_cluster(tmp_path_factory.mktemp("librdkafka-brokers"), ports[:3], **options) as cluster:
        upsert_scram_user(cluster.bootstrap, USER, {"SCRAM-SHA-512": PASSWORD})
        bootstraps = {name: ",".join(f"localhost:{port}" for port in own) for name, own in by_protocol.items()}
        yield Served(sources, bootstraps, authority.ca)


@pytest.mark.parametrize("run", RUNS)
def test_security_tests_of_librdkafka_pass(served: Served, run: str) -> None:
    settings, names = RUNS[run]
    folder, bootstrap = served.folder / "tests", served.bootstraps[settings["security.protocol"]]
    conf = {
        **settings,
        "bootstrap.servers": bootstrap,
        "ssl.ca.location": str(served.ca),
        "broker.address.family": "v4",
    }
    if settings["security.protocol"] == "PLAINTEXT":
        del conf["ssl.ca.location"]
    conf["test.timeout.multiplier"] = TIMES
    (folder / "test.conf").write_text("".join(f"{key}={value}\n" for key, value in conf.items()))
    for name in sorted(names):
        environment = {
            **os.environ, "TESTS": name, "TEST_KAFKA_VERSION": KAFKA_VERSION, "KAFKA_PATH": str(served.folder),
            "BROKERS": bootstrap, "LD_LIBRARY_PATH": "../src:../src-cpp",
        }  # fmt: skip
        done = subprocess.run(
            ["./test-runner", "-p1"],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=SUITE_S, check=False,
        )  # fmt: skip
        output = done.stdout + done.stderr
        assert done.returncode == 0 and f"= Test {name} PASSED =" in output, output[-4000:]
