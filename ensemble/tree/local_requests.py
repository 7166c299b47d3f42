"""Requests of local sessions and of clients of a read-only server.

Source: QuorumZooKeeperServer, ReadOnlyZooKeeperServer.
"""

from __future__ import annotations

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import PeerId, SessionId
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import OpCode, Reply, Request
from zabka.ensemble.tree.connections import Connection, Waiting
from zabka.ensemble.tree.create_modes import wants_ephemeral
from zabka.ensemble.tree.local_sessions import NEEDS_A_QUORUM, LocalSessions
from zabka.ensemble.tree.server_state import ServerState
from zabka.ensemble.txn import CreateSessionTxn
from zabka.ensemble.zab.application import Submit
from zabka.ensemble.zab.effects import Effect
from zabka.ensemble.zab.messages import ForwardedRequest


class LocalRequests:
    """Handles connections whose sessions the leader does not know (`Connection.alone`).

    `sessions` contains the local sessions, or is None if local sessions are not enabled.
    """

    __slots__ = ("_state", "sessions")

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self.sessions: LocalSessions | None = None
        config = state.config
        if config.local_sessions:
            self.sessions = LocalSessions(
                PeerId(config.my_id), config.tick_time_ms, upgrading=config.local_sessions_upgrading
            )

    def start(self, now: Instant) -> None:
        """Begin to accept clients; no local session exists yet."""
        if self.sessions is not None:
            self.sessions.start(now)

    def listed(self) -> list[tuple[SessionId, int]]:
        """Return (id, timeout in milliseconds) of the local sessions."""
        return self.sessions.listed() if self.sessions is not None else []

    def knows(self, session_id: SessionId) -> bool:
        """Return whether the session is a local session of this server."""
        return self.sessions is not None and session_id in self.sessions

    def open(self, now: Instant, local: LocalSessions, client: Connection, effects: list[Effect]) -> None:
        """Open a new local session for a client."""
        if not len(local):
            effects.append(local.next_expiry(now))
        local.open(now, client.session_id, client.timeout_ms)

    def touch(self, now: Instant, client: Connection) -> bool:
        """Record that a session is active; return False if it has expired.

        A read-only server without local sessions cannot detect expired sessions.
        """
        return self.sessions is None or self.sessions.touch(now, client.session_id, client.timeout_ms)

    def stays_here(self, now: Instant, waiting: Waiting, request: Request, effects: list[Effect]) -> bool:
        """Return whether a request of a local session is handled here although its op normally goes to the leader.

        If the request needs a global session, begin to upgrade the local session.
        """
        local, client, op = self.sessions, waiting.connection, request.op
        session_id = client.session_id
        is_local = local is not None and session_id in local
        if op == OpCode.CLOSE_SESSION and is_local:
            return True
        if self._state.read_only:
            if op not in NEEDS_A_QUORUM and op != OpCode.CLOSE_SESSION:
                return False
            waiting.body, waiting.problem = None, ErrorCode.NOT_READ_ONLY
            return True
        if local is not None and is_local and local.upgrading and wants_ephemeral(request):
            if self._state.proposer is not None:
                # Make the session global before removing it from the local sessions: requests that arrived together
                # with this one are checked before the createSession is applied
                # (UpgradeableSessionTracker.upgradeSession).
                self._state.proposer.tracker.track(now, session_id, client.timeout_ms)
            local.close(session_id)
            client.alone = False
            body = CreateSessionTxn(client.timeout_ms).encode()
            effects.append(Submit(ForwardedRequest(session_id, 0, OpCode.CREATE_SESSION, body)))
        return False

    def close(self, waiting: Waiting) -> Reply:
        """Close a local session whose closeSession request is next in its queue; return the reply."""
        assert self.sessions is not None, "any other closeSession is a transaction"
        self.sessions.close(waiting.connection.session_id)
        waiting.closes = True
        return Reply(waiting.cxid, self._state.tree.last_zxid, 0)
