"""A cluster of real processes under a directory: started on ports of its own, and stopped completely.

The host agent is started first; meanwhile this process imports what it needs to wait for the cluster and to drive it.
The nodes' first processes are forks of the agent (`zabka.compose.forked`), which halves the start-up work; nodes that a
test starts again are programs of their own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from zabka.compose.config_keys import BadSetting, split_settings
from zabka.compose.files import InUse, Run, forget_run, save_run, take_lock, write_host
from zabka.compose.launch import start_agent
from zabka.compose.plan import BadPlan, Wanted, plan
from zabka.compose.ports import PortTaken, claim_ports
from zabka.compose.topology import BadTopology, Topology, load, save
from zabka.testing.cluster import ClusterFailed

if TYPE_CHECKING:
    from zabka.testing.live.cluster import LiveCluster

STOP_TIMEOUT_S = 25.0


class _Silent:
    """Does not report the progress of a start; an exception states the reason of a failure."""

    def print_line(self, text: str) -> None:
        """Do nothing."""

    def waiting(self, text: str) -> None:
        """Do nothing."""

    def ready(self, url: str, notes: list[str]) -> None:
        """Do nothing."""

    def error(self, text: str) -> None:
        """Do nothing."""


def start_live(
    data: Path, *, peers: int = 3, brokers: int = 3, settings: Mapping[str, str] | None = None
) -> LiveCluster:
    """Start a cluster on free ports and wait until it is ready.  Raises ClusterFailed with the reason.

    The cluster ends with this process, also if this process is killed.
    """
    data.mkdir(parents=True, exist_ok=True)
    try:
        topology, agent = _begin(data.absolute(), peers, brokers, settings or {})
    except (BadSetting, BadPlan, BadTopology, InUse, PortTaken, OSError) as reason:
        raise ClusterFailed(f"the cluster cannot be started: {reason}") from None
    try:
        return _driven(topology, agent, data)
    except BaseException:
        # Includes Ctrl-C, also during the imports.
        _end(agent, data)
        raise


def _driven(topology: Topology, agent: subprocess.Popen[bytes], data: Path) -> LiveCluster:
    """Return the cluster once it is ready.  Raises ClusterFailed with the reason."""
    from zabka.compose.up import CannotStart, wait_until_ready
    from zabka.testing.live.cluster import LiveCluster

    def trouble() -> None:
        if agent.poll() is not None:
            log_text = (data / topology.hosts[0].name / "agent.log").read_text(errors="replace")
            raise CannotStart(f"the host agent ended with exit code {agent.returncode}:\n{log_text}")

    try:
        save_run(data, Run(agent.pid, topology.api_url))
        wait_until_ready(topology, data.absolute(), _Silent(), trouble)
    except (CannotStart, OSError) as reason:
        raise ClusterFailed(f"the cluster did not start: {reason}") from None
    return LiveCluster(topology.api_url, data, agent)


def _begin(
    data: Path, peers: int, brokers: int, settings: Mapping[str, str]
) -> tuple[Topology, subprocess.Popen[bytes]]:
    overrides = split_settings([f"{key}={value}" for key, value in settings.items()])
    wanted = Wanted(peers=peers, brokers=brokers, api_port=0, zk_port=0, kafka_port=0, overrides=overrides)
    with ExitStack() as held:
        # Both are released here; the agent holds them as long as it lives.
        lock = take_lock(data)
        held.callback(os.close, lock)
        forget_run(data)
        # No other cluster takes one of these ports, even while a node of this cluster is down.
        ports = claim_ports()
        held.callback(ports.close)
        topology = plan(wanted, load(data), ports.within)
        save(topology, data)
        config = write_host(topology, topology.hosts[0], data, preloads=True)
        agent = start_agent(config, (lock, *ports.handles), os.getpid())
    return topology, agent


def stop_live(cluster: LiveCluster) -> None:
    """Stop a cluster and all its processes."""
    cluster.close()
    if cluster.process is not None:
        _end(cluster.process, cluster.data)


def _end(agent: subprocess.Popen[bytes], data: Path) -> None:
    agent.terminate()
    try:
        agent.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        agent.kill()
        agent.wait()
    forget_run(data)


@contextmanager
def running_cluster(
    *, peers: int = 3, brokers: int = 3, settings: Mapping[str, str] | None = None, data: Path | None = None
) -> Iterator[LiveCluster]:
    """Provide a cluster for a `with` block, also without pytest; `data` is kept if it is given.

    Raises ClusterFailed with the reason.
    """
    with TemporaryDirectory(prefix="zabka-") as directory:
        cluster = start_live(data or Path(directory), peers=peers, brokers=brokers, settings=settings)
        try:
            yield cluster
        finally:
            stop_live(cluster)
