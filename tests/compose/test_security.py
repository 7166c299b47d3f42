"""Secured clusters: the secrets, the nodes' configuration, and the secrets of containers."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.compose.test_containers import zabka
from zabka.broker_sim.client_security import read_client_config
from zabka.broker_sim.configs.broker_config import parse_config
from zabka.compose.composition import compose_yaml
from zabka.compose.containers import SECRETS, container_topology, topology_here
from zabka.compose.files import api_settings
from zabka.compose.manifests import manifests
from zabka.compose.plan import Requested, plan
from zabka.compose.secured_nodes import API, BROKER, PEER, read_users, secrets_of
from zabka.compose.security import contents, own_client_properties, write_secrets
from zabka.compose.topology import Topology, server_properties, write_node, zoo_cfg
from zabka.ensemble.server.config.zoo_cfg import load

PORTS = Requested(peers=1, brokers=2, zk_port=0, kafka_port=0, api_port=0, secure=True)
CONTAINERS = container_topology(secure=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secured")


@pytest.fixture(scope="module")
def local(data: Path) -> Topology:
    topology = plan(PORTS, None)
    write_secrets(topology, data / "security", data)
    return topology


def files_in(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# ---- secrets on this machine -----------------------------------------------------------------------------------------


def test_secrets_are_readable_only_by_their_owner(local: Topology, data: Path) -> None:
    assert mode_of(data / "security") == 0o700
    found = [*(data / "security").iterdir(), data / "client.properties", data / "client.json"]
    assert {mode_of(path) for path in found} == {0o600} and len(found) > 10


def test_passwords_of_two_clusters_and_of_all_users_differ(local: Topology, data: Path, tmp_path: Path) -> None:
    write_secrets(local, tmp_path / "security", tmp_path)
    here, there = (list(read_users(each / "security").values()) for each in (data, tmp_path))
    assert len({*here, *there}) == 10 and min(map(len, here)) >= 32


def test_second_start_keeps_secrets(local: Topology, data: Path) -> None:
    before = files_in(data / "security")
    write_secrets(plan(PORTS, local), data / "security", data)
    assert files_in(data / "security") == before


def test_new_host_name_gets_a_certificate_of_the_same_authority(local: Topology, tmp_path: Path) -> None:
    write_secrets(local, tmp_path / "security", tmp_path)
    before = files_in(tmp_path / "security")
    moved = [msgspec.structs.replace(broker, advertised="b.example") for broker in local.brokers]
    write_secrets(msgspec.structs.replace(local, brokers=moved), tmp_path / "security", tmp_path)
    after = files_in(tmp_path / "security")
    for name in ("ca.pem", "ca-key.pem", "users.properties", "admin.pem"):
        assert after[name] == before[name]
    assert after["broker.pem"] != before["broker.pem"]


def test_new_authority_issues_every_certificate_again(local: Topology, tmp_path: Path) -> None:
    directory = tmp_path / "security"
    write_secrets(local, directory, tmp_path)
    before = files_in(directory)
    (directory / "ca-key.pem").unlink()
    write_secrets(local, directory, tmp_path)
    after = files_in(directory)
    issued = [name for name in before if name.endswith(".pem")]
    assert len(issued) == 6 and all(after[name] != before[name] for name in issued)
    assert after["users.properties"] == before["users.properties"]


def test_missing_user_gets_a_password_and_others_keep_theirs(local: Topology, tmp_path: Path) -> None:
    directory = tmp_path / "security"
    write_secrets(local, directory, tmp_path)
    path = directory / "users.properties"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("bob=")))
    before = read_users(directory)
    write_secrets(local, directory, tmp_path)
    assert read_users(directory) | before == read_users(directory) and len(before) == len(read_users(directory)) - 1


# ---- configuration of nodes ------------------------------------------------------------------------------------------


def test_broker_of_a_secured_cluster_has_no_plain_connections(local: Topology, data: Path) -> None:
    config = parse_config(server_properties(local, local.brokers[0], data))
    assert [listener.protocol for listener in config.listeners] == ["SASL_SSL"]
    assert config.ensemble_tls is not None and config.ensemble_tls.own is not None
    assert config.credentials["SASL_SSL"].user == "broker"
    assert config.sasl["SASL_SSL"].plain_users == read_users(data / "security")
    assert config.text("super.users") == "User:admin;User:api;User:broker"
    assert config.warnings == ()
    shown = config.effective()
    assert not any(password in str(shown) for password in read_users(data / "security").values())


def test_own_super_users_are_added_to_those_of_the_cluster(local: Topology, data: Path) -> None:
    own = msgspec.structs.replace(local, kafka={"super.users": "User:me", "sasl.enabled.mechanisms": "PLAIN"})
    config = parse_config(server_properties(own, own.brokers[0], data))
    assert config.text("super.users") == "User:admin;User:api;User:broker;User:me"
    assert config.sasl["SASL_SSL"].mechanisms == ("PLAIN",)


def test_peer_of_a_secured_cluster_has_only_tls_ports(local: Topology, data: Path) -> None:
    config = load(write_node(local, local.peers[0], data))
    assert config.client_port is None and config.secure_client_port == local.peers[0].client_port
    assert config.client_tls is not None and config.client_tls.client_auth == "need"
    assert config.ssl_quorum and not config.port_unification


def test_secured_cluster_stays_secured_on_the_next_start(local: Topology) -> None:
    assert plan(Requested(), local).secure
    assert not plan(Requested(secure=False), local).secure
    assert local.api_url.startswith("https://")


def test_client_settings_of_admin_reach_the_brokers(local: Topology, data: Path) -> None:
    assert read_client_config(data / "client.properties").bootstrap == local.bootstrap
    assert own_client_properties(local, data) == data / "client.properties"


# ---- containers ------------------------------------------------------------------------------------------------------


def kind_of(name: str) -> str:
    return name.partition("-")[0]


def test_container_mounts_only_the_secrets_of_its_node() -> None:
    document: dict[str, Any] = yaml.safe_load(compose_yaml(CONTAINERS))
    for name, service in document["services"].items():
        assert tuple(service.get("secrets", ())) == (() if name == "spark" else secrets_of(kind_of(name)))
    assert document["secrets"] == {
        name: {"file": f"./zabka-secrets/{name}"} for kind in (PEER, BROKER, API) for name in secrets_of(kind)
    }
    assert document["services"]["api"]["healthcheck"]["test"][-2:] == ["7070", "tls:8080"]


def test_secured_container_reads_its_secrets_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for key, value in yaml.safe_load(compose_yaml(CONTAINERS))["services"]["api"]["environment"].items():
        monkeypatch.setenv(key, value)
    assert topology_here() == CONTAINERS
    assert f"ssl.keyStore.location={SECRETS}/peer.pem" in zoo_cfg(CONTAINERS, CONTAINERS.peers[0], tmp_path)
    security = api_settings(CONTAINERS, tmp_path)["security"]
    assert isinstance(security, dict) and {str(Path(path).parent) for path in security.values()} >= {SECRETS}
    assert own_client_properties(CONTAINERS, tmp_path) == Path(SECRETS, "api.properties")


def test_compose_command_writes_secrets_next_to_the_file(tmp_path: Path) -> None:
    out = tmp_path / "compose.yaml"
    done = zabka("compose", "--secure", "--out", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    secrets = tmp_path / "zabka-secrets"
    nodes = {name for kind in (PEER, BROKER, API) for name in secrets_of(kind)}
    # The containers' user is another user, but only the owner can open the directory.
    assert {mode_of(secrets / name) for name in nodes} == {0o644} and mode_of(secrets) == 0o700
    assert mode_of(secrets / "ca-key.pem") == mode_of(secrets / "client.properties") == 0o600
    assert not any(password in out.read_text() for password in read_users(secrets).values())
    assert read_client_config(secrets / "client.properties").bootstrap.startswith("127.0.0.1:9092,")
    assert zabka("compose", "--secure").stderr.startswith("zabka: --secure writes certificates and passwords")


def test_pod_mounts_the_secret_of_its_kind(tmp_path: Path) -> None:
    topology = container_topology(platform="kubernetes", secure=True)
    write_secrets(topology, tmp_path / "secrets", tmp_path)
    found = manifests(topology, [], "zabka", "2Gi", "", contents(tmp_path / "secrets"))
    written = {each["metadata"]["name"]: set(each["stringData"]) for each in found if each["kind"] == "Secret"}
    assert written == {f"zabka-{kind}": set(secrets_of(kind)) for kind in (PEER, BROKER, API)}
    pods = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in found
        if each["kind"] in ("StatefulSet", "Deployment")
    }
    for name, pod in pods.items():
        volumes = {volume["name"]: volume.get("secret", {}).get("secretName") for volume in pod["volumes"]}
        (container,) = pod["containers"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert (volumes["secrets"], mounts["secrets"]) == (f"zabka-{name}", SECRETS)
    elsewhere = str([each for each in found if each["kind"] != "Secret"])
    assert not any(password in elsewhere for password in read_users(tmp_path / "secrets").values())
    assert pods["api"]["containers"][0]["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
