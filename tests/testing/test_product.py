"""Uses of the fixtures: outside pytest, with Hypothesis, and with other pytest plugins. Also tests reports of
failures.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zabka.compose.files import RUN_FILE, is_running
from zabka.compose.ports import CLAIM, claim_ports
from zabka.testing import ClusterFailed, LiveCluster, ZabkaContainer, running_world
from zabka.testing.journal_report import report
from zabka.testing.live.start import start_live

ROOT = Path(__file__).resolve().parents[2]


@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 1000), values=st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=4))
def test_hypothesis_test_gets_a_new_world_for_each_example(seed: int, values: list[str]) -> None:
    with running_world(seed=seed) as world:
        world.topics.create("words")
        world.produce("words", values)
        assert world.consume("words") == values


def test_world_is_closed_at_context_exit_even_after_an_error() -> None:
    with pytest.raises(ClusterFailed, match="did not come true"), running_world() as world:
        world.until(lambda: False, 1.0)
    assert {peer.process for peer in world.peers.values()} == {"down"}


def test_report_explains_an_election_before_a_newer_isr_change() -> None:
    with running_world() as world:
        topic = world.topics.create("orders")
        leader = topic.partitions[0].leader
        next(broker for broker in world.brokers.values() if broker.id != leader and not broker.is_controller).kill()
        world.until(lambda: len(topic.partitions[0].isr) == 2)
        assert [e["type"] for e in world.events("isr_changed", "leader_elected")][-1] == "isr_changed"
        output = report(world.journal()).partition("causes of the newest ")[2]
    # The report explains the leader election rather than the ISR change, although the latter is newer.
    assert output.startswith("leader_elected:\n")


@pytest.mark.parametrize("options", [{"peers": 0}, {"settings": {"no.such.key": "1"}}])
def test_world_that_cannot_be_created_raises_cluster_failed(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ClusterFailed, match="cannot be made"), running_world(**options):
        pass
    with pytest.raises(ClusterFailed, match="cannot be started"):
        start_live(tmp_path, **options)


def test_cluster_is_stopped_if_its_driver_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zabka.testing.live.cluster", None)
    with pytest.raises(ImportError):
        start_live(tmp_path, peers=1, brokers=1)
    assert not is_running(tmp_path)


def test_cluster_that_cannot_start_releases_its_directory(tmp_path: Path) -> None:
    (tmp_path / RUN_FILE / "in the way").mkdir(parents=True)
    with pytest.raises(ClusterFailed):
        start_live(tmp_path, peers=1, brokers=1)
    assert not is_running(tmp_path)


def run_pytest(directory: Path, *arguments: str, path: str = str(ROOT), code: int) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-pno:cacheprovider", "-pzabka.testing.pytest_plugin", *arguments],
        cwd=directory, env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    output = done.stdout + done.stderr
    assert done.returncode == code, output
    return output


def test_failure_report_has_events_causes_and_replay_command(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "def test_it(zabka_world):\n"
        "    zabka_world.topics.create('orders')\n"
        "    zabka_world.brokers[zabka_world.controller.id].kill()\n"
        "    zabka_world.until(lambda: zabka_world.controller_epoch == 2)\n"
        "    assert False\n"
    )
    output = run_pytest(tmp_path, "--zabka-seed", "4", f"--basetemp={tmp_path / 'temporary'}", "test_mine.py", code=1)

    assert "the last 20 of" in output
    assert "is controller, epoch 2" in output
    assert "causes of the newest leader_elected:" in output
    assert "first cause:" in output
    assert "pytest 'test_mine.py::test_it' --zabka-seed 4" in output


def test_replay_command_of_a_failing_seed_has_the_world_size(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('who', [\"it's\"])\n"
        "def test_it(zabka_world, who):\n"
        "    assert len(zabka_world.brokers) != 4 or zabka_world.peers.keys() != {1}\n"
    )
    size = ("--zabka-brokers", "4", "--zabka-peers", "1")
    output = run_pytest(tmp_path, *size, f"--basetemp={tmp_path / 'temporary'}", "test_mine.py", code=1)
    command = next(line for line in output.splitlines() if line.startswith("pytest "))
    assert shlex.split(command)[1:] == [
        "test_mine.py::test_it[it's]", "--zabka-seed", "0", "--zabka-peers", "1", "--zabka-brokers", "4",
    ]  # fmt: skip


def test_unusable_marker_argument_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "import pytest\n"
        "@pytest.mark.zabka(5)\n"
        "def test_five(zabka_world):\n"
        "    pass\n"
        "@pytest.mark.zabka(peer=5)\n"
        "def test_other(zabka_cluster):\n"
        "    pass\n"
    )
    output = run_pytest(tmp_path, "test_mine.py", code=1)
    assert "the marker takes advertised, brokers, peers, ports, secure, seed, settings, by name: not zabka(5)" in output
    assert "not zabka(peer=5)" in output
    assert "2 errors" in output


def test_two_clusters_never_use_the_same_ports() -> None:
    first, second = claim_ports(), claim_ports()
    try:
        assert first.within is not None and second.within is not None
        assert len(first.within) == CLAIM and set(first.within).isdisjoint(second.within)
    finally:
        first.close()
        second.close()


def test_xdist_workers_have_clusters_with_different_ports(tmp_path: Path) -> None:
    # Each worker's test waits until the cluster of the other worker runs too.
    (tmp_path / "test_mine.py").write_text(
        "import json, os, time\n"
        "from pathlib import Path\n"
        "import pytest\n"
        "from zabka.compose.topology import load\n"
        "@pytest.mark.parametrize('half', [0, 1])\n"
        "def test_it(zabka_cluster, half):\n"
        "    topology = load(zabka_cluster.data)\n"
        "    ports = [b.port for b in topology.brokers] + [topology.api_port, topology.hosts[0].agent_port]\n"
        "    ports += [p for s in topology.peers for p in (s.client_port, s.quorum_port, s.election_port)]\n"
        "    mine = Path(__file__).parent / f'{half}.json'\n"
        "    mine.with_suffix('.new').write_text(json.dumps([os.environ['PYTEST_XDIST_WORKER'], ports]))\n"
        "    mine.with_suffix('.new').rename(mine)\n"
        "    zabka_cluster.topics.create('orders')\n"
        "    zabka_cluster.produce('orders', ['a'])\n"
        "    deadline = time.monotonic() + 60\n"
        "    while not mine.with_stem(str(1 - half)).exists():\n"
        "        assert time.monotonic() < deadline\n"
        "        time.sleep(0.05)\n"
        "    assert zabka_cluster.consume('orders') == ['a']\n"
    )
    output = run_pytest(
        tmp_path, "-p", "xdist.plugin", "-n", "2", f"--basetemp={tmp_path / 'temporary'}", "test_mine.py", code=0
    )
    assert "2 passed" in output
    (one, own), (other, others) = (json.loads((tmp_path / f"{half}.json").read_text()) for half in (0, 1))
    assert {one, other} == {"gw0", "gw1"}
    assert len({*own, *others}) == len(own) + len(others)


def test_zabka_container_serves_requests_and_is_fully_removed() -> None:
    with ZabkaContainer() as kafka:
        cluster = kafka.cluster
        assert kafka.get_bootstrap_server() == cluster.bootstrap and kafka.get_container_host_ip() == "127.0.0.1"
        assert len(kafka.get_zookeeper_connect().split(",")) == 1
        cluster.topics.create("orders")
        cluster.produce("orders", ["a"])
        assert cluster.consume("orders") == ["a"]
    assert not cluster.data.exists()
    with pytest.raises(RuntimeError, match="not started"):
        kafka.get_bootstrap_server()


def test_module_scoped_cluster_is_shared_with_the_session(
    zabka_module_cluster: LiveCluster, zabka_session_cluster: LiveCluster
) -> None:
    assert zabka_module_cluster is zabka_session_cluster
    assert zabka_module_cluster.topics.names() == []
