"""Clients of one server: their connections, the sessions open here, and the sessions that were active recently.

Source: the connection tables of NIOServerCnxnFactory and ZooKeeperServer, and LearnerSessionTracker's table of touched
sessions.
"""

from __future__ import annotations

from collections import deque

from zabka.ensemble.ids import ConnectionId, SessionId
from zabka.ensemble.ports import Instant
from zabka.ensemble.tree.connections import Connection, OpenSession, Stage, Waiting
from zabka.ensemble.tree.counters import Counters
from zabka.ensemble.tree.local_requests import LocalRequests
from zabka.ensemble.tree.server_state import ServerState
from zabka.ensemble.tree.sessions import LOCAL
from zabka.ensemble.zab.effects import CloseConnection, Effect


class Clients:
    """Tables of connections and sessions. The table objects are never replaced, so other objects can refer to them.

    `connections`: all open connections. `attaching`: connections whose session the leader has not confirmed yet.
    `sessions`: sessions that are connected here or have unfinished requests. `held_back`: sessions with a reply that
    waits until the client has read earlier replies. `syncing`: syncs of a session that the leader has not replied to
    yet, oldest first.
    """

    __slots__ = (
        "_counters", "_local", "_my_id", "_state", "_touched", "attaching", "connections", "held_back",
        "sessions", "syncing",
    )  # fmt: skip

    def __init__(self, state: ServerState, counters: Counters, local: LocalRequests) -> None:
        self._state = state
        self._counters = counters
        self._local = local
        self._my_id = state.config.my_id
        self.connections: dict[ConnectionId, Connection] = {}
        self.sessions: dict[SessionId, OpenSession] = {}
        self.attaching: dict[SessionId, Connection] = {}
        self.held_back: dict[SessionId, None] = {}
        self.syncing: dict[SessionId, deque[Waiting]] = {}
        self._touched: dict[SessionId, int] = {}

    def close(self, client: Connection, effects: list[Effect], reason: str = "") -> None:
        """Close a connection, unless it is closed already. `reason`, if given, is logged."""
        if client.stage is not Stage.CLOSED:
            effects.append(CloseConnection(client.id, reason))
            self.forget(client)

    def forget(self, client: Connection) -> None:
        """Remove a closed connection and its watches; its session remains until it expires."""
        client.stage = Stage.CLOSED
        client.held.clear()
        client.deferred.clear()
        self._counters.stale_replies += client.outstanding
        del self.connections[client.id]
        self._state.watches.forget(client.id)
        session_id = client.session_id
        if self.attaching.get(session_id) is client:
            del self.attaching[session_id]
        session = self.sessions.get(session_id)
        if session is not None and session.connection is client:
            session.connection = None
            self.held_back.pop(session_id, None)
            # Keep the writes that have been submitted, because their transactions must still be matched with them. Drop
            # all other requests.
            left = [waiting for waiting in session.queue if waiting.under_way and not waiting.done]
            session.queue.clear()
            session.queue.extend(left)
            if not session.queue:
                del self.sessions[session_id]

    def close_others(self, session_id: SessionId, effects: list[Effect]) -> None:
        """Close an older connection of the session to this server: a session has one connection."""
        session = self.sessions.get(session_id)
        for older in (self.attaching.get(session_id), session.connection if session is not None else None):
            if older is not None:
                self.close(older, effects)

    def waits(self, session_id: SessionId) -> bool:
        """Return whether a reply in the session's queue must be sent before a write of the session is applied."""
        syncs = self.syncing.get(session_id)
        return session_id in self.held_back or (syncs is not None and not syncs[-1].done)

    def close_session(self, session_id: SessionId, effects: list[Effect]) -> None:
        """Remove a local session that has ended; close its connection, if any."""
        session = self.sessions.get(session_id)
        if session is not None and session.connection is not None:
            self.close(session.connection, effects)

    def close_all(self) -> list[Effect]:
        """Stop accepting clients: close every connection, and remove every session and watch."""
        effects: list[Effect] = [CloseConnection(connection) for connection in self.connections]
        for client in self.connections.values():
            client.stage = Stage.CLOSED
        self.connections.clear()
        self.sessions.clear()
        self.attaching.clear()
        self.held_back.clear()
        self.syncing.clear()
        self._touched.clear()
        self._state.watches.clear()
        return effects

    def touch(self, now: Instant, client: Connection) -> bool:
        """Record that the client's session is active. Return False if the session is already closing."""
        if client.alone:
            return self._local.touch(now, client)
        proposer = self._state.proposer
        if proposer is not None:
            return proposer.tracker.touch(now, client.session_id, client.timeout_ms, self._my_id)
        self._touched[client.session_id] = client.timeout_ms
        return True

    def accepts_message(self, now: Instant, client: Connection, effects: list[Effect]) -> bool:
        """Record that a client sent a message. Return False if messages of this client are no longer processed."""
        if not self.touch(now, client):
            return False  # the session is closing; its end will close the connection
        proposer = self._state.proposer
        if client.alone or proposer is None:
            return True
        if not proposer.tracker.owned_by(client.session_id, LOCAL):
            self.close(client, effects)  # SessionMoved is never sent
            return False
        return True

    def not_touched(self, session_id: SessionId) -> None:
        """Exclude an ended session from the active sessions that are reported to the leader."""
        self._touched.pop(session_id, None)

    def drain_touched(self) -> list[tuple[SessionId, int]]:
        """Remove and return the sessions that were active since the last call, for a learner's report to the leader."""
        touched = list(self._touched.items())
        self._touched.clear()
        return touched

    def reset_statistics(self) -> None:
        """Reset the statistics of every connection (`crst`)."""
        for client in self.connections.values():
            client.reset_statistics()

    def outstanding(self, connection: ConnectionId) -> int:
        """Return the number of a connection's requests that have no reply yet.

        If it is high, the port pauses reading.
        """
        client = self.connections.get(connection)
        return client.outstanding + len(client.held) if client is not None else 0
