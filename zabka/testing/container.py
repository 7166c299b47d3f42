"""A cluster with the interface of testcontainers' `KafkaContainer`, for tests that expect it; without containers.

    with ZabkaContainer(brokers=3) as kafka:
        producer = Producer({"bootstrap.servers": kafka.get_bootstrap_server()})

`cluster` is the cluster itself; a test can kill its controller, for example.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from zabka.testing.live.start import running_cluster

if TYPE_CHECKING:
    from zabka.testing.live.cluster import LiveCluster


class ZabkaContainer:
    """A cluster of local processes with the methods of a container: `start`, `stop`, and the addresses for clients."""

    def __init__(self, *, peers: int = 1, brokers: int = 1, settings: Mapping[str, str] | None = None) -> None:
        self._wanted = (peers, brokers, dict(settings or {}))
        self._running: LiveCluster | None = None
        self._ends = ExitStack()

    @property
    def cluster(self) -> LiveCluster:
        """The cluster.  Raises RuntimeError while it is not started."""
        if self._running is None:
            raise RuntimeError("the cluster is not started: use `with ZabkaContainer() as kafka`, or start()")
        return self._running

    def start(self) -> Self:
        """Start it, and wait until it is ready.  Raises ClusterFailed with the reason."""
        peers, brokers, settings = self._wanted
        self._running = self._ends.enter_context(running_cluster(peers=peers, brokers=brokers, settings=settings))
        return self

    def stop(self) -> None:
        """Stop the cluster, and remove its files."""
        self._running = None
        self._ends.close()

    def get_bootstrap_server(self) -> str:
        """Return HOST:PORT of every broker, separated by commas: Kafka's `bootstrap.servers`."""
        return self.cluster.bootstrap

    def get_zookeeper_connect(self) -> str:
        """Return HOST:PORT of every peer, separated by commas: `zookeeper.connect`."""
        return self.cluster.zookeeper_connect

    def get_container_host_ip(self) -> str:
        """Return the host that clients connect to."""
        return self.get_bootstrap_server().rpartition(":")[0].rpartition(",")[2].partition(":")[0]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
