"""A real uvicorn server that runs the real application with a fake agent, ensemble, brokers and workloads."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
import time
from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path
from typing import Any, ClassVar

import uvicorn

from zabka.agent.bounded_http import BoundedConnection
from zabka.agent.client import AgentSilent
from zabka.agent.protocol import JournalChunk, NodeStatus, ProcessInfo, Snapshot
from zabka.api.analytics.jobs import Jobs
from zabka.api.app import create_app
from zabka.api.collector.agents import Agent, Agents
from zabka.api.collector.collector import Collector
from zabka.api.collector.joined_brokers import JoinedBrokers
from zabka.api.http.problems import Problem
from zabka.api.runs.catalogue import Runs
from zabka.api.runs.kept import KeptRuns
from zabka.api.scenarios.forecasts import Follower, Forecasts
from zabka.api.scenarios.process import PATIENCE_S, PlayerFailed, Watch
from zabka.api.scenarios.runs import Here, Player, ScenarioRuns
from zabka.api.services import Services
from zabka.api.settings import AgentAddress, Settings
from zabka.api.views.cluster import Views
from zabka.api.views.ensemble_view import (
    ControllerZnodes,
    EnsembleView,
    Fresh,
    PartitionZnodes,
    Reading,
    Registration,
    TopicZnodes,
    ZnodeReading,
)
from zabka.api.views.models import ElectionResult, NewTopic, NewWorkload, Workload
from zabka.ensemble.records import OPEN_ACL, Stat
from zabka.ensemble.runtime.link_fault import AnyFault
from zabka.journal.events import Event, TopicPartition
from zabka.kafka.acls import AclBinding
from zabka.kafka.client.group_reading import GroupReading
from zabka.kafka.client.record_reading import RecordSeen, RecordsSeen
from zabka.kafka.client.topic_reading import TopicReading

HERE = Here("http://127.0.0.1:1")
STARTS_S = 30.0
NO_JOBS = (sys.executable, "-c", "")
FOLLOWED_S = 30.0
NODES = ["peer-1", "peer-2", "peer-3", "broker-1", "broker-2", "broker-3"]


def settings(directory: Path, **changes: Any) -> Settings:
    """Return the settings of a cluster with three peers and three brokers."""
    values: dict[str, Any] = {
        "data": directory / "api",
        "cluster_data": directory,
        "token_file": directory / "token",
        "agent_token_file": directory / "agent.token",
        "agents": [AgentAddress(name="host-1", url="http://127.0.0.1:1", nodes=NODES)],
        "peers": [1, 2, 3],
        "brokers": [1, 2, 3],
        "zookeeper_connect": "127.0.0.1:1",
        "bootstrap": "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094",
        "tables": directory / "analytics",
    }
    return Settings(**{**values, **changes})


class FakeAgent(Agent):
    """Agent that carries out every request. After `freeze`, it sends no replies and its clock stops."""

    def __init__(self, address: AgentAddress) -> None:
        self.frozen = False
        self._stands_at_s = self._put_on_s = 0.0
        self.asked: list[str] = []
        self.requesters: list[str] = []
        super().__init__(address, "token", self._now_s)
        self.held: list[AnyFault] = []
        self.faults_known = True
        self.processes = {n: ProcessInfo(n, "running", 100 + i, None, 1) for i, n in enumerate(NODES)}
        self.statuses: dict[str, tuple[float, dict[str, Any]]] = {}
        self.fresh_statuses: dict[str, dict[str, Any]] = {}
        """Node statuses, keyed by node, that the agent returns only when a fresh snapshot is requested."""
        self._show()

    def _now_s(self) -> float:
        return self._stands_at_s if self.frozen else time.monotonic() + self._put_on_s

    def _show(self) -> None:
        now_s = time.monotonic()
        ages = {name: int((now_s - received_s) * 1000) for name, (received_s, _) in self.statuses.items()}
        statuses = [NodeStatus(name, ages[name], status) for name, (_, status) in self.statuses.items()]
        self.receive(
            Snapshot("host-1", list(self.processes.values()), statuses, time.time_ns() // 1000, self.faults_known)
        )

    def set_status(self, node: str, age_ms: int, **status: Any) -> None:
        """Set the node's last reported status to `status`, received `age_ms` ago. The age then grows with the clock."""
        self.statuses[node] = (time.monotonic() - age_ms / 1000, status)
        self._show()

    def freeze(self, for_s: float) -> None:
        """Stop replying, and set the clock to exactly `for_s` seconds after the last reply."""
        self._stands_at_s = self._now_s()
        self.frozen = True
        self._show()
        self._stands_at_s += for_s
        self._put_on_s += for_s

    async def refresh(self, fresh_ms: int = 0) -> None:
        if self.frozen:
            raise AgentSilent("frozen")
        if fresh_ms:
            for node, status in self.fresh_statuses.items():
                self.set_status(node, 0, **status)
        self._show()

    async def request_action(self, node: str, action: str, requester: str) -> ProcessInfo:
        self.asked.append(f"{action} {node}")
        self.requesters.append(requester)
        before = self.processes[node]
        if action == "kill" and before.process == "down":
            raise Problem(409, f"cannot kill {node}: it is down")
        state = {"kill": "down", "stop": "down", "pause": "paused"}.get(action, "running")
        self.processes[node] = ProcessInfo(node, state, None if state == "down" else 7, None, 1)
        self._show()
        return self.processes[node]

    def restart_process(self) -> None:
        """Remove all link faults, as a restart of the agent process does."""
        self.frozen, self.held, self.faults_known = False, [], False

    async def faults(self) -> list[AnyFault]:
        if self.frozen:
            raise AgentSilent("frozen")
        return self.held

    async def set_faults(self, faults: list[AnyFault], *, whole: bool = True) -> None:
        if self.frozen:
            raise AgentSilent("frozen")
        self.held, self.faults_known = faults, whole


class FakeEnsemble(EnsembleView):
    """Ensemble view that returns the values set by the test."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1:1", 6000)
        partition = PartitionZnodes((1, 2, 3), 1, 4, (1, 2), 3, 6)
        self.reading = Reading(
            ControllerZnodes(1, 3, 3, 1_700_000_000_000),
            {1: Registration(25), 2: Registration(26), 3: Registration(27)},
            {"orders": TopicZnodes("orders", "3gFxN0DEQ2iZpSkbVjH1Vg", {}, {0: partition})},
        )
        self.stale = False

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def read(self, at_most_old_s: float = 0.1) -> Fresh:
        return Fresh(self.reading, self.stale, 40)

    async def znode(self, path: str) -> ZnodeReading:
        if path not in ("/", "/controller"):
            raise Problem(404, f"there is no znode {path}")
        return ZnodeReading(b"\xff\x00", Stat(1, 2, 3, 4, 5, 6, 7, -1, 2, 0, 1), [], list(OPEN_ACL))


class FakeAdmin:
    """Admin client without brokers.

    It rejects only requests that create an existing topic or change a missing one.
    """

    def __init__(self, ensemble: FakeEnsemble) -> None:
        self._ensemble = ensemble
        self.elections: list[list[ElectionResult]] = []
        """The results of the next elections of all partitions."""
        self.reading = GroupReading()
        """The consumer groups that the brokers report."""
        self.asked: list[set[str]] = []
        """For each request to read the groups, the ids of the groups that the caller already knew."""
        self.topics_read = TopicReading()
        """The sizes that the brokers report."""
        self.bindings: list[AclBinding] = []
        """The ACLs that the brokers know."""
        self.log: list[RecordSeen] = []
        """The records of each partition."""

    async def create_topic(self, topic: NewTopic) -> None:
        if topic.name in self._ensemble.reading.topics:
            raise Problem(409, f"Topic '{topic.name}' already exists.")
        made = TopicZnodes(topic.name, "id", topic.config, {0: PartitionZnodes((1,), 1, 0, (1,), 3, 0)})
        self._ensemble.reading.topics[topic.name] = made

    async def delete_topic(self, name: str) -> None:
        if self._ensemble.reading.topics.pop(name, None) is None:
            raise Problem(404, f"there is no topic {name}")

    async def alter_topic_config(self, name: str, changes: dict[str, str | None]) -> None:
        topic = self._ensemble.reading.topics.get(name)
        if topic is None:
            raise Problem(404, f"there is no topic {name}")
        config = {k: v for k, v in {**topic.config, **changes}.items() if v is not None}
        self._ensemble.reading.topics[name] = topic._replace(config=config)

    async def elect(self, kind: str, partitions: Sequence[TopicPartition] | None) -> list[ElectionResult]:
        if partitions is None:
            return self.elections.pop(0) if self.elections else []
        return [
            ElectionResult(topic=p.topic, partition=p.partition, elected=True, error=None, message=None)
            for p in partitions or ()
        ]

    async def groups(self, known: Collection[str]) -> GroupReading:
        self.asked.append(set(known))
        return self.reading

    async def delete_group(self, name: str) -> None:
        self.reading.groups.pop(name, None)

    async def topics(self) -> TopicReading:
        return self.topics_read

    async def records(self, partition: TopicPartition, offset: int | None, limit: int) -> RecordsSeen:
        end = len(self.log)
        begin = max(0, end - limit) if offset is None else offset
        if begin > end:
            raise Problem(416, f"offset {offset} is out of range: {partition} has the offsets 0 to {end}")
        rows = self.log[begin : begin + limit]
        return RecordsSeen(rows, begin + len(rows), 0, end, end)

    async def acls(self) -> list[AclBinding]:
        return self.bindings

    async def broker_settings(self, broker_id: int) -> dict[str, str]:
        return {"min.insync.replicas": "2", "zookeeper.session.timeout.ms": "6000", "replica.lag.time.max.ms": "1500"}

    async def close(self) -> None:
        return


def report_registrations(agent: FakeAgent, ensemble: FakeEnsemble) -> None:
    """Let each registered broker report the broker epoch of its registration."""
    for broker_id, found in ensemble.reading.brokers.items():
        node = f"broker-{broker_id}"
        status = agent.statuses.get(node, (0.0, {}))[1]
        agent.set_status(node, 0, **{**status, "broker_epoch": found.broker_epoch})


class FakeWorkloads:
    """Workload manager without workloads."""

    async def create(self, wanted: NewWorkload) -> Workload:
        raise Problem(404, f"there is no topic {wanted.topic}; create it first")

    def all(self) -> list[Workload]:
        return []

    def get(self, workload_id: str) -> Workload:
        raise Problem(404, f"there is no workload {workload_id}")

    async def delete(self, workload_id: str) -> Workload:
        return self.get(workload_id)

    async def close(self) -> None:
        return


class FakePlayer:
    """Fake of the process that runs outage scripts. It has three scripts: the second fails, and the third never
    ends.
    """

    SCRIPTS: ClassVar[list[dict[str, Any]]] = [
        {"name": "kafka-708", "title": "An empty ISR", "hypothesis": "The last member stays.", "source": "KAFKA-708",
         "fixed": "0.11", "subjects": ["isr"], "driver": "world", "peers": 3, "brokers": 3,
         "bug": {"zabka.historical": "empty-isr"}, "shows": "LeaderInIsr", "switches": ["empty-isr"], "live": True,
         "live_obstacle": None},
        {"name": "broken", "title": "A disk that lies", "hypothesis": "Nobody believes it.", "source": "", "fixed": "",
         "driver": "cores", "peers": 3, "switches": [], "live": False,
         "live_obstacle": "it chooses when a disk answers", "running_obstacle": "it chooses when a disk answers"},
        {"name": "endless", "title": "Nothing happens", "hypothesis": "For ever.", "source": "", "fixed": "open",
         "driver": "world", "peers": 3, "brokers": 0, "bug": {}, "shows": "", "switches": [], "live": True,
         "live_obstacle": None},
    ]  # fmt: skip

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.files: list[dict[str, Any]] = []
        """The scenario files that were played."""
        self.cancelled = asyncio.Event()

    async def ask(self, *arguments: str, patience_s: float = PATIENCE_S, watch: Watch | None = None) -> bytes:
        self.asked.append(arguments)
        watch = watch or Watch()
        if arguments[2:3] == ("-",):
            return await self._play_file(watch)
        if arguments[:2] == ("scenarios", "list"):
            return json.dumps(self.SCRIPTS).encode()
        if arguments[2] == "broken":
            raise PlayerFailed("the player exited with code -9: it printed nothing")
        if arguments[2] == "endless":
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        return self._report(arguments[2], with_outage=True)

    async def _play_file(self, watch: Watch) -> bytes:
        """Play a scenario file: report its steps, and wait until the run is stopped if there is a step Endless."""
        file = json.loads(watch.feed)
        self.files.append(file)
        for number, step in enumerate(file["steps"], start=1):
            line = json.dumps({"step": number, "at_ms": 10 * number, "text": step["type"].lower()}).encode()
            assert watch.is_progress is None or watch.is_progress(line)
            if step["type"] == "Endless":
                await watch.stopped.wait()
                raise PlayerFailed("it was stopped")
        return self._report(file["name"], with_outage=False)

    @staticmethod
    def _report(name: str, *, with_outage: bool) -> bytes:
        line = {"at_ms": 1171, "who": "script", "text": "kill second (broker-1)"}
        fell = {"at_ms": 6515, "who": "broker-2", "text": "orders-0: no leader, leader epoch 1, ISR empty"}
        played = {"problems": [], "virtual_ms": 6700, "steps": 9, "faults": 1, "events": 2, "journal_sha256": "ab" * 32}
        outage = {**played, "problems": ["LeaderInIsr: orders-0: the ISR is empty"], "story": [line, fell]}
        shown = outage if with_outage else None
        run = {"name": name, "held": True, "played": {**played, "story": [line]}, "outage": shown}
        return json.dumps({"scenarios": 1, "violated": 0, "runs": [run]}).encode()


class FakeFollower:
    """Fake of the process that runs futures. It yields two distributions, and waits in between until `released`."""

    SHARE: ClassVar[dict[str, Any]] = {"count": 1, "low": 0.1, "high": 0.6}
    TIMES: ClassVar[dict[str, Any]] = {"median_ms": 6100, "p90_ms": 6400, "longest_ms": 6600, "never": 0}
    NO_TIMES: ClassVar[dict[str, Any]] = {"median_ms": 0, "p90_ms": 0, "longest_ms": 0, "never": 0}

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.states: list[bytes] = []
        self.released = threading.Event()
        self.failure = ""

    async def follow(self, *arguments: str, feed: bytes, patience_s: float) -> AsyncIterator[bytes]:
        self.asked.append(arguments)
        self.states.append(feed)
        if self.failure:
            raise PlayerFailed(self.failure)
        yield self.line(1, ended=False)
        await asyncio.to_thread(self.released.wait, FOLLOWED_S)
        yield self.line(4, ended=True)

    def line(self, futures: int, *, ended: bool) -> bytes:
        state = json.loads(self.states[-1])
        found = {
            "killed": self.asked[-1][4], "acks": "all", "read_at_us": state["read_at_us"], "futures": futures,
            "horizon_ms": 17500, "took_ms": 900, "ended": ended, "lost": self.SHARE, "controller": self.TIMES,
            "writable": self.TIMES, "quorum": self.NO_TIMES, "unwritable": {"orders-0": 1}, "problems": 0,
            "limits": ["Consumer groups, transactions and internal topics."],
        }  # fmt: skip
        return json.dumps(found).encode() + b"\n"


class Server:
    """Run the application on a free port in a thread."""

    def __init__(
        self, directory: Path, token: str | None = None, follower: Follower | None = None,
        player: Player | None = None, job_argv: Sequence[str] = NO_JOBS, **changes: Any,
    ) -> None:  # fmt: skip
        chosen = settings(directory, **changes)
        self.agent = FakeAgent(chosen.agents[0])
        self.ensemble = FakeEnsemble()
        self.collector = Collector(
            directory / "collected", served_max=100, file_bytes_max=1 << 16, kept_bytes_max=1 << 18
        )
        agents = Agents([self.agent])
        views = Views(chosen, agents, self.ensemble, self.collector)
        self.admin = FakeAdmin(self.ensemble)
        self.reported: list[Event] = []
        joined = JoinedBrokers(chosen.brokers, self.reported.append, self.collector.state)
        self.player = FakePlayer()
        self.follower: Follower = follower or FakeFollower()
        runs = Runs(self.collector, KeptRuns(directory / "api" / "runs"))
        scenarios = ScenarioRuns(player or self.player, runs.kept, HERE)
        self.journalled: list[Event] = []
        self.services = Services(
            chosen,
            agents,
            self.ensemble,
            self.collector,
            views,
            self.admin,
            FakeWorkloads(),
            joined,
            scenarios,
            runs,
            Forecasts(self.follower),
            self.journalled.append,
            Jobs(job_argv, directory, directory / "api"),
        )
        self._running = self.services.running
        self.services.running = self._run_in_loop  # type: ignore[method-assign]
        config = uvicorn.Config(
            create_app(self.services, token),
            port=0,
            log_level="error",
            timeout_graceful_shutdown=1,
            http=BoundedConnection,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)

    @contextlib.asynccontextmanager
    async def _run_in_loop(self) -> AsyncIterator[None]:
        self.loop = asyncio.get_running_loop()
        async with self._running():
            yield

    def collect(self, chunk: JournalChunk) -> None:
        """Pass an agent's chunk of journal entries to the collector and number them, in the server's event loop."""

        async def take() -> None:
            self.collector.accept_chunk(chunk)
            self.collector.number_due(everything=True)

        asyncio.run_coroutine_threadsafe(take(), self.loop).result(10)

    def __enter__(self) -> Server:
        self._thread.start()
        deadline = time.monotonic() + STARTS_S
        while not self._server.started:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        assert not self._thread.is_alive()
