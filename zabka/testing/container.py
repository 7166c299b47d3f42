"""A cluster and an ensemble with the interface of testcontainers' containers, for tests that use testcontainers.

No container is started; the servers are processes of this machine.

    with ZabkaContainer(brokers=3) as kafka:
        producer = Producer({"bootstrap.servers": kafka.get_bootstrap_server()})
    with ZabkaZooKeeper() as zookeeper:
        client = KazooClient(zookeeper.get_connection_string())

The attributes `cluster` and `ensemble` control the servers: a test can, for example, kill the controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from zabka.testing.live.start import running_cluster, running_ensemble

if TYPE_CHECKING:
    from zabka.testing.live.cluster import LiveCluster
    from zabka.testing.live.ensemble import LiveEnsemble


class ZabkaContainer:
    """A cluster of local processes with a container's interface: `start`, `stop`, and the addresses for clients."""

    def __init__(self, *, peers: int = 1, brokers: int = 1, settings: Mapping[str, str] | None = None) -> None:
        self._wanted = (peers, brokers, dict(settings or {}))
        self._running: LiveCluster | None = None
        self._ends = ExitStack()

    @property
    def cluster(self) -> LiveCluster:
        """The running cluster. Raises RuntimeError if it is not started."""
        if self._running is None:
            raise RuntimeError("the cluster is not started: use `with ZabkaContainer() as kafka`, or start()")
        return self._running

    def start(self) -> Self:
        """Start the cluster, and wait until it is ready. If it does not start, raise ClusterFailed with the reason."""
        peers, brokers, settings = self._wanted
        self._running = self._ends.enter_context(running_cluster(peers=peers, brokers=brokers, settings=settings))
        return self

    def stop(self) -> None:
        """Stop the cluster, and delete its files."""
        self._running = None
        self._ends.close()

    def get_bootstrap_server(self) -> str:
        """Return HOST:PORT of every broker, separated by commas, for clients' `bootstrap.servers`."""
        return self.cluster.bootstrap

    def get_zookeeper_connect(self) -> str:
        """Return HOST:PORT of every peer, separated by commas, as in `zookeeper.connect`."""
        return self.cluster.zookeeper_connect

    def get_container_host_ip(self) -> str:
        """Return the host that clients connect to."""
        return _host_of(self.get_bootstrap_server())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


ZOOKEEPER_PORT = 2181
"""Port of ZooKeeper in its container image, for which `get_exposed_port` returns the actual port."""


class ZabkaZooKeeper:
    """An ensemble of local processes, with the interface of a testcontainers container."""

    def __init__(self, *, peers: int = 1, settings: Mapping[str, str] | None = None) -> None:
        self._wanted = (peers, dict(settings or {}))
        self._running: LiveEnsemble | None = None
        self._ends = ExitStack()

    @property
    def ensemble(self) -> LiveEnsemble:
        """The running ensemble. Raises RuntimeError if it is not started."""
        if self._running is None:
            raise RuntimeError("the ensemble is not started: use `with ZabkaZooKeeper() as zookeeper`, or start()")
        return self._running

    def start(self) -> Self:
        """Start the ensemble, and wait until it has a quorum.

        If it does not start, raise ClusterFailed with the reason.
        """
        peers, settings = self._wanted
        self._running = self._ends.enter_context(running_ensemble(peers=peers, settings=settings))
        return self

    def stop(self) -> None:
        """Stop the ensemble, and delete its files."""
        self._running = None
        self._ends.close()

    def get_connection_string(self) -> str:
        """Return HOST:PORT of every peer, separated by commas."""
        return self.ensemble.zookeeper_connect

    def get_container_host_ip(self) -> str:
        """Return the host that clients connect to."""
        return _host_of(self.get_connection_string())

    def get_exposed_port(self, port: int = ZOOKEEPER_PORT) -> int:
        """Return the port of the first peer. Raises ValueError if `port` is not ZooKeeper's port 2181."""
        if port != ZOOKEEPER_PORT:
            raise ValueError(f"a ZooKeeper container exposes port {ZOOKEEPER_PORT}, not {port}")
        return int(self.get_connection_string().partition(",")[0].rpartition(":")[2])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


def _host_of(addresses: str) -> str:
    return addresses.partition(",")[0].rpartition(":")[0]
