"""Topics and records of a cluster are still present after a stop and a start."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zabka.compose.topology import load
from zabka.testing.live.cluster import LiveCluster
from zabka.testing.live.start import start_live, stop_live

STOP_S_MAX = 20
READY_S_MAX = 12
"""Maximum time in seconds until a cluster is ready. It takes a few seconds on an idle machine."""


def processes(data: Path) -> list[int]:
    """Return the pids of all processes of the cluster in this data directory."""
    command = [sys.executable, "-P", "-m", "zabka.cli.main", "status", "--json", "--data", str(data)]
    status = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout)
    return [status["agent_pid"], *(process["pid"] for process in status["processes"])]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def listening(data: Path) -> list[int]:
    """Return the ports that accept connections, for the cluster with this data directory."""
    topology = load(data)
    assert topology is not None
    ports = [topology.api_port, topology.hosts[0].agent_port, *(broker.port for broker in topology.brokers)]
    for peer in topology.peers:
        ports += [peer.client_port, peer.quorum_port, peer.election_port]
    found = []
    for port in ports:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                found.append(port)
    return found


def end(cluster: LiveCluster, how: signal.Signals) -> None:
    """Send a signal to the `up` process, and assert that all of the cluster's processes and ports are closed."""
    pids = processes(cluster.data)
    assert all(is_alive(pid) for pid in pids)
    assert len(listening(cluster.data)) == 2 + 3 + 3 * 3
    assert cluster.process is not None
    began_s = time.monotonic()
    cluster.process.send_signal(how)
    assert cluster.process.wait(STOP_S_MAX) == 0
    assert time.monotonic() - began_s < STOP_S_MAX
    cluster.close()
    assert [pid for pid in pids if is_alive(pid)] == []
    assert listening(cluster.data) == []


@pytest.mark.long
@pytest.mark.scenario(3)
@pytest.mark.scenario(33)
def test_restart_keeps_records_and_a_signal_releases_all_ports(tmp_path: Path) -> None:
    first = start_live(tmp_path)
    try:
        first.topics.create("orders", partitions=2, config={"min.insync.replicas": "2"})
        for partition in (0, 1):
            first.produce("orders", [f"kept {partition}.{number}" for number in range(100)], partition)
        topic_id = first.topics["orders"].describe()["topic_id"]
        epoch = first.controller_epoch
        end(first, signal.SIGINT)
    finally:
        stop_live(first)

    began_s = time.monotonic()
    second = start_live(tmp_path)
    try:
        assert time.monotonic() - began_s < READY_S_MAX
        assert second.url == first.url
        orders = second.topics["orders"]
        assert orders.config == {"min.insync.replicas": "2"}
        assert orders.describe()["topic_id"] == topic_id
        assert second.controller_epoch > epoch
        second.until(lambda: all(partition.in_sync for partition in orders.partitions))
        for partition in (0, 1):
            assert second.consume("orders", partition) == [f"kept {partition}.{number}" for number in range(100)]
            assert second.produce("orders", ["and more"], partition) == 100
        assert second.events("records_lost", after_us=-1) == []
        end(second, signal.SIGTERM)
    finally:
        stop_live(second)
