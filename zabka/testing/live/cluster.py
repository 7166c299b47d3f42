"""A live cluster for tests: real processes under a temporary directory, driven through the HTTP API.

`LiveCluster` is the value of the fixture `zabka_cluster`: the interface of `zabka.testing.cluster`, and the API itself
through `request`, `get` and `post`.  Every call blocks, and `until` is the only way to wait: it polls until a condition
holds, and reports the last value if it times out.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from zabka.api.kafka.kafka_client import make_client
from zabka.journal.events import Entry
from zabka.journal.reader import merge, read_directory
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.testing.cluster import READY_TIMEOUT_S, ClientLibrary, ClusterFailed, Happening
from zabka.testing.conditions import Wait
from zabka.testing.live.aio import POLL_S, AsyncCalls
from zabka.testing.live.faults import Faults
from zabka.testing.live.http_api import HttpApi
from zabka.testing.live.isolation import remove_groups, reset_znodes
from zabka.testing.live.nodes import Broker, Peer
from zabka.testing.live.topics import Topics
from zabka.testing.live.workloads import Consumer, Transactions, Workload
from zabka.testing.records import IsolationLevel, Payload, Record, read_records, write_records

T = TypeVar("T")

HEAL_TIMEOUT_S = 60.0


class LiveCluster(HttpApi):
    """A running cluster: `peers`, `brokers`, `topics`, `faults`, the journal, and `until`."""

    def __init__(
        self, url: str, data: Path, process: subprocess.Popen[bytes] | None = None, *, token: str | None = None
    ) -> None:
        super().__init__(url, token)
        self.process = process
        self.data = data
        self.peers = {p["id"]: Peer(self, "peer", p["id"]) for p in self.get("/api/v1/peers")}
        self.brokers = {b["id"]: Broker(self, "broker", b["id"]) for b in self.get("/api/v1/brokers")}
        self.topics = Topics(self, len(self.brokers))
        self.faults = Faults(self)
        addresses = self.get("/api/v1/cluster")["settings"]
        self.zookeeper_connect: str = addresses["zookeeper_connect"]
        self.bootstrap: str = addresses["bootstrap"]
        self.aio = AsyncCalls(self)
        self._began = (-1, 0)

    # ---- queries -----------------------------------------------------------------------------------------------------

    @property
    def controller(self) -> Broker | None:
        """The broker that the ensemble names controller."""
        return self.brokers.get(self.get("/api/v1/controller")["broker_id"])

    @property
    def controller_epoch(self) -> int:
        """/controller_epoch."""
        return int(self.get("/api/v1/controller")["controller_epoch"])

    @property
    def zab_leader(self) -> Peer | None:
        """The peer that leads the ensemble and serves."""
        serving = [p for p in self.get("/api/v1/peers") if p["process"] == "running" and p["phase"] == "BROADCAST"]
        return next((self.peers[p["id"]] for p in serving if p["state"] == "LEADING"), None)

    @property
    def now_us(self) -> int:
        """This machine's monotonic clock, which every node's `mono_us` is read from."""
        return time.monotonic_ns() // 1000

    def settings(self, node: str = "broker-1") -> dict[str, str]:
        """The effective configuration that a node journalled at its start."""
        return dict([e for e in self.events("node_started", after_us=-1) if e["node"] == node][-1]["config"])

    def events(self, *types: str, after_us: int | None = None) -> list[Happening]:
        """Return the events since the test began, or after a moment of `now_us`; given types, only those types."""
        after_seq, since_us = self._began if after_us is None else (0, after_us)
        return [
            event
            for page in self._pages(after_seq)
            for event in page
            if event["mono_us"] > since_us and (not types or event["type"] in types)
        ]

    def _pages(self, after_seq: int) -> Iterator[list[Happening]]:
        while page := self.get(f"/api/v1/journal?after={after_seq}&limit=100000"):
            yield page
            after_seq = page[-1]["seq"]

    def journal(self) -> list[Entry]:
        """Return the whole journal, in order, from the nodes' files: also if the API does not answer."""
        directories = sorted(self.data.glob("*/journal"))
        return merge(entry for directory in directories for entry in read_directory(directory))

    def replay(self, test: str) -> str:
        """Return the command to inspect a failed test: its history, which no seed repeats."""
        return f"zabka why EVENT --data {self.data}   (EVENT is such as broker-1#12; the page was {self.url})"

    @property
    def began_us(self) -> int:
        """The moment of `now_us` at which this test began; -1 before the first test."""
        seq, mono_us = self._began
        return mono_us if seq >= 0 else -1

    @property
    def seq(self) -> int:
        """The journal's last number."""
        return int(self.get("/api/v1/cluster")["seq"])

    def client_config(self, library: ClientLibrary) -> dict[str, Any]:
        """Return the configuration with which a client of that library connects, under the library's own keys.

        Raises ValueError for another library.
        """
        if library in ("confluent", "java"):
            return {"bootstrap.servers": self.bootstrap}
        if library == "aiokafka":
            return {"bootstrap_servers": self.bootstrap}
        if library == "kafka-python":
            return {"bootstrap_servers": self.bootstrap.split(",")}
        raise ValueError(f"{library!r} is not one of {', '.join(get_args(ClientLibrary))}")

    # ---- actions -----------------------------------------------------------------------------------------------------

    def elect(self, kind: str, topic: str, partition: int = 0) -> str | None:
        """Hold a PREFERRED or UNCLEAN election; return None, or Kafka's error name if it failed."""
        body = {"type": kind, "partitions": [{"topic": topic, "partition": partition}]}
        error: str | None = self.post("/api/v1/elections", body)[0]["error"]
        return error

    def produce(
        self,
        topic: str,
        values: Sequence[Payload | Record],
        partition: int = 0,
        *,
        acks: int = -1,
        timeout_s: float = 10.0,
    ) -> int:
        """Write values or records, in one batch for each partition, and return the first record's offset."""
        now_ms = time.time_ns() // 1_000_000
        return self._ask(
            lambda client: write_records(
                client, topic, values, partition, now_ms=now_ms, acks=acks, timeout_s=timeout_s
            )
        )

    def consume(self, topic: str, partition: int = 0, *, timeout_s: float = 10.0) -> list[str]:
        """Return every committed value of a partition as a string, in order."""
        return [record.text for record in self.records(topic, partition, timeout_s=timeout_s)]

    def records(
        self,
        topic: str,
        partition: int | None = None,
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
        timeout_s: float = 10.0,
    ) -> list[Record]:
        """Return every committed record of a partition, or of all partitions in their order."""
        numbers = [each.partition for each in self.topics[topic].partitions] if partition is None else [partition]
        return self._ask(lambda client: read_records(client, topic, numbers, isolation_level, timeout_s))

    def _ask(self, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        async def ask() -> T:
            client, channel = make_client(self.bootstrap, "test")
            try:
                return await work(client)
            finally:
                channel.close()
                # The transports close on the loop's next iterations.
                await asyncio.sleep(0.01)

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise ClusterFailed(
                "this call blocks, and an event loop runs in this thread: await the call of `cluster.aio`"
            )
        try:
            return asyncio.run(ask())
        except (KafkaRequestFailed, KafkaUnavailable) as refused:
            raise ClusterFailed(f"{type(refused).__name__}: {refused}") from None

    def workload(self, topic: str, *, acks: str = "all", records_per_s: float = 50) -> Workload:
        """Start a workload on all partitions of a topic."""
        body = {"topic": topic, "acks": acks, "records_per_s": records_per_s}
        return Workload(self, str(self.post("/api/v1/workloads", body)["id"]))

    def consumer(self, topic: str, group: str, *, offsets: Literal["kafka", "zookeeper"] = "kafka") -> Consumer:
        """Start a member of a consumer group; with `offsets="zookeeper"` an old consumer, as before Kafka 0.9."""
        body = {"kind": "consumer", "topic": topic, "group": group, "offsets": offsets}
        return Consumer(self, str(self.post("/api/v1/workloads", body)["id"]))

    def transactional_producer(
        self, topic: str, *, transactional_id: str | None = None, records_per_s: float = 50, abort_every: int = 0
    ) -> Transactions:
        """Start a producer that writes one transaction after the other; every `abort_every`-th is aborted (0: none)."""
        body = {
            "kind": "transactional-producer", "topic": topic, "transactional_id": transactional_id,
            "records_per_s": records_per_s, "abort_every": abort_every,
        }  # fmt: skip
        return Transactions(self, str(self.post("/api/v1/workloads", body)["id"]))

    def read_process_write(
        self, topic: str, output: str, group: str, *, transactional_id: str | None = None
    ) -> Transactions:
        """Start a member of a group that copies committed records to another topic, exactly once."""
        body = {
            "kind": "read-process-write", "topic": topic, "output": output, "group": group,
            "transactional_id": transactional_id,
        }  # fmt: skip
        return Transactions(self, str(self.post("/api/v1/workloads", body)["id"]))

    def until(self, condition: Callable[[], T | Literal[False] | None], timeout_s: float = 30.0, what: str = "") -> T:
        """Poll until the condition returns a true value, and return that.  Raises ClusterFailed after `timeout_s`."""
        wait = Wait[T](condition, timeout_s, what)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if found := wait.holds():
                return found
            time.sleep(POLL_S)
        raise ClusterFailed(wait.failure())

    def let_pass(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def until_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until a quorum serves, there is a controller and every running broker is registered."""
        self.until(lambda: self.get("/readyz"), timeout_s, "readiness")

    def heal(self) -> None:
        """Start nodes that are down, resume paused ones, remove faults, delete workloads; wait for readiness."""
        self.faults.heal()
        for workload in self.get("/api/v1/workloads"):
            if workload["state"] == "running":
                self.request("DELETE", f"/api/v1/workloads/{workload['id']}")
        for node in (*self.peers.values(), *self.brokers.values()):
            process = node.process
            if process == "paused":
                node.resume()
            elif process == "down":
                node.start()
        self.until_ready(HEAL_TIMEOUT_S)

    def start_test(self) -> None:
        """Begin a test: repair the cluster, remove the state of earlier tests, and let `events` start here.

        That state is every topic but Kafka's own, all consumer groups, the dynamic configurations of brokers, the
        quotas of clients, and the znodes of clients.
        """
        self.heal()
        for name in self.topics.names():
            self.topics[name].delete()
        self.until(lambda: not self.topics.names(), HEAL_TIMEOUT_S, "the deletion of every topic")
        self._reset()
        self.begin_here()

    def _reset(self) -> None:
        journals = [self.data / broker.name / "journal" for broker in self.brokers.values()]
        asyncio.run(reset_znodes(self.zookeeper_connect, journals))
        if journals:
            self.until(lambda: self._ask(remove_groups) or True, HEAL_TIMEOUT_S, "the removal of consumer groups")

    def begin_here(self) -> None:
        """Let `events` start at the present moment."""
        self._began = (self.seq, self.now_us)
