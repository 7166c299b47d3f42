"""Kubernetes manifests: they match the topology, and every name that they refer to is defined.

Kubernetes does not run here. These tests check structure and cross references. A long test validates the manifests
against the published schemas of Kubernetes' API.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.compose.test_containers import ROOT, zabka
from zabka.compose.agent import create_app
from zabka.compose.containers import container_topology, topology_here
from zabka.compose.files import api_settings, token
from zabka.compose.host import Host
from zabka.compose.image import dockerfile
from zabka.compose.kept_files import HERE
from zabka.compose.manifests import AGENTS_SECRET, SETTINGS, as_yaml, kubernetes_yaml
from zabka.compose.plan import BadPlan, Requested, plan
from zabka.compose.share import lay_out
from zabka.compose.topology import server_properties, zoo_cfg

TOPOLOGY = container_topology(platform="kubernetes")
VALIDATOR = "kubernetes-validate==1.37.0"
VERSIONS = ("1.29", "1.37")
Object = dict[str, Any]


def objects(text: str = "") -> list[Object]:
    return list(yaml.safe_load_all(text or (HERE / "kubernetes.yaml").read_text()))


def of_kind(kind: str, found: list[Object] | None = None) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in found or objects() if each["kind"] == kind}


def workloads() -> dict[str, Object]:
    return {**of_kind("StatefulSet"), **of_kind("Deployment")}


def pods() -> dict[str, Object]:
    return {name: each["spec"]["template"]["spec"] for name, each in workloads().items()}


def containers() -> dict[str, Object]:
    return {name: container for name, pod in pods().items() for container in pod["containers"]}


def named_ports(container: Object) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container["ports"]}


# ---- the committed file ---------------------------------------------------------------------------------------------


def test_committed_manifests_equal_the_output_of_the_command(tmp_path: Path) -> None:
    out = tmp_path / "kubernetes.yaml"
    done = zabka("kubernetes", "--peers", "3", "--brokers", "3", "--out", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    assert out.read_text() == (HERE / "kubernetes.yaml").read_text()


@pytest.mark.parametrize(
    "value",
    [
        {"a": [{"b": "c", "d": ["e", {"f": 1}]}, "yes"], "g": {"h": True, "i": "1", "j": {}}, "k": "$(X) #"},
        {"l": "Null"},
    ],
)
def test_written_yaml_is_parsed_to_the_same_data(value: Object) -> None:
    assert yaml.safe_load(as_yaml(value)) == value


def test_secret_is_written_only_on_request_to_a_private_file(tmp_path: Path) -> None:
    assert not of_kind("Secret")
    out = tmp_path / "kubernetes.yaml"
    assert zabka("kubernetes", "--secret", "--out", str(out)).returncode == 0
    made = of_kind("Secret", objects(out.read_text()))[AGENTS_SECRET]["stringData"]["agent.token"]
    assert len(made) > 30
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert zabka("kubernetes", "--secret").stdout.count(made) == 0


def test_settings_are_stored_in_a_secret() -> None:
    settings = ["tickTime=300", "sasl.jaas.config=a$(HOME) \"b'"]
    found = objects(kubernetes_yaml(container_topology(settings=settings, platform="kubernetes"), settings))
    assert list(of_kind("Secret", found)) == [SETTINGS]
    elsewhere = [each for each in found if each["kind"] != "Secret"]
    assert "tickTime" not in as_yaml({"all": elsewhere})


# ---- references between objects -------------------------------------------------------------------------------------


def test_selector_matches_only_the_pods_of_one_workload() -> None:
    labels = {name: each["spec"]["template"]["metadata"]["labels"] for name, each in workloads().items()}

    def selected(selector: dict[str, str]) -> list[str]:
        return [name for name, has in labels.items() if selector.items() <= has.items()]

    for name, each in workloads().items():
        assert selected(each["spec"]["selector"]["matchLabels"]) == [name]
        (spread,) = each["spec"]["template"]["spec"]["topologySpreadConstraints"]
        assert selected(spread["labelSelector"]["matchLabels"]) == [name]
    assert {n: selected(s["spec"]["selector"]) for n, s in of_kind("Service").items()} == {
        "peers": ["peer"], "brokers": ["broker"], "api": ["api"],
    }  # fmt: skip
    assert {n: selected(b["spec"]["selector"]["matchLabels"]) for n, b in of_kind("PodDisruptionBudget").items()} == {
        "peers": ["peer"], "brokers": ["broker"],
    }  # fmt: skip


def test_every_stateful_set_has_its_headless_service() -> None:
    for each in of_kind("StatefulSet").values():
        service = of_kind("Service")[each["spec"]["serviceName"]]["spec"]
        assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)


def test_port_of_every_service_exists_in_its_container() -> None:
    for name, workload in {"peers": "peer", "brokers": "broker", "api": "api"}.items():
        own = named_ports(containers()[workload])
        for port in of_kind("Service")[name]["spec"]["ports"]:
            assert own[port["targetPort"]] == port["port"]


def test_path_of_every_probe_is_a_route_of_its_container(tmp_path: Path) -> None:
    local = plan(Requested(peers=1, brokers=0, zk_port=0, kafka_port=0, api_port=0), None)
    host = Host(local, local.hosts[0], tmp_path)
    of_agent = {getattr(route, "path", "") for route in create_app(host, "t").routes}
    host._journal.close()
    for name, container in containers().items():
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container[kind]["httpGet"]
            assert asked["port"] in named_ports(container)
            assert asked["path"] in (of_agent if asked["port"] == "agent" else {"/healthz"})
        assert (container["readinessProbe"]["httpGet"]["port"] == "http") is (name == "api")


def test_agent_container_stays_healthy_after_its_node_is_killed() -> None:
    for container in containers().values():
        assert container["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "agent"}
        assert container["startupProbe"]["httpGet"] == {"path": "/livez", "port": "agent"}


def test_every_mount_has_a_volume_and_every_volume_a_claim() -> None:
    for name, pod in pods().items():
        claimed = {each["metadata"]["name"] for each in workloads()[name]["spec"].get("volumeClaimTemplates", [])}
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        (container,) = pod["containers"]
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounted == {"data": "/data", "tokens": "/tokens", "tmp": "/tmp"}
        assert set(mounted) == set(volumes) | claimed and not set(volumes) & claimed
        if "data" in volumes:
            assert volumes["data"]["persistentVolumeClaim"]["claimName"] in of_kind("PersistentVolumeClaim")


def test_environment_sources_of_containers_exist() -> None:
    settings = ["tickTime=300"]
    found = objects(kubernetes_yaml(container_topology(settings=settings, platform="kubernetes"), settings))
    for each in (*of_kind("StatefulSet", found).values(), *of_kind("Deployment", found).values()):
        (container,) = each["spec"]["template"]["spec"]["containers"]
        (source,) = container["envFrom"]
        assert source["configMapRef"]["name"] in of_kind("ConfigMap", found)
        variables = {variable["name"]: variable["valueFrom"] for variable in container["env"]}
        secret_key = variables["ZABKA_SETTINGS"]["secretKeyRef"]
        assert secret_key["key"] in of_kind("Secret", found)[secret_key["name"]]["stringData"]
        assert variables["POD_NAME"] == {"fieldRef": {"fieldPath": "metadata.name"}}


# ---- configuration of nodes -----------------------------------------------------------------------------------------


def test_pods_are_named_after_their_nodes() -> None:
    sets = of_kind("StatefulSet")
    ordinals = {name: each["spec"]["ordinals"]["start"] for name, each in sets.items()}
    pods = [f"{name}-{ordinals[name] + i}" for name, each in sets.items() for i in range(each["spec"]["replicas"])]
    assert pods == [node.name for node in TOPOLOGY.nodes()]
    for name in sets:
        assert containers()[name]["command"] == ["python", "-m", "zabka.compose.containers", "$(POD_NAME)"]


def test_pod_reads_the_requested_topology(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for key, value in of_kind("ConfigMap")["zabka"]["data"].items():
        monkeypatch.setenv(key, value)
    topology = topology_here()
    assert topology == TOPOLOGY
    with pytest.raises(BadPlan, match="no host peer-4"):
        lay_out("peer-4", tmp_path, topology)


def test_nodes_reach_each_other_by_headless_service_name(tmp_path: Path) -> None:
    zoo = zoo_cfg(TOPOLOGY, TOPOLOGY.peers[0], tmp_path)
    assert "server.2=peer-2.peers:2888:3888\n" in zoo
    # A peer listens on all addresses, because its pod's address changes at each start, and its name may not resolve
    # yet.
    assert "quorumListenOnAllIPs=true\n" in zoo
    properties = server_properties(TOPOLOGY, TOPOLOGY.brokers[1], tmp_path)
    assert "INTERNAL://broker-2.brokers:19092,EXTERNAL://127.0.0.1:9093\n" in properties
    agents: Any = api_settings(TOPOLOGY, tmp_path)["agents"]
    assert [agent["url"] for agent in agents][:2] == ["http://127.0.0.1:7070", "http://peer-1.peers:7070"]
    assert "kubectl describe pod peer-1" in agents[1]["remedy"]


def test_peers_are_started_in_parallel() -> None:
    # With the policy OrderedReady, each pod would wait until the previous one is ready. But a peer is not ready without
    # a quorum.
    assert {each["spec"]["podManagementPolicy"] for each in of_kind("StatefulSet").values()} == {"Parallel"}


def test_disruption_budget_allows_one_pod_of_each_node_kind() -> None:
    assert {each["spec"]["maxUnavailable"] for each in of_kind("PodDisruptionBudget").values()} == {1}


def test_api_runs_in_one_pod_at_a_time() -> None:
    api = of_kind("Deployment")["api"]["spec"]
    assert (api["replicas"], api["strategy"]) == (1, {"type": "Recreate"})


def test_supplied_token_is_used_and_left_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "agent.token"
    given.write_text("secret")
    given.chmod(0o440)
    monkeypatch.setattr(os, "getuid", lambda: given.stat().st_uid + 1)
    assert token(given) == "secret"
    assert stat.S_IMODE(given.stat().st_mode) == 0o440


# ---- privileges of a pod --------------------------------------------------------------------------------------------


def test_pods_meet_the_restricted_pod_security_standard() -> None:
    for pod in pods().values():
        own, (container,) = pod["securityContext"], pod["containers"]
        assert own["runAsNonRoot"] is True
        assert own["runAsUser"] == own["fsGroup"] == 10001
        assert own["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
        assert pod["automountServiceAccountToken"] is False
        assert container["resources"]["limits"]["memory"] == "1Gi"
        assert "hostPath" not in as_yaml({"pod": pod})


def test_pod_runs_as_the_user_of_the_image() -> None:
    assert "--uid 10001 " in dockerfile()


def test_pods_and_containers_have_the_same_stop_timeout() -> None:
    composition = yaml.safe_load((HERE / "compose.yaml").read_text())
    assert {f"{pod['terminationGracePeriodSeconds']}s" for pod in pods().values()} == {
        composition["services"]["peer-1"]["stop_grace_period"]
    }


# ---- counts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("peers", "brokers"), [(1, 0), (5, 7)])
def test_manifests_have_one_replica_per_node(peers: int, brokers: int) -> None:
    found = objects(kubernetes_yaml(container_topology(peers, brokers, platform="kubernetes"), []))
    replicas = {name: each["spec"]["replicas"] for name, each in of_kind("StatefulSet", found).items()}
    assert replicas == ({"peer": peers, "broker": brokers} if brokers else {"peer": peers})
    assert ("brokers" in of_kind("Service", found)) is bool(brokers)


@pytest.mark.parametrize(("option", "value"), [("--set", "nonsense=1"), ("--peers", "0"), ("--storage", "much")])
def test_invalid_option_is_rejected_with_a_message(option: str, value: str) -> None:
    done = zabka("kubernetes", option, value)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("zabka: ")


# ---- a validator ---------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.timeout(300)
def test_manifests_match_the_kubernetes_schemas(tmp_path: Path) -> None:
    """The manifests match the published schemas of Kubernetes' API.

    The validator runs in a separate environment, because it installs 22 MB of schemas that nothing else needs.
    """
    environment = tmp_path / "validator"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, timeout=120)
    install = [environment / "bin" / "python", "-m", "pip", "install", "--quiet", VALIDATOR]
    done = subprocess.run(install, capture_output=True, text=True, timeout=200, check=False)
    if "No matching distribution found" in done.stderr and "CI" not in os.environ:
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr
    settings = ["tickTime=300"]
    whole = container_topology(settings=settings, platform="kubernetes")
    with_all = tmp_path / "with-all.yaml"
    with_all.write_text(kubernetes_yaml(whole, settings, agents_token="t"))
    for version in VERSIONS:
        for file in (HERE / "kubernetes.yaml", with_all):
            validate = [environment / "bin" / "kubernetes-validate", "--strict", "-k", version, file]
            done = subprocess.run(validate, capture_output=True, text=True, timeout=100, check=False, cwd=ROOT)
            assert done.returncode == 0, done.stdout + done.stderr
    broken = tmp_path / "broken.yaml"
    broken.write_text((HERE / "kubernetes.yaml").read_text().replace("podManagementPolicy", "podManagement"))
    validate = [environment / "bin" / "kubernetes-validate", "--strict", "-k", VERSIONS[-1], broken]
    assert subprocess.run(validate, capture_output=True, timeout=100, check=False).returncode != 0
