"""A live cluster for tests: real processes with data in a temporary directory, controlled through the HTTP API.

`LiveCluster` is the value of the fixture `zabka_cluster`. It has the interface of `zabka.testing.cluster`, and gives
access to the HTTP API with `request`, `get` and `post`. `LiveEnsemble` is the part of it that needs no brokers.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from zabka.api.kafka.kafka_client import make_client
from zabka.compose.topology import bracketed, load
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.testing.cluster import ClientLibrary, ClusterFailed
from zabka.testing.live.aio import AsyncCalls
from zabka.testing.live.apart import run_apart
from zabka.testing.live.ensemble import HEAL_TIMEOUT_S, LiveEnsemble
from zabka.testing.live.isolation import Configs, remove_acls, remove_groups, reset_znodes, write_users
from zabka.testing.live.nodes import Broker, Node
from zabka.testing.live.secured import SaslMechanism, Security
from zabka.testing.live.topics import Topics
from zabka.testing.live.workloads import Consumer, Transactions, Workload
from zabka.testing.shared_calls import SharedCalls, Work

T = TypeVar("T")


class LiveCluster(LiveEnsemble, SharedCalls[Broker]):
    """A running cluster: `peers`, `brokers`, `topics`, `faults`, the journal, and `until`."""

    def __init__(
        self,
        url: str,
        data: Path,
        process: subprocess.Popen[bytes] | None = None,
        *,
        token: str | None = None,
        security: Security | None = None,
    ) -> None:
        super().__init__(url, data, process, token=token)
        self._security = security
        self.brokers: dict[int, Broker] = {
            b["id"]: Broker(self, "broker", b["id"]) for b in self.get("/api/v1/brokers")
        }
        self.topics: Topics = Topics(self, len(self.brokers))
        addresses = self.get("/api/v1/cluster")["settings"]
        self._inner: str = addresses["bootstrap"]
        self.bootstrap: str = addresses["external"] or self._inner
        self.aio: AsyncCalls = AsyncCalls(self)
        self._internal_configs: Configs = {}
        if security is not None and security.users:
            run_apart(partial(write_users, self.zookeeper_connect, self._journals(), security.users))

    # ---- queries -----------------------------------------------------------------------------------------------------

    @property
    def controller(self) -> Broker | None:
        """The broker that is controller according to the ensemble, or None."""
        return self.brokers.get(self.get("/api/v1/controller")["broker_id"])

    @property
    def controller_epoch(self) -> int:
        """The value of /controller_epoch."""
        return int(self.get("/api/v1/controller")["controller_epoch"])

    def settings(self, node: str = "broker-1") -> dict[str, str]:
        """Return the effective configuration that a node wrote to its journal at its start."""
        return super().settings(node)

    @property
    def listeners(self) -> dict[int, str]:
        """HOST:PORT of each broker's client listener, to which a proxy at an advertised address connects."""
        topology = load(self.data)
        brokers = () if topology is None else topology.brokers
        return {b.id: f"{bracketed(b.bind)}:{b.external_bind_port or b.external_port or b.port}" for b in brokers}

    def client_config(
        self, library: ClientLibrary, *, user: str = "alice", mechanism: SaslMechanism = "SCRAM-SHA-256"
    ) -> dict[str, Any]:
        """Return the configuration that connects a client of that library to the cluster, with the library's own keys.

        On a secured cluster (`secure=...`), the client connects as the user `alice` or `bob`; `mechanism` is the SASL
        mechanism. Raises ValueError for an unknown library, user or mechanism.
        """
        if library not in get_args(ClientLibrary):
            raise ValueError(f"{library!r} is not one of {', '.join(get_args(ClientLibrary))}")
        secured = {} if self._security is None else self._security.client_settings(library, user, mechanism)
        if library in ("confluent", "java"):
            return {"bootstrap.servers": self.bootstrap, **secured}
        if library == "aiokafka":
            return {"bootstrap_servers": self.bootstrap, **secured}
        return {"bootstrap_servers": self.bootstrap.split(","), **secured}

    # ---- actions -----------------------------------------------------------------------------------------------------

    def elect(self, kind: str, topic: str, partition: int = 0) -> str | None:
        """Request a PREFERRED or UNCLEAN election; return None, or Kafka's error name if it failed."""
        body = {"type": kind, "partitions": [{"topic": topic, "partition": partition}]}
        error: str | None = self.post("/api/v1/elections", body)[0]["error"]
        return error

    def call(self, work: Work[T]) -> T:
        """Run requests with a new Kafka client, and return the result.

        Raises ClusterFailed if a request is rejected.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise ClusterFailed(
                "this call blocks, and an event loop runs in this thread: await the call of `cluster.aio`"
            )
        try:
            return asyncio.run(self._ask(work))
        except (KafkaRequestFailed, KafkaUnavailable) as refused:
            raise ClusterFailed(f"{type(refused).__name__}: {refused}") from None

    async def _ask(self, work: Work[T]) -> T:
        client, channel = make_client(self._inner, "test", self.access.brokers)
        try:
            return await work(client, AsyncioRuntime(asyncio.get_running_loop(), owns_loop=False))
        finally:
            channel.close()
            # Give the event loop a few iterations to close the transports.
            await asyncio.sleep(0.01)

    def workload(self, topic: str, *, acks: str = "all", records_per_s: float = 50) -> Workload:
        """Start a workload that writes to all partitions of a topic."""
        body = {"topic": topic, "acks": acks, "records_per_s": records_per_s}
        return Workload(self, str(self.post("/api/v1/workloads", body)["id"]))

    def consumer(self, topic: str, group: str, *, offsets: Literal["kafka", "zookeeper"] = "kafka") -> Consumer:
        """Start a member of a consumer group.

        With `offsets="zookeeper"`, the member is an old consumer (before Kafka 0.9), which stores its offsets in
        ZooKeeper.
        """
        body = {"kind": "consumer", "topic": topic, "group": group, "offsets": offsets}
        return Consumer(self, str(self.post("/api/v1/workloads", body)["id"]))

    def transactional_producer(
        self, topic: str, *, transactional_id: str | None = None, records_per_s: float = 50, abort_every: int = 0
    ) -> Transactions:
        """Start a producer that writes one transaction after another, and aborts every `abort_every`-th (0: none)."""
        body = {
            "kind": "transactional-producer", "topic": topic, "transactional_id": transactional_id,
            "records_per_s": records_per_s, "abort_every": abort_every,
        }  # fmt: skip
        return Transactions(self, str(self.post("/api/v1/workloads", body)["id"]))

    def read_process_write(
        self, topic: str, output: str, group: str, *, transactional_id: str | None = None
    ) -> Transactions:
        """Start a member of a group that copies the committed records of a topic to another topic, exactly once."""
        body = {
            "kind": "read-process-write", "topic": topic, "output": output, "group": group,
            "transactional_id": transactional_id,
        }  # fmt: skip
        return Transactions(self, str(self.post("/api/v1/workloads", body)["id"]))

    def heal(self) -> None:
        """Repair the cluster, and wait until it is ready.

        The repair starts nodes that are down, resumes paused nodes, and removes faults and workloads.
        """
        for workload in self.get("/api/v1/workloads"):
            if workload["state"] == "running":
                self.request("DELETE", f"/api/v1/workloads/{workload['id']}")
        super().heal()

    def _journals(self) -> list[Path]:
        return [self.data / broker.name / "journal" for broker in self.brokers.values()]

    def _nodes(self) -> list[Node]:
        return [*self.peers.values(), *self.brokers.values()]

    def start_test(self) -> None:
        """Begin a test: repair the cluster, remove the state of earlier tests, and make `events` omit earlier events.

        The removed state is all topics except Kafka's internal ones, all consumer groups, the dynamic configurations of
        brokers, the quotas of clients, the ACLs of an authorizer, and the znodes that clients created.
        """
        super().start_test()

    def _reset(self) -> None:
        for name in self.topics.names():
            self.topics[name].delete()
        self.until(lambda: not self.topics.names(), HEAL_TIMEOUT_S, "the deletion of every topic")
        journals, users = self._journals(), {} if self._security is None else self._security.users
        tls = self.access.ensemble
        run_apart(partial(reset_znodes, self.zookeeper_connect, journals, self._internal_configs, users, tls))
        if journals:
            for remove in (remove_groups, remove_acls):
                self._repeat(partial(self._ask, remove), f"`{remove.__name__}`")

    def _repeat(self, work: Callable[[], Coroutine[Any, Any, None]], what: str) -> None:
        self.until(lambda: run_apart(work) or True, HEAL_TIMEOUT_S, what)
