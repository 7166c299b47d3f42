"""A live ensemble for tests: real peers with data in a temporary directory, controlled through the HTTP API.

`LiveEnsemble` is the value of the fixture `zabka_ensemble`, and the part of a `LiveCluster` that needs no brokers.
Every call blocks. `until` waits for a condition: it polls until the condition is true, and reports the last value if it
times out.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from zabka.journal.events import Entry
from zabka.journal.reader import merge, read_directory
from zabka.testing.cluster import READY_TIMEOUT_S, ClusterFailed, Happening
from zabka.testing.conditions import Wait
from zabka.testing.live.access import access_with
from zabka.testing.live.aio import POLL_S, AsyncWaits
from zabka.testing.live.apart import run_apart
from zabka.testing.live.faults import Faults
from zabka.testing.live.http_api import HttpApi
from zabka.testing.live.isolation import reset_znodes
from zabka.testing.live.nodes import Broker, Node, Peer
from zabka.testing.live.sessions import end_session

T = TypeVar("T")

HEAL_TIMEOUT_S = 60.0


class LiveEnsemble(HttpApi):
    """A running ensemble: `peers`, `faults`, the journal, and `until`."""

    def __init__(
        self, url: str, data: Path, process: subprocess.Popen[bytes] | None = None, *, token: str | None = None
    ) -> None:
        super().__init__(url, token)
        self.process = process
        self.data = data
        self.peers = {p["id"]: Peer(self, "peer", p["id"]) for p in self.get("/api/v1/peers")}
        self.faults = Faults(self)
        settings = self.get("/api/v1/cluster")["settings"]
        self.zookeeper_connect: str = settings["zookeeper_connect"]
        self.access = access_with(settings.get("security", ""))
        self.aio = AsyncWaits()
        self._began = (0, -1)

    # ---- queries -----------------------------------------------------------------------------------------------------

    @property
    def zab_leader(self) -> Peer | None:
        """The peer that is the established leader of the ensemble, or None."""
        serving = [p for p in self.get("/api/v1/peers") if p["process"] == "running" and p["phase"] == "BROADCAST"]
        return next((self.peers[p["id"]] for p in serving if p["state"] == "LEADING"), None)

    @property
    def now_us(self) -> int:
        """Current time of this machine's monotonic clock, which is also the clock of every node's `mono_us`."""
        return time.monotonic_ns() // 1000

    def settings(self, node: str = "peer-1") -> dict[str, str]:
        """Return the effective configuration that a node wrote to its journal at its start."""
        return dict([e for e in self.events("node_started", after_us=-1) if e["node"] == node][-1]["config"])

    def events(self, *types: str, after_us: int | None = None) -> list[Happening]:
        """Return the events since the test began, or since `after_us`; with `types`, only events of these types."""
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
        """Return all journal entries in order. They are read from the nodes' files, so this works without the API."""
        directories = sorted(self.data.glob("*/journal"))
        return merge(entry for directory in directories for entry in read_directory(directory))

    def replay(self, test: str) -> str:
        """Return the command that shows the history of a failed test.

        No command can repeat a run on real processes.
        """
        return f"zabka why EVENT --data {self.data}   (EVENT is such as peer-1#12; the page was {self.url})"

    @property
    def began_us(self) -> int:
        """Time (as `now_us`) at which this test began, or -1 before the first test."""
        return self._began[1]

    @property
    def seq(self) -> int:
        """Sequence number of the journal's last event."""
        return int(self.get("/api/v1/cluster")["seq"])

    # ---- actions -----------------------------------------------------------------------------------------------------

    def until(self, condition: Callable[[], T | Literal[False] | None], timeout_s: float = 30.0, what: str = "") -> T:
        """Poll until the condition returns a true value, and return that value. Raises ClusterFailed after
        `timeout_s`.
        """
        wait = Wait[T](condition, timeout_s, what)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if found := wait.holds():
                return found
            time.sleep(POLL_S)
        raise ClusterFailed(wait.failure())

    def expire_session(self, client_id: int | tuple[int, bytes] | Broker) -> None:
        """End a client's session as if it had expired: its ephemeral znodes are deleted, and it gets SessionExpired.

        `client_id` is the id of the session, kazoo's `client.client_id`, or a broker, whose own session then ends.
        Raises ClusterFailed if there is no such session.
        """
        if isinstance(client_id, Broker):
            stat = self.get(f"/api/v1/znodes/brokers/ids/{client_id.id}")["stat"]
            client_id = int(stat["ephemeral_owner"], 16)
        session_id = client_id if isinstance(client_id, int) else client_id[0]
        run_apart(partial(end_session, self.zookeeper_connect, session_id, self.access.ensemble))

    def let_pass(self, seconds: float) -> None:
        """Wait for `seconds`."""
        time.sleep(seconds)

    def until_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until the ensemble has a quorum and, if there are brokers, until a controller knows all running
        brokers.
        """
        self.until(lambda: self.get("/readyz"), timeout_s, "readiness")

    def heal(self) -> None:
        """Start nodes that are down, resume paused nodes and remove faults; then wait until the ensemble is ready.

        The ensemble is ready when every peer follows or leads, because a quorum exists already while a restarted peer
        still loads its data.
        """
        self.faults.heal()
        for node in self._nodes():
            process = node.process
            if process == "paused":
                node.resume()
            elif process == "down":
                node.start()
        self.until_ready(HEAL_TIMEOUT_S)
        self.until(self._peers_have_joined, HEAL_TIMEOUT_S, "every peer follows or leads")

    def _peers_have_joined(self) -> bool:
        return all(peer.process == "running" and peer.phase == "BROADCAST" for peer in self.peers.values())

    def _nodes(self) -> list[Node]:
        return list(self.peers.values())

    def start_test(self) -> None:
        """Begin a test: repair the ensemble, delete the znodes of earlier tests, and hide earlier events.

        After this call, `events` returns only newer events.
        """
        self.heal()
        self._reset()
        self.begin_here()

    def _reset(self) -> None:
        run_apart(partial(reset_znodes, self.zookeeper_connect, [], {}, {}, self.access.ensemble))

    def begin_here(self) -> None:
        """Make `events` return only events after this call."""
        self._began = (self.seq, self.now_us)
