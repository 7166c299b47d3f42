"""Servers in two networks (multiAddress.enabled): only our servers, or ours together with Apache ZooKeeper 3.9.5."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bench.free_ports import free_ports
from tests.ensemble.server.peer_processes import wait_until
from tests.interop.real_zookeeper import MixedEnsemble, needs_java
from zabka.ensemble.runtime.link_fault import ANY, HeldFault
from zabka.ensemble.runtime.links import FaultTable
from zabka.ensemble.zab.server_line import parse_server_line

pytestmark = pytest.mark.long
NETWORKS = ("127.0.1", "127.0.2")
CUT = [HeldFault(ANY, "lost", "cut", id="f1")]


@pytest.fixture
def in_two_networks(tmp_path: Path) -> Iterator[MixedEnsemble]:
    ensemble = MixedEnsemble(tmp_path, 3)
    ensemble.java_options = ("-Dzookeeper.multiAddress.enabled=true",)
    ports = iter(free_ports(6))
    lines = []
    for i in ensemble.client_ports:
        quorum, election = next(ports), next(ports)
        lines.append(f"server.{i}=" + "|".join(f"{network}.{i}:{quorum}:{election}" for network in NETWORKS))
    for i in ensemble.client_ports:
        text = ensemble.config(i).read_text()
        for old, new in zip(ensemble.server_lines, lines, strict=True):
            text = text.replace(old, new)
        ensemble.config(i).write_text(f"{text}multiAddress.enabled=true\n")
    ensemble.server_lines = lines
    try:
        yield ensemble
    finally:
        ensemble.close()


def lose(ensemble: MixedEnsemble, network: str) -> None:
    """Drop all traffic in one of the networks. The connections stay open."""
    names: dict[str, str] = {}
    for line in ensemble.server_lines:
        for host, *ports in parse_server_line(line.partition("=")[2]).addresses:
            names |= {f"{host}:{port}": "lost" for port in ports if host.startswith(f"{network}.")}
    table = msgspec.json.encode(FaultTable(CUT, names=names))
    for i in ensemble.processes:
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(ensemble.directory / str(i) / "control"))
            control.sendall(table + b"\n")
            assert control.recv(100) == b'{"ok":true}\n'


def test_ensemble_keeps_working_on_its_second_network(in_two_networks: MixedEnsemble) -> None:
    in_two_networks.start()
    in_two_networks.wait_for_quorum()
    with in_two_networks.client() as client:
        client.create("/kept", b"0")
        lose(in_two_networks, NETWORKS[0])
        wait_until(lambda: "none" in in_two_networks.modes().values())
        in_two_networks.wait_for_quorum()
        client.retry(client.set, "/kept", b"1")
        assert client.get("/kept")[0] == b"1"


@needs_java
@pytest.mark.parametrize("java", [1, 3])
def test_java_and_zabka_servers_use_each_others_addresses(in_two_networks: MixedEnsemble, java: int) -> None:
    in_two_networks.start_java(java)
    in_two_networks.start(*(i for i in (1, 2, 3) if i != java))
    in_two_networks.wait_for_quorum()
    with in_two_networks.client(java) as client:
        client.create("/everywhere", b"1")
    for i in in_two_networks.processes:
        with in_two_networks.client(i) as client:
            client.sync("/everywhere")
            assert client.exists("/everywhere")
