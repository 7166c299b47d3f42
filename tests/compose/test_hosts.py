"""The topology of several hosts is the same on each host. Only the agents' token has to be copied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.compose.test_containers import zabka
from zabka.compose.files import api_settings
from zabka.compose.hosts import PER_HOST_MAX, host_called, hosts_topology
from zabka.compose.plan import BadPlan
from zabka.compose.share import lay_out
from zabka.compose.topology import node_directory, server_properties, zoo_cfg

THREE = ["alpha", "beta", "gamma"]


def test_nodes_are_spread_over_hosts_and_the_first_runs_the_api(tmp_path: Path) -> None:
    topology = hosts_topology(THREE, peers=3, brokers=4, tokens=tmp_path)
    assert [(h.address, h.nodes, h.runs_api) for h in topology.hosts] == [
        ("alpha", ["peer-1", "broker-1", "broker-4"], True),
        ("beta", ["peer-2", "broker-2"], False),
        ("gamma", ["peer-3", "broker-3"], False),
    ]


def test_nodes_of_one_host_have_different_ports(tmp_path: Path) -> None:
    topology = hosts_topology(["alpha", "beta"], peers=5, brokers=5, tokens=tmp_path)
    for address in ("alpha", "beta"):
        ports = [b.port for b in topology.brokers if b.advertised == address]
        for peer in topology.peers:
            if peer.address == address:
                ports += [peer.client_port, peer.quorum_port, peer.election_port]
        assert len(ports) == len(set(ports))


def test_nodes_and_agents_are_reached_by_host_name(tmp_path: Path) -> None:
    topology = hosts_topology(THREE, tokens=tmp_path)
    zoo = zoo_cfg(topology, topology.peers[0], tmp_path)
    assert "server.2=beta:2888:3888\n" in zoo
    # A host can get another IP address. Its name then resolves to the new address.
    assert "quorumListenOnAllIPs=true\n" in zoo
    assert "advertised.listeners=PLAINTEXT://beta:9092\n" in server_properties(topology, topology.brokers[1], tmp_path)
    agents: Any = api_settings(topology, tmp_path)["agents"]
    assert [agent["url"] for agent in agents] == [f"http://{name}:7070" for name in THREE]
    assert "start it there with zabka agent" in agents[1]["remedy"]


def test_token_is_created_on_the_first_host_and_copied_manually(tmp_path: Path) -> None:
    topology = hosts_topology(THREE, tokens=tmp_path)
    assert host_called(topology, "alpha", tmp_path) == "host-1"
    with pytest.raises(BadPlan, match="copy it from alpha"):
        host_called(topology, "beta", tmp_path)
    (tmp_path / "agent.token").write_text("t\n")
    assert host_called(topology, "beta", tmp_path) == "host-2"


def test_unlisted_host_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(BadPlan, match="--here is one of alpha, beta, gamma, not 'delta'"):
        host_called(hosts_topology(THREE, tokens=tmp_path), "delta", tmp_path)


@pytest.mark.parametrize("names", [["alpha", "alpha"], ["alpha", ""], [""]])
def test_host_list_with_a_duplicate_or_empty_name_is_rejected(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(BadPlan, match="names each host once"):
        hosts_topology(names, tokens=tmp_path)


@pytest.mark.parametrize(("peers", "brokers"), [(0, 1), (PER_HOST_MAX + 1, 1), (1, -1), (1, PER_HOST_MAX + 1)])
def test_node_counts_that_do_not_fit_the_hosts_are_rejected(tmp_path: Path, peers: int, brokers: int) -> None:
    with pytest.raises(BadPlan, match="does not fit on 1 hosts"):
        hosts_topology(["alpha"], peers=peers, brokers=brokers, tokens=tmp_path)


def test_directory_of_an_ensemble_of_another_size_is_rejected(tmp_path: Path) -> None:
    lay_out("host-1", tmp_path, hosts_topology(THREE, tokens=tmp_path))
    with pytest.raises(BadPlan, match=r"ensemble of 3 peers, not 5.*choose another --data on every host"):
        lay_out("host-1", tmp_path, hosts_topology(THREE, peers=5, tokens=tmp_path))


def test_host_list_in_another_order_is_rejected(tmp_path: Path) -> None:
    lay_out("host-1", tmp_path, hosts_topology(THREE, tokens=tmp_path))
    node_directory(tmp_path, "peer-1").mkdir()
    with pytest.raises(BadPlan, match="holds peer-1, and host-2 is to have peer-2 and broker-2: name the hosts in the"):
        lay_out("host-2", tmp_path, hosts_topology(["beta", "alpha", "gamma"], tokens=tmp_path))
    assert lay_out("host-1", tmp_path, hosts_topology(THREE, tokens=tmp_path)).exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "name every host with --hosts and this one with --here"),
        (["--hosts", "a,b"], "name every host with --hosts and this one with --here"),
        (["--hosts", "a,b", "--here", "c"], "--here is one of a, b"),
        (["--hosts", "a,b", "--here", "a", "--set", "nonsense=1"], "nonsense is neither"),
    ],
)
def test_agent_command_error_lists_the_missing_options(tmp_path: Path, options: list[str], message: str) -> None:
    done = zabka("agent", *options, "--data", str(tmp_path))
    assert done.returncode == 1
    assert message in done.stderr and "Traceback" not in done.stderr
