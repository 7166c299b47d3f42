"""Starts a cluster of real processes with its data in a directory and with its own ports, and stops it completely.

The host agent is started first. While the agent starts, the test's process imports the modules that it needs to wait
for the cluster and to control it. The agent forks the first process of each node (`zabka.compose.forked`), which halves
the work of the start; nodes that a test starts again are new programs.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from zabka.compose.config_keys import BadSetting, split_settings
from zabka.compose.files import InUse, Run, forget_run, save_run, take_lock, write_host
from zabka.compose.launch import start_agent
from zabka.compose.plan import DEFAULT_KAFKA_PORT, DEFAULT_ZK_PORT, BadPlan, Requested, plan
from zabka.compose.ports import PortTaken, claim_ports
from zabka.compose.topology import BadTopology, Topology, load, save
from zabka.testing.cluster import FIXTURE_SETTINGS, ClusterFailed
from zabka.testing.live.block import Block
from zabka.testing.live.secured import Security, SecurityProtocol

if TYPE_CHECKING:
    from zabka.testing.live.cluster import LiveCluster
    from zabka.testing.live.ensemble import LiveEnsemble

E = TypeVar("E", bound="LiveEnsemble")

Ports = Literal["free", "fixed"]
"""Which ports a cluster uses: free ports, or the default ports of ZooKeeper and Kafka."""

STOP_TIMEOUT_S = 25.0


class _Silent:
    """A reporter that prints nothing during a start.  If the start fails, an exception contains the reason."""

    def print_line(self, text: str) -> None:
        """Do nothing."""

    def waiting(self, text: str) -> None:
        """Do nothing."""

    def ready(self, url: str, notes: list[str]) -> None:
        """Do nothing."""

    def error(self, text: str) -> None:
        """Do nothing."""


def start_live(
    data: Path,
    *,
    peers: int = 3,
    brokers: int = 3,
    settings: Mapping[str, str] | None = None,
    ports: Ports = "free",
    advertised: Mapping[int, str] | None = None,
    secure: SecurityProtocol | None = None,
) -> LiveCluster:
    """Start a cluster and wait until it is ready. If that fails, raise ClusterFailed with the reason.

    `ports` is "free" for any free ports, or "fixed" for 2181, 2182, ... (peers) and 9092, 9093, ... (brokers).
    `advertised` is HOST:PORT of a proxy for each broker: clients connect to the proxy, and the proxy connects to
    `LiveCluster.listeners`. `secure` is the security protocol of the clients' listeners (`zabka.testing.live.secured`),
    which brokers also use among each other unless there are proxies.
    The cluster is stopped when this process ends, even if this process is killed.
    """
    security = None if secure is None else Security(secure, data.absolute() / "tls")
    secured = {} if security is None else security.broker_settings()
    if advertised:
        # Brokers must not connect to each other through the proxies.
        secured.pop("inter.broker.listener.name", None)
    given = {**FIXTURE_SETTINGS, **secured, **(settings or {})}
    wanted = _wanted(
        given, peers=peers, brokers=brokers, ports=ports, advertised=advertised, second_listener=security is not None
    )
    with _started(data, wanted) as (url, agent):
        from zabka.testing.live.cluster import LiveCluster

        return LiveCluster(url, data, agent, security=security)


def start_ensemble(
    data: Path,
    *,
    peers: int = 3,
    observers: int = 0,
    settings: Mapping[str, str] | None = None,
    ports: Ports = "free",
) -> LiveEnsemble:
    """Start an ensemble without brokers, and wait until it is ready.  The parameters are those of `start_live`."""
    wanted = _wanted(settings, peers=peers, observers=observers, brokers=0, ports=ports)
    with _started(data, wanted) as (url, agent):
        from zabka.testing.live.ensemble import LiveEnsemble

        return LiveEnsemble(url, data, agent)


def _wanted(
    settings: Mapping[str, str] | None,
    *,
    peers: int,
    brokers: int,
    observers: int = 0,
    ports: Ports = "free",
    advertised: Mapping[int, str] | None = None,
    second_listener: bool = False,
) -> Requested:
    """Return these parameters as options of `zabka up`. Raises ClusterFailed if one is invalid."""
    if ports not in get_args(Ports):
        raise ClusterFailed(
            f"the cluster cannot be started: ports is one of {', '.join(get_args(Ports))}, not {ports!r}"
        )
    try:
        overrides = split_settings([f"{key}={value}" for key, value in (settings or {}).items()])
    except BadSetting as reason:
        raise ClusterFailed(f"the cluster cannot be started: {reason}") from None
    free = ports == "free"
    return Requested(
        peers=peers,
        observers=observers,
        brokers=brokers,
        api_port=0,
        zk_port=0 if free else DEFAULT_ZK_PORT,
        kafka_port=0 if free else DEFAULT_KAFKA_PORT,
        advertised=dict(advertised or {}),
        second_listener=second_listener,
        overrides=overrides,
    )


@contextmanager
def _started(data: Path, wanted: Requested) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Start the processes; yield the API's URL and the agent's process, and stop the agent if the block raises."""
    data.mkdir(parents=True, exist_ok=True)
    try:
        topology, agent = _begin(data.absolute(), wanted)
    except (BadPlan, BadTopology, InUse, PortTaken, OSError) as reason:
        raise ClusterFailed(f"the cluster cannot be started: {reason}") from None
    try:
        _wait(topology, agent, data)
        yield topology.api_url, agent
    except BaseException:
        # Stop the agent after any exception, including Ctrl-C during the imports.
        _end(agent, data)
        raise


def _wait(topology: Topology, agent: subprocess.Popen[bytes], data: Path) -> None:
    """Wait until the cluster is ready. If it cannot start, raise an exception with the reason."""
    from zabka.compose.up import CannotStart, wait_until_ready

    def trouble() -> None:
        if agent.poll() is not None:
            log_text = (data / topology.hosts[0].name / "agent.log").read_text(errors="replace")
            raise CannotStart(f"the host agent ended with exit code {agent.returncode}:\n{log_text}")

    # Import the module that controls the cluster while the cluster's processes start.
    import_module("zabka.testing.live.cluster" if topology.brokers else "zabka.testing.live.ensemble")
    try:
        save_run(data, Run(agent.pid, topology.api_url))
        wait_until_ready(topology, data.absolute(), _Silent(), trouble)
    except (CannotStart, OSError) as reason:
        raise ClusterFailed(f"the cluster did not start: {reason}") from None


def _begin(data: Path, wanted: Requested) -> tuple[Topology, subprocess.Popen[bytes]]:
    with ExitStack() as held:
        # At the end, close this process's copies of the lock and the port sockets. The agent has its own copies and
        # holds them as long as it runs.
        lock = take_lock(data)
        held.callback(os.close, lock)
        forget_run(data)
        # Claim the ports, so that no other cluster can use them while a node of this cluster is down.
        ports = claim_ports()
        held.callback(ports.close)
        topology = plan(wanted, load(data), ports.within)
        save(topology, data)
        config = write_host(topology, topology.hosts[0], data, preloads=True)
        agent = start_agent(config, (lock, *ports.handles), os.getpid())
    return topology, agent


def stop_live(cluster: LiveEnsemble) -> None:
    """Stop a cluster or an ensemble and all its processes."""
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


def running_cluster(
    *,
    peers: int = 3,
    brokers: int = 3,
    settings: Mapping[str, str] | None = None,
    data: Path | None = None,
    ports: Ports = "free",
    advertised: Mapping[int, str] | None = None,
    secure: SecurityProtocol | None = None,
) -> Block[LiveCluster]:
    """Run a cluster during a `with` or `async with` block, with or without pytest.

    A directory given as `data` is not deleted. `ports`, `advertised` and `secure` have the same meaning as for
    `start_live`. If the cluster cannot start, the block raises ClusterFailed with the reason.
    """

    def start(directory: Path) -> LiveCluster:
        return start_live(
            directory,
            peers=peers,
            brokers=brokers,
            settings=settings,
            ports=ports,
            advertised=advertised,
            secure=secure,
        )

    return Block(lambda: _kept(start, data))


def running_ensemble(
    *,
    peers: int = 3,
    observers: int = 0,
    settings: Mapping[str, str] | None = None,
    data: Path | None = None,
    ports: Ports = "free",
) -> Block[LiveEnsemble]:
    """Run an ensemble without brokers during a `with` or `async with` block, like `running_cluster`."""

    def start(directory: Path) -> LiveEnsemble:
        return start_ensemble(directory, peers=peers, observers=observers, settings=settings, ports=ports)

    return Block(lambda: _kept(start, data))


@contextmanager
def _kept(start: Callable[[Path], E], data: Path | None) -> Iterator[E]:
    """Start processes in a directory (by default a temporary one), yield them, and stop them at the end."""
    with TemporaryDirectory(prefix="zabka-") as directory:
        running = start(data or Path(directory))
        try:
            yield running
        finally:
            stop_live(running)
