"""Invalid bytes on any port of a node affect only the client that sends them."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections.abc import Iterator

import pytest

from tests.election import broker_sessions
from zabka.compose.topology import load
from zabka.testing.live.cluster import LiveCluster

GARBAGE = {
    "random bytes": random.Random(4).randbytes(4_096),
    "a huge length": b"\x7f\xff\xff\xff" + b"\x00" * 64,
    "a negative length": b"\xff\xff\xff\xfe" + b"\x00" * 64,
    "half a frame": b"\x00\x00\x00\x40" + b"\x00" * 10,
    "a length and nothing": b"\x00\x00\x00\x10",
    "an empty frame": b"\x00\x00\x00\x00",
    "an HTTP request": b"GET /api/v1/cluster HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS greeting": bytes.fromhex("16030100") + b"\xff" * 200,
    "zeros": bytes(8_192),
    "a Kafka request with billions of members": struct.pack(">ihhih", 36, 20, 6, 1, -1)
    + b"\x00\xff\xff\xff\xff\x7f"
    + bytes(20),
    "a Kafka request without its list": struct.pack(">ihhih", 15, 32, 4, 1, -1) + bytes(5),
}
ANSWERS = {"the dashboard's port", "the agent's port"}
"""HTTP ports. They respond to invalid bytes with an error."""


def ports(cluster: LiveCluster) -> dict[str, tuple[str, int]]:
    """Return every port that a node of the cluster listens on."""
    topology = load(cluster.data)
    assert topology is not None
    found: dict[str, tuple[str, int]] = {}
    for peer in topology.peers:
        for kind in ("client", "quorum", "election"):
            found[f"{peer.name}'s {kind} port"] = (peer.address, getattr(peer, f"{kind}_port"))
    for broker in topology.brokers:
        found[f"{broker.name}'s port"] = (broker.advertised, broker.port)
    found["the dashboard's port"] = (topology.api_bind, topology.api_port)
    found["the agent's port"] = (topology.hosts[0].address, topology.hosts[0].agent_port)
    return found


def pids(cluster: LiveCluster) -> dict[str, int | None]:
    return {node.name: node.pid for node in (*cluster.peers.values(), *cluster.brokers.values())}


@contextlib.contextmanager
def sent(address: tuple[str, int], data: bytes) -> Iterator[socket.socket]:
    """Yield a connection on which the data was sent. The server may already have closed it."""
    with socket.create_connection(address, timeout=5) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(data)
        yield connection


def answer(connection: socket.socket, timeout_s: float) -> bytes | None:
    """Return the data received until the connection closes, or None if it stays open and nothing was received."""
    connection.settimeout(timeout_s)
    received = b""
    try:
        while data := connection.recv(65_536):
            received += data
    except TimeoutError:
        return received or None
    except ConnectionResetError:
        pass
    return received


def assert_undisturbed(cluster: LiveCluster, before: dict[str, int | None]) -> None:
    """Assert that all nodes still run and respond, with the same processes, leader, controller and broker sessions."""
    disturbances = ("node_started", "node_stopped", "leader_established", "controller_elected")
    assert cluster.events(*disturbances, "leader_elected", "isr_changed") == []
    assert broker_sessions.expired(cluster) == []
    assert pids(cluster) == before
    cluster.produce("orders", ["still served"])
    assert "still served" in cluster.consume("orders")
    assert [peer.phase for peer in cluster.peers.values()] == ["BROADCAST"] * len(cluster.peers)


def test_garbage_on_every_port_affects_only_its_sender(zabka_cluster: LiveCluster) -> None:
    orders = zabka_cluster.topics.create("orders")
    zabka_cluster.until(lambda: orders.partitions[0].in_sync)
    workload = zabka_cluster.workload("orders", records_per_s=20)
    zabka_cluster.until(lambda: workload.counts.acknowledged > 5)
    zabka_cluster.begin_here()
    before = pids(zabka_cluster)

    for port, address in ports(zabka_cluster).items():
        for what, garbage in GARBAGE.items():
            with sent(address, garbage) as connection:
                received = answer(connection, 0.02)
            assert received is None or len(received) < 100_000, f"{what} at {port}"
            if received and port in ANSWERS:
                assert received.startswith(b"HTTP/1.1 "), f"{what} at {port}: {received!r}"
                assert b"Traceback" not in received

    zabka_cluster.let_pass(0.5)
    assert_undisturbed(zabka_cluster, before)
    counts = workload.stop()
    assert (counts.failed, counts.lost) == (0, 0)


def test_incomplete_frames_do_not_block_other_clients(zabka_cluster: LiveCluster) -> None:
    orders = zabka_cluster.topics.create("orders")
    zabka_cluster.until(lambda: orders.partitions[0].in_sync)
    zabka_cluster.begin_here()
    before = pids(zabka_cluster)

    with contextlib.ExitStack() as held:
        for address in ports(zabka_cluster).values():
            for garbage in (GARBAGE["half a frame"], GARBAGE["a length and nothing"], b"", b"\x00"):
                held.enter_context(sent(address, garbage))
        assert_undisturbed(zabka_cluster, before)
        # The open connections with invalid data must not prevent an election.
        leader = zabka_cluster.until(lambda: zabka_cluster.zab_leader)
        leader.kill()
        zabka_cluster.until(lambda: zabka_cluster.zab_leader not in (None, leader))
        leader.start()
        zabka_cluster.until(lambda: (leader.state, leader.phase) == ("FOLLOWING", "BROADCAST"))


@pytest.mark.parametrize("what", ["random bytes", "a huge length", "a negative length"])
def test_invalid_first_bytes_of_a_frame_close_the_connection(zabka_cluster: LiveCluster, what: str) -> None:
    stays_open = [
        port
        for port, address in ports(zabka_cluster).items()
        if port not in ANSWERS and not is_closed(address, GARBAGE[what])
    ]
    assert stays_open == []


def is_closed(address: tuple[str, int], garbage: bytes) -> bool:
    with sent(address, garbage) as connection:
        return answer(connection, 3) is not None
