"""Checks that no server replies to a client before it has loaded its data and joined its cluster.

A peer is allowed to reply when its phase is BROADCAST in an epoch with an established leader, until it is LOOKING again
(ZooKeeperServer.State.RUNNING).  Before that, its tree may lack committed transactions or contain uncommitted ones, so
only a read-only server replies.  A broker is allowed to reply after its first registration
(SocketServer.enableRequestProcessing); before that it has not opened all its logs.

A reply is any data that a server writes to a connection of its client port.
"""

from __future__ import annotations

from collections.abc import Callable

from zabka.ensemble.records import ConnectResponse
from zabka.journal import events as e
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.events import Entry, InvariantViolated
from zabka.simulation.engine.observed import FrameReader, Observer

NAME = "servers answer only while they serve"
BROADCAST = "BROADCAST"


class Serving:
    """Checks all servers of one simulated world."""

    watches = (e.NodeStarted, e.LeaderEstablished, e.PeerStateChanged, e.BrokerRegistered)
    """Types of events that `journalled` processes."""

    def __init__(self, checked: CheckCounts, emit: Callable[[InvariantViolated], object]) -> None:
        self._checked = checked
        self._emit = emit
        self._established: dict[int, None] = {}
        """Epochs with an established leader."""
        self._states: dict[str, str] = {}
        """State of each server that is not allowed to reply yet."""
        self._said: dict[str, None] = {}

    def journalled(self, entry: Entry) -> None:
        """Process a journal entry."""
        event = entry.event
        if isinstance(event, e.NodeStarted):
            self._states[entry.node] = "starting"
        elif isinstance(event, e.LeaderEstablished):
            self._established[event.epoch] = None
        elif isinstance(event, e.PeerStateChanged):
            if event.phase == BROADCAST and event.current_epoch in self._established:
                self._states.pop(entry.node, None)
            else:
                self._states[entry.node] = f"{event.state} in {event.phase}, epoch {event.current_epoch}"
        elif isinstance(event, e.BrokerRegistered):
            self._states.pop(entry.node, None)

    def peer_connection(self, node: str) -> Observer:
        """Return an observer for a new connection to a peer's client port."""
        return _PeerConnection(self, node)

    def broker_connection(self, node: str) -> Observer:
        """Return an observer for a new connection to a broker."""
        return _Connection(self, node)

    def check_answer(self, node: str) -> None:
        """Check that a server that sends a reply is allowed to reply."""
        self._checked.note(NAME)
        state = self._states.get(node)
        if state is not None and node not in self._said:
            self._said[node] = None
            self._emit(InvariantViolated(NAME, f"{node} answers a client while it is {state}"))


class _Connection:
    """Observes one connection."""

    def __init__(self, serving: Serving, node: str) -> None:
        self._serving = serving
        self._node = node

    def received(self, data: bytes) -> None:
        """Do nothing, because only replies are checked."""

    def sent(self, data: bytes) -> None:
        """Check data that the server sent."""
        self._serving.check_answer(self._node)


class _PeerConnection(_Connection):
    """Observes one connection to a peer.  The first reply shows whether the server is read-only."""

    def __init__(self, serving: Serving, node: str) -> None:
        super().__init__(serving, node)
        self._frames = FrameReader()
        self._is_attached = False
        self._is_read_only = False

    def sent(self, data: bytes) -> None:
        """Check data that the peer sent."""
        if not self._is_attached:
            for frame in self._frames.read(data):
                self._is_attached = True
                self._is_read_only = bool(ConnectResponse.decode(frame).read_only)
                break
        if self._is_attached and not self._is_read_only:
            super().sent(data)
