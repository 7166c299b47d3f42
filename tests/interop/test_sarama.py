"""Sarama's functional tests, from the Go module, run with five of our brokers, each behind a toxiproxy.

The tests break their connections with toxiproxy, which is a Go module too. They stop and start brokers with `docker
compose`, which is replaced here by a script of that name.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.free_ports import free_ports
from tests.interop.go_suites import GoSuite, Module, built, program_of, source
from tests.interop.interop_brokers import READY_S, BrokerCluster, BrokerServer, broker_cluster

SARAMA = Module("github.com/IBM/sarama", "v1.61.1")
TOXIPROXY = Module("github.com/Shopify/toxiproxy/v2", "v2.5.0")
BROKERS = 5
KAFKA_VERSION = "3.9.1"
SUITE_S = 900.0
PORTS_OF_THE_SUITE = "29090+i"
"""Expression in the tests for the port of broker i's proxy. It occurs in three places."""
DOCKER = """#!/bin/sh
# docker compose stop|start|logs … kafka-N
for last; do :; done
if [ "$2" = logs ]; then exec cat "{brokers}/broker-${{last#kafka-}}/out.log"; fi
touch "{asked}/$2-${{last#kafka-}}"
while [ -e "{asked}/$2-${{last#kafka-}}" ]; do sleep 0.1; done
"""
PASSED_MIN = 76
PASSED_OVER = {
    "TestFuncAdminUpdateFeatures": "for Kafka 4.0, of which ZooKeeper mode is no part",
    "TestFuncJavaInteropCooperativeRebalance": "runs Java's clients inside the containers of the suite's own cluster",
    "TestJavaConsumerCompressionRoundTrip": "runs Java's clients inside the containers of the suite's own cluster",
    "TestJavaMurmur2PartitionerInterop": "runs Java's clients inside the containers of the suite's own cluster",
    "TestJavaProducerCompressionRoundTrip": "runs Java's clients inside the containers of the suite's own cluster",
    "TestReadOnlyAndAllCommittedMessages": "skipped everywhere: the suite calls it unreliable",
}
"""Tests that Sarama itself skips."""
REACH_BROKERS = {
    "TestConsumerFetchFollowerFailover",
    "TestFuncAdminAlterPartitionReassignments",
    "TestFuncConsumerGroupFuzzy",
    "TestFuncIdempotentBufferedSequence",
    "TestFuncProducingIdempotentWithBrokerFailure",
    "TestFuncTxnProduceAndCommitOffset",
    "TestFuncTxnProduceWithBrokerFailure",
}
"""Tests that cannot pass without brokers, because they stop or isolate brokers."""
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@contextmanager
def proxies(program: Path, ports: dict[int, int], upstream: dict[int, int]) -> Iterator[str]:
    """Run toxiproxy with a proxy for each broker. Yield the address of toxiproxy's API.

    `ports` are the proxies' ports and `upstream` the brokers' ports, keyed by broker number.
    """
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    with (program.parent / "toxiproxy.log").open("wb") as log:
        running = subprocess.Popen(
            [program, "-host", "127.0.0.1", "-port", str(port)], stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    try:
        deadline = time.monotonic() + READY_S
        while True:
            try:
                urllib.request.urlopen(f"{address}/version", timeout=2).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "toxiproxy does not answer"
                time.sleep(0.1)
        for broker_id, listens in ports.items():
            proxy = {
                "name": f"kafka{broker_id}",
                "listen": f"127.0.0.1:{listens}",
                "upstream": f"127.0.0.1:{upstream[broker_id]}",
                "enabled": True,
            }
            urllib.request.urlopen(f"{address}/proxies", json.dumps(proxy).encode(), timeout=5).close()
        yield address
    finally:
        running.kill()
        running.wait()


class Docker:
    """Replacement for the `docker` program with which the tests stop and start brokers."""

    def __init__(self, home: Path, brokers: Path, cluster: BrokerCluster) -> None:
        self._cluster = cluster
        self._requests = home / "asked"
        self.path = home / "bin"
        self._requests.mkdir()
        self.path.mkdir()
        (self.path / "docker").write_text(DOCKER.format(brokers=brokers, asked=self._requests))
        (self.path / "docker").chmod(0o755)

    def serve(self) -> None:
        """Stop and start the brokers for which the tests have called `docker` since the previous call."""
        for asked in self._requests.iterdir():
            verb, _, number = asked.name.partition("-")
            self._do(verb, self._cluster.brokers[int(number)])
            asked.unlink()

    def _do(self, verb: str, broker: BrokerServer) -> None:
        if verb == "stop":
            broker.stop()
        elif not broker.is_running:
            broker.start()
            self._cluster.until(lambda: broker.status().get("state") == "running")


@pytest.fixture(scope="module")
def listening() -> dict[int, int]:
    """Return, for each broker, the port to which clients connect: the port of its proxy."""
    return dict(enumerate(free_ports(BROKERS), 1))


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory, listening: dict[int, int]) -> GoSuite:
    """Return the compiled functional tests, with the ports of these proxies."""
    copy = source(SARAMA, tmp_path_factory.mktemp("sarama"))
    ports = ", ".join(str(port) for port in listening.values())
    text = (copy / "functional_test.go").read_text()
    assert text.count(PORTS_OF_THE_SUITE) == 3
    (copy / "functional_test.go").write_text(text.replace(PORTS_OF_THE_SUITE, f"[]int{{0, {ports}}}[i]"))
    return built(copy, "functional")


def test_every_sarama_test_listed_as_skipped_exists(suite: GoSuite) -> None:
    assert not suite.missing(PASSED_OVER.keys())


def test_functional_tests_of_sarama_pass(
    suite: GoSuite, listening: dict[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    toxiproxy = program_of(TOXIPROXY, "cmd/server", tmp_path_factory.mktemp("toxiproxy"))
    home = tmp_path_factory.mktemp("sarama-brokers")
    among_themselves = dict(zip(listening, free_ports(BROKERS), strict=True))
    for_clients = dict(zip(listening, free_ports(BROKERS), strict=True))
    cluster = broker_cluster(
        home,
        ports=list(for_clients.values()),
        listeners=lambda i: f"INTERNAL://127.0.0.1:{among_themselves[i]},LOCAL://127.0.0.1:{for_clients[i]}",
        advertised_listeners=lambda i: f"INTERNAL://127.0.0.1:{among_themselves[i]},LOCAL://localhost:{listening[i]}",
        listener_security_protocol_map="INTERNAL:PLAINTEXT,LOCAL:PLAINTEXT",
        inter_broker_listener_name="INTERNAL",
        broker_rack=lambda i: i,
        # The values in the compose file of these tests.
        default_replication_factor=2,
        offsets_topic_replication_factor=2,
        replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector",
        auto_create_topics_enable="false",
        group_initial_rebalance_delay_ms=0,
        num_partitions=1,
    )
    with cluster as running, proxies(toxiproxy, listening, for_clients) as address:
        docker = Docker(tmp_path_factory.mktemp("docker"), home, running)
        settings = {
            "TOXIPROXY_ADDR": address,
            "KAFKA_VERSION": KAFKA_VERSION,
            "PATH": f"{docker.path}{os.pathsep}{os.environ['PATH']}",
        }
        ended = suite.run((), settings, SUITE_S, docker.serve)
    assert ended.code == 0, ended.complaint()
    assert ended.outcomes("SKIP") == PASSED_OVER.keys()
    passed = ended.outcomes("PASS")
    assert passed >= REACH_BROKERS and len(passed) >= PASSED_MIN
