"""compose.yaml and Dockerfile: what the topology says, and nothing that a container should not have.

There is no container engine where these tests run: they hold the files' text and structure, not a running composition.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from compose import containers
from compose.containers import container_topology
from compose.files import api_settings, write_host
from compose.topology import server_properties, zoo_cfg

HERE = Path(containers.__file__).parent
TOPOLOGY = container_topology()


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "compose.yaml").read_text())["services"]
    return found


def test_the_files_are_what_the_generator_makes() -> None:
    assert (HERE / "compose.yaml").read_text() == containers.compose_yaml(TOPOLOGY)
    assert (HERE / "Dockerfile").read_text() == containers.dockerfile()
    assert (HERE / "Dockerfile.dockerignore").read_text() == containers.dockerignore()


def test_every_node_has_a_container_and_every_container_one_agent() -> None:
    nodes = [node.name for node in TOPOLOGY.nodes()]

    assert list(services()) == ["api", *nodes]
    assert [h.nodes for h in TOPOLOGY.hosts] == [[], *([n] for n in nodes)]
    for host, service in zip(TOPOLOGY.hosts, services().values(), strict=True):
        assert service["command"] == ["python", "-m", "compose.containers", host.name]


def test_one_image_runs_as_a_user_without_rights_under_an_init() -> None:
    for service in services().values():
        assert service["image"] == "zabka"
        assert service["init"] is True
        assert service["user"] == "10001:10001"
        assert service["cap_drop"] == ["ALL"]
        assert not service.get("privileged")


def test_no_docker_socket_is_mounted_and_data_is_in_named_volumes() -> None:
    document = yaml.safe_load((HERE / "compose.yaml").read_text())

    for name, service in document["services"].items():
        assert service["volumes"] == [f"{name}:/data", "tokens:/tokens"]
    assert set(document["volumes"]) == {*document["services"], "tokens"}
    assert "docker.sock" not in (HERE / "compose.yaml").read_text()


def test_ports_are_published_on_loopback_alone_and_none_twice() -> None:
    published = [port for service in services().values() for port in service["ports"]]

    assert all(port.startswith("127.0.0.1:") for port in published)
    assert len({port.split(":")[1] for port in published}) == len(published) == 7


def test_brokers_and_the_api_wait_for_healthy_peers() -> None:
    peers = {f"peer-{i}": {"condition": "service_healthy"} for i in (1, 2, 3)}

    for name, service in services().items():
        assert service["healthcheck"]["test"][:4] == ["CMD", "python", "-m", "compose.healthcheck"]
        assert service.get("depends_on", {}) == ({} if name.startswith("peer-") else peers)


def test_nodes_reach_each_other_by_their_services_names(tmp_path: Path) -> None:
    zoo = zoo_cfg(TOPOLOGY, TOPOLOGY.peers[0], tmp_path)
    properties = server_properties(TOPOLOGY, TOPOLOGY.brokers[1], tmp_path)

    assert "server.2=peer-2:2888:3888\n" in zoo
    assert "zookeeper.connect=peer-1:2181,peer-2:2181,peer-3:2181\n" in properties
    assert "advertised.listeners=INTERNAL://broker-2:19092,EXTERNAL://127.0.0.1:9093\n" in properties
    assert "inter.broker.listener.name=INTERNAL\n" in properties


def test_the_api_asks_every_container_s_agent(tmp_path: Path) -> None:
    settings = api_settings(TOPOLOGY, tmp_path)

    agents: Any = settings["agents"]
    assert [(a["url"], a["nodes"]) for a in agents][1] == ("http://peer-1:7070", ["peer-1"])
    assert settings["token_file"] == "/tokens/token"


def test_tokens_are_made_once_and_are_private(tmp_path: Path) -> None:
    import msgspec

    topology = msgspec.structs.replace(TOPOLOGY, token_directory=str(tmp_path))
    write_host(topology, topology.hosts[0], tmp_path)
    made = (tmp_path / "token").read_text()
    write_host(topology, topology.hosts[1], tmp_path)

    assert (tmp_path / "token").read_text() == made
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert len(made.strip()) > 30
