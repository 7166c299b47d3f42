"""The real application for browser tests, with hand-written journals and a fake agent instead of node processes."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from sse_starlette.sse import AppStatus

from tests.api.api_server import (
    HERE,
    NODES,
    FakeAdmin,
    FakeAgent,
    FakeEnsemble,
    FakeFollower,
    FakePlayer,
    FakeWorkloads,
    settings,
)
from zabka.agent.protocol import API_NODE, JournalAnswer, JournalChunk, Position
from zabka.api.analytics.jobs import Jobs
from zabka.api.app import create_app
from zabka.api.collector.agents import Agents
from zabka.api.collector.collector import Collector
from zabka.api.collector.joined_brokers import JoinedBrokers
from zabka.api.runs.catalogue import Runs
from zabka.api.runs.kept import KeptRuns
from zabka.api.scenarios.forecasts import Forecasts
from zabka.api.scenarios.runs import Player, ScenarioRuns
from zabka.api.services import Services
from zabka.api.views.cluster import Views
from zabka.api.views.ensemble_view import ControllerZnodes, PartitionZnodes, TopicZnodes
from zabka.journal import events as e
from zabka.journal.events import Entry, Event, entry_from_dict
from zabka.journal.writer import encode_line

WAIT_S = 30.0
JOB_ARGV = (sys.executable, str(Path(__file__).parents[1] / "api" / "job_program.py"))
ALL = 1_000_000


class JournallingAgent(FakeAgent):
    """Agent that carries out every request, and returns the journal entries that the test writes.

    The agent keeps its journals while the API server stops and starts again.
    """

    def __init__(self, address: Any) -> None:
        super().__init__(address)
        self.lines: dict[str, list[bytes]] = {}
        self._lock = threading.Lock()

    def write(self, node: str, *events: Event) -> None:
        """Append these events to a node's journal with the current time."""
        with self._lock:
            lines = self.lines.setdefault(node, [])
            for event in events:
                lines.append(encode_line(node, len(lines) + 1, time.time_ns() // 1000, 0, event))

    async def request_action(self, node: str, action: str, requester: str) -> Any:
        before = self.processes[node].process
        info = await super().request_action(node, action, requester)
        if info.process != before:
            self.write("host-1", e.ProcessChanged(node, info.process, info.pid, action, requester))
        return info

    async def read_journal(self, positions: dict[str, Position], wait_ms: int) -> JournalAnswer:
        await asyncio.sleep(0.02)
        chunks = []
        with self._lock:
            for node, lines in self.lines.items():
                position = positions.get(node, Position())
                read = position.offset or position.after
                new = b"".join(lines[read:])
                if new:
                    chunks.append(JournalChunk(node, new, Position("told", len(lines), len(lines))))
        return JournalAnswer(chunks)


class PageServer:
    """API server whose port stays the same across `stop` and `start`."""

    def __init__(
        self, directory: Path, token: str | None = None, served_max: int = 5_000, player: Player | None = None
    ) -> None:
        """Create a server without starting it. `player` runs scripts in place of the fake player."""
        self._settings = settings(directory)
        self._token = token
        self._served_max = served_max
        self.player = player or FakePlayer()
        self._port = 0
        self.agent = JournallingAgent(self._settings.agents[0])
        self.ensemble = FakeEnsemble()
        self.admin = FakeAdmin(self.ensemble)
        self.follower = FakeFollower()
        self.url = ""

    def start(self) -> PageServer:
        """Start the API server, and wait until it accepts requests."""
        self._collector = Collector(self._settings.data / "collected", served_max=self._served_max)
        agents = Agents([self.agent])
        views = Views(self._settings, agents, self.ensemble, self._collector)
        write = partial(self.agent.write, API_NODE)
        joined = JoinedBrokers(self._settings.brokers, write, self._collector.state)
        runs = Runs(self._collector, KeptRuns(self._settings.data / "runs"))
        services = Services(
            self._settings, agents, self.ensemble, self._collector, views, self.admin, FakeWorkloads(), joined,
            ScenarioRuns(self.player, runs.kept, HERE), runs, Forecasts(self.follower), self._emit,
            Jobs(JOB_ARGV, self._settings.cluster_data, self._settings.data),
        )  # fmt: skip
        app = create_app(services, self._token)
        config = uvicorn.Config(app, port=self._port, log_level="error", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        deadline = time.monotonic() + WAIT_S
        while not self._server.started:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self._port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        return self

    def _emit(self, event: Event) -> None:
        """Journal the API's own events. Omit admin requests, which would change the history that the tests check."""
        if not isinstance(event, e.AdminRequested):
            self.agent.write(API_NODE, event)

    def stop(self) -> None:
        """Stop the API server. The collected history stays on disk."""
        # Call the server's SIGTERM handler: sse-starlette patches it, and ends its streams when it is called.
        self._server.handle_exit(signal.SIGTERM, None)
        self._thread.join(WAIT_S)
        AppStatus.should_exit = False
        assert not self._thread.is_alive()

    def append_events(self, node: str, *events: Event) -> None:
        """Append events to a node's journal, and wait until the collector has numbered them."""
        self.agent.write(node, *events)
        self.settle()

    @property
    def last_seq(self) -> int:
        """Number of the last event in the history."""
        return self._collector.last_seq

    def settle(self, within_s: float = WAIT_S) -> None:
        """Wait until the collector has numbered all written events."""
        total = sum(map(len, self.agent.lines.values()))
        deadline = time.monotonic() + within_s
        while self.last_seq < total:
            assert time.monotonic() < deadline, f"{self.last_seq} of {total} events were numbered"
            time.sleep(0.01)

    def numbered(self) -> list[Entry]:
        """Return the whole numbered history."""
        return [entry_from_dict(json.loads(each.json)) for each in self._collector.after(0, ALL)]

    def believe(self, broker: int, controller: int, epoch: int, age_ms: int = 100) -> None:
        """Set which controller a broker believes in. The broker's control socket reports it."""
        believes = {"controller_id": controller, "controller_epoch": epoch, "age_ms": age_ms}
        self.agent.set_status(f"broker-{broker}", age_ms, is_controller=broker == controller, believes=believes)

    def is_controller(self, broker: int, epoch: int) -> None:
        """Set the controller's broker id and its epoch in the fake ensemble's znodes."""
        reading = self.ensemble.reading
        controller = ControllerZnodes(broker, epoch, epoch, 1_700_000_000_000)
        self.ensemble.reading = reading._replace(controller=controller)

    def has_topic(self, name: str, partitions: dict[int, PartitionZnodes]) -> None:
        """Add a topic to the fake ensemble's znodes."""
        self.ensemble.reading.topics[name] = TopicZnodes(name, "id", {}, partitions)


def write_healthy_cluster(server: PageServer) -> None:
    """Write the journals of a healthy cluster: ZAB leader 2 in epoch 1, controller 1 in epoch 3, and one topic.

    The cluster has three peers and three brokers.
    """
    write = server.agent.write
    for node in NODES:
        role, number = node.split("-")
        write("host-1", e.ProcessChanged(node, "running", 100 + NODES.index(node), "start"))
        write(node, e.NodeStarted(role, int(number), {}))
    for peer in (1, 2, 3):
        state = "LEADING" if peer == 2 else "FOLLOWING"
        write(f"peer-{peer}", e.PeerStateChanged(state, "BROADCAST", 2, 1, 1, 1, 0x1_0000_0012))
    write("peer-2", e.LeaderEstablished(2, 1, 0x1_0000_0000, [1, 2, 3]))
    for broker in (1, 2, 3):
        session = 0x1_0000_A2C3_D000 + broker
        write(f"broker-{broker}", e.BrokerSessionChanged(broker, "connected", session))
        write(f"broker-{broker}", e.BrokerRegistered(broker, 24 + broker, session))
    write("broker-1", e.ControllerElected(1, 3, 3))
    for broker in (1, 2, 3):
        write(f"broker-{broker}", e.ControllerBelieved(broker, 1, 3, broker == 1))
        server.believe(broker, 1, 3)
    write("broker-1", e.TopicCreated("orders", "id", {0: [1, 2, 3]}))
    write("broker-1", e.LeaderElected("orders", 0, 1, 4, [1, 2], [1, 2, 3], 6, 3, False, "controller"))
    for broker, end in ((1, 121), (2, 120), (3, 90)):
        write(f"broker-{broker}", e.ReplicaProgressed(broker, [("orders", 0, 120 if broker < 3 else 90, end)]))
    server.settle()
