"""A cluster in the shape of testcontainers' `KafkaContainer`, for tests that are written for that; without containers.

    with ZabkaContainer(brokers=3) as kafka:
        producer = Producer({"bootstrap.servers": kafka.get_bootstrap_server()})

`cluster` is the cluster itself, whose controller such a test may kill.
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
    """A cluster of local processes with the methods of a container: `start`, `stop`, and where clients connect to."""

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
        """Stop it, and remove what it wrote."""
        self._running = None
        self._ends.close()

    def get_bootstrap_server(self) -> str:
        """HOST:PORT of every broker, with commas between: Kafka's `bootstrap.servers`."""
        return self.cluster.bootstrap

    def get_zookeeper_connect(self) -> str:
        """HOST:PORT of every peer, with commas between: `zookeeper.connect`."""
        return self.cluster.zookeeper_connect

    def get_container_host_ip(self) -> str:
        """The host that clients connect to."""
        return self.get_bootstrap_server().rpartition(":")[0].rpartition(",")[2].partition(":")[0]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
