"""compose.yaml, Dockerfile and lock files match the topology, and containers get only the files and rights they need.

These tests check the files' content and structure. `test_engine` runs them where a container engine is available.
"""

from __future__ import annotations

import ast
import json
import os
import re
import stat
import subprocess
import sys
from fnmatch import fnmatch
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.house.packages import PACKAGES, files_of
from zabka.compose.composition import compose_yaml
from zabka.compose.config_keys import BadSetting
from zabka.compose.containers import container_topology, topology_here
from zabka.compose.files import api_settings, write_host
from zabka.compose.image import LINKED, NODES_LOCK, SPARK_LOCK, dockerfile, dockerignore
from zabka.compose.kept_files import HERE, kept_files
from zabka.compose.plan import BadPlan
from zabka.compose.share import lay_out
from zabka.compose.topology import save, server_properties, zoo_cfg

ROOT = HERE.parent
TOPOLOGY = container_topology()
NODES = [node.name for node in TOPOLOGY.nodes()]


def document() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((HERE / "compose.yaml").read_text())
    return found


def services() -> dict[str, dict[str, Any]]:
    """Return the services in compose.yaml, without Spark's."""
    return {name: service for name, service in document()["services"].items() if name != "spark"}


def zabka(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "zabka.cli.main", *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
    )


# ---- the committed files --------------------------------------------------------------------------------------------


def test_committed_files_equal_the_output_of_the_generator() -> None:
    for name, text in kept_files().items():
        assert (HERE / name).read_text() == text


def test_committed_compose_file_equals_the_output_of_the_command() -> None:
    out = HERE / "compose.yaml.of-a-test.tmp"
    try:
        done = zabka("compose", "--peers", "3", "--brokers", "3", "--out", str(out))
        assert (done.returncode, done.stderr) == (0, "")
        assert out.read_text() == (HERE / "compose.yaml").read_text()
    finally:
        out.unlink(missing_ok=True)


# ---- services ------------------------------------------------------------------------------------------------------


def test_every_node_has_a_container_with_one_agent() -> None:
    assert list(services()) == ["api", *NODES]
    assert [h.nodes for h in TOPOLOGY.hosts] == [[], *([n] for n in NODES)]
    for host, service in zip(TOPOLOGY.hosts, services().values(), strict=True):
        assert service["command"] == ["python", "-m", "zabka.compose.containers", host.name]


def test_container_has_minimal_privileges() -> None:
    for service in document()["services"].values():
        assert service["init"] is True
        assert service["user"] == "10001:10001"
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["read_only"] is True
        assert [mount.partition(":")[0] for mount in service["tmpfs"]] == ["/tmp"]
        assert service["pids_limit"] and service["mem_limit"]
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}
        assert not service.get("privileged")


def test_one_service_builds_the_image_of_all_nodes() -> None:
    assert {service["image"] for service in services().values()} == {"zabka"}
    assert [name for name, service in services().items() if "build" in service] == ["api"]


def test_no_docker_socket_is_mounted_and_volumes_are_named() -> None:
    for name, service in services().items():
        assert service["volumes"] == [f"{name}:/data", "tokens:/tokens"]
    assert set(document()["volumes"]) == {*services(), "tokens", "tables"}
    assert "docker.sock" not in (HERE / "compose.yaml").read_text()
    assert "VOLUME" not in dockerfile(), "an unnamed volume would be anonymous"


def test_spark_starts_on_demand_with_read_only_journals() -> None:
    spark = document()["services"]["spark"]
    assert spark["profiles"] == ["spark"]
    assert spark["build"]["target"] == "spark"
    # Parquet's compression library is loaded from the tmpfs, which by default forbids executing files.
    assert "exec" in spark["tmpfs"][0].split(",")
    assert spark["volumes"] == [*(f"{name}:/journals/{name}:ro" for name in services()), "tables:/tables"]


def test_ports_are_published_once_and_only_on_loopback() -> None:
    published = [port for service in services().values() for port in service["ports"]]

    assert all(port.startswith("127.0.0.1:") for port in published)
    assert len({port.split(":")[1] for port in published}) == len(published) == 7


def test_brokers_and_the_api_wait_for_healthy_peers() -> None:
    peers = {f"peer-{i}": {"condition": "service_healthy"} for i in (1, 2, 3)}

    for name, service in services().items():
        assert service.get("depends_on", {}) == ({} if name.startswith("peer-") else peers)


def test_agents_and_the_api_have_health_checks() -> None:
    probe = ["CMD", "python", "-I", "-m", "zabka.compose.healthcheck", "7070"]
    for name, service in services().items():
        assert service["healthcheck"]["test"] == ([*probe, "8080"] if name == "api" else probe)
        # Failed probes do not count during this period. It is long enough to start seven containers on a busy machine.
        assert service["healthcheck"]["start_period"] == "180s"


# ---- configuration of nodes -----------------------------------------------------------------------------------------


def test_nodes_reach_each_other_by_service_name(tmp_path: Path) -> None:
    zoo = zoo_cfg(TOPOLOGY, TOPOLOGY.peers[0], tmp_path)
    properties = server_properties(TOPOLOGY, TOPOLOGY.brokers[1], tmp_path)

    assert "server.2=peer-2:2888:3888\n" in zoo
    assert "zookeeper.connect=peer-1:2181,peer-2:2181,peer-3:2181\n" in properties
    assert "advertised.listeners=INTERNAL://broker-2:19092,EXTERNAL://127.0.0.1:9093\n" in properties
    assert "inter.broker.listener.name=INTERNAL\n" in properties


def test_api_settings_list_all_agents_and_external_addresses(tmp_path: Path) -> None:
    settings = api_settings(TOPOLOGY, tmp_path)

    agents: Any = settings["agents"]
    assert [(a["url"], a["nodes"]) for a in agents][1] == ("http://peer-1:7070", ["peer-1"])
    assert settings["external"] == ["127.0.0.1:9092", "127.0.0.1:9093", "127.0.0.1:9094"]


def test_agents_share_a_token_that_differs_from_the_api_token(tmp_path: Path) -> None:
    tokens, api, node = tmp_path / "tokens", tmp_path / "api", tmp_path / "peer-1"
    for directory in (tokens, api, node):
        directory.mkdir()
    topology = msgspec.structs.replace(TOPOLOGY, token_directory=str(tokens))
    write_host(topology, topology.hosts[0], api)
    write_host(topology, topology.hosts[1], node)

    assert [path.name for path in tokens.iterdir()] == ["agent.token"]
    assert not (node / "token").exists()
    assert len((api / "token").read_text().strip()) > 30
    assert {stat.S_IMODE(path.stat().st_mode) for path in (api / "token", tokens / "agent.token")} == {0o600}
    made = (tokens / "agent.token").read_text()
    write_host(topology, topology.hosts[2], node)
    assert (tokens / "agent.token").read_text() == made


def test_data_volume_of_an_ensemble_of_another_size_is_rejected(tmp_path: Path) -> None:
    save(container_topology(peers=3), tmp_path)
    with pytest.raises(BadPlan, match="ensemble of 3 peers, not 5"):
        lay_out("host-2", tmp_path, container_topology(peers=5))


# ---- counts and settings -------------------------------------------------------------------------------------------


def test_container_reads_the_requested_topology(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ["tickTime=300", "sasl.jaas.config=a$HOME ${x} \"b'", "replica.lag.time.max.ms=1500"]
    topology = container_topology(5, 2, "kafka", settings)
    written = yaml.safe_load(compose_yaml(topology, settings))["services"]["broker-2"]["environment"]
    for key, value in written.items():
        # Compose replaces two dollar signs with one.
        assert "$" not in value.replace("$$", "")
        monkeypatch.setenv(key, value.replace("$$", "$"))

    assert topology_here() == topology
    assert topology.zookeeper == {"tickTime": "300"}
    assert topology.kafka["sasl.jaas.config"] == "a$HOME ${x} \"b'"


@pytest.mark.parametrize(("peers", "brokers"), [(1, 0), (1, 1), (5, 7)])
def test_compose_has_one_service_per_node(peers: int, brokers: int) -> None:
    made = yaml.safe_load(compose_yaml(container_topology(peers, brokers)))
    assert len(made["services"]) == 1 + peers + brokers + 1
    assert len(made["services"]["api"]["depends_on"]) == peers


@pytest.mark.parametrize("counts", [(0, 3), (3, -1), (256, 3), (3, 256)])
def test_invalid_node_counts_are_rejected(counts: tuple[int, int]) -> None:
    with pytest.raises(BadPlan, match="is between"):
        container_topology(*counts)


def test_unknown_setting_is_rejected_with_a_message() -> None:
    with pytest.raises(BadSetting):
        container_topology(settings=["nonsense=1"])
    done = zabka("compose", "--set", "nonsense=1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("zabka: nonsense is neither")


def test_settings_file_is_readable_only_by_its_user(tmp_path: Path) -> None:
    out = tmp_path / "compose.yaml"
    assert zabka("compose", "--set", "tickTime=300", "--out", str(out)).returncode == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert yaml.safe_load(out.read_text())["x-build"]["context"] == str(ROOT)
    assert json.loads(yaml.safe_load(out.read_text())["x-node"]["environment"]["ZABKA_SETTINGS"]) == ["tickTime=300"]


# ---- the image -----------------------------------------------------------------------------------------------------


def pinned(lock: str) -> set[str]:
    return set(re.findall(r"^([A-Za-z0-9._-]+)==", (HERE / lock).read_text(), re.MULTILINE))


def test_node_image_contains_no_test_tools_and_no_spark() -> None:
    assert pinned(NODES_LOCK) >= {"fastapi", "uvicorn", "msgspec", "kazoo", "cryptography"}
    assert not pinned(NODES_LOCK) & {"pytest", "mypy", "ruff", "hypothesis", "playwright", "pyspark", "pandas"}
    assert pinned(SPARK_LOCK) >= {"pyspark", "pandas", "pyarrow"}
    assert not pinned(NODES_LOCK) & pinned(SPARK_LOCK)


def test_every_pinned_package_has_hashes() -> None:
    for name in (NODES_LOCK, SPARK_LOCK):
        blocks = re.split(r"^(?=[A-Za-z0-9])", (HERE / name).read_text(), flags=re.MULTILINE)[1:]
        assert blocks and all("--hash=sha256:" in block for block in blocks)


def test_every_imported_package_is_in_the_node_lock_file() -> None:
    named = set()
    for path in (path for package in PACKAGES if package not in ("testing", "pipeline") for path in files_of(package)):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                named |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                named.add(node.module.partition(".")[0])
    owners = packages_distributions()
    required = {re.sub(r"[-_.]+", "-", owner).lower() for name in named for owner in owners.get(name, [])}
    # pyarrow is only in the Spark image, and pyspark is imported only for type checking. packaging and setuptools are
    # used only to build lock files and wheels in the source tree.
    assert required - {"zabka", "pyarrow", "pyspark", "packaging", "setuptools"} <= pinned(NODES_LOCK)
    assert {"fastapi", "msgspec"} <= required


def test_editing_documents_does_not_invalidate_the_build_cache() -> None:
    rules = [line for line in dockerignore().splitlines() if not line.startswith("#")]
    assert rules[0] == "*"
    kept = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    assert not any(fnmatch(name, rule) for rule in kept for name in ("README.md", "CHANGELOG.md", "docs", "tests"))
    assert {*LINKED, "zabka"} <= set(kept)
    # The dependencies must be installed before the project's own files are copied, so that a change of these files
    # keeps the cached layer.
    assert dockerfile().index(f"-r /tmp/{SPARK_LOCK}") < dockerfile().index("COPY . .")


def test_final_image_stages_contain_no_build_tools() -> None:
    stages = re.split(r"^FROM ", dockerfile(), flags=re.MULTILINE)
    for stage in stages:
        if re.match(r"\S+ AS (spark|nodes)\n", stage):
            assert "RUN" not in stage and "/opt/pip" not in stage
            assert "COPY --from=project /packages/" in stage


def test_base_images_can_be_pinned_by_digest() -> None:
    bases = set(re.findall(r"^FROM (\S+)", dockerfile(), re.MULTILINE))
    assert {base for base in bases if base.startswith("$")} == {"${PYTHON_IMAGE}", "${NODE_IMAGE}", "${JRE_IMAGE}"}
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", dockerfile(), re.MULTILINE))
    assert {base for base in bases if not base.startswith("$")} <= stages
    (final,) = (stage for stage in re.split(r"^FROM ", dockerfile(), flags=re.MULTILINE) if " AS runtime" in stage)
    assert final.index("ARG PYTHON_IMAGE") < final.index('base.name="${PYTHON_IMAGE}"')
