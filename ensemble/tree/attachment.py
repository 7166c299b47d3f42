"""Attachment of clients to sessions: a ConnectRequest opens a new session, resumes one, or is rejected."""

from __future__ import annotations

from zabka.ensemble.ids import PeerId, SessionId, Zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import ConnectRequest, ConnectResponse, OpCode
from zabka.ensemble.tree.clients import Clients
from zabka.ensemble.tree.connections import Connection, OpenSession, Stage
from zabka.ensemble.tree.counters import Counters
from zabka.ensemble.tree.local_requests import LocalRequests
from zabka.ensemble.tree.requests import RequestIntake
from zabka.ensemble.tree.server_state import ServerState
from zabka.ensemble.tree.sessions import NO_PASSWORD, SessionIds, password_of
from zabka.ensemble.txn import CreateSessionTxn
from zabka.ensemble.zab.application import AskRevalidate, Submit
from zabka.ensemble.zab.effects import Answer, Effect
from zabka.ensemble.zab.messages import ForwardedRequest

MIN_TIMEOUT_TICKS = 2
MAX_TIMEOUT_TICKS = 20
"""Default for the longest session timeout, in ticks."""
_UNSIGNED = (1 << 64) - 1


class Attachment:
    """Attaches each client to its session.

    Requests that arrive before the session is attached are queued, and processed afterwards.
    """

    def __init__(
        self, state: ServerState, clients: Clients, counters: Counters, *, local: LocalRequests, requests: RequestIntake
    ) -> None:
        config = state.config
        minimum, maximum = config.min_session_timeout_ms, config.max_session_timeout_ms
        self._timeout_min_ms = minimum if minimum != -1 else MIN_TIMEOUT_TICKS * config.tick_time_ms
        self._timeout_max_ms = maximum if maximum != -1 else MAX_TIMEOUT_TICKS * config.tick_time_ms
        self._session_ids = SessionIds(PeerId(config.my_id))
        self._state = state
        self._clients = clients
        self._counters = counters
        self._local = local
        self._requests = requests

    def start(self, now: Instant) -> None:
        """Begin to accept clients. The time `now` becomes part of the ids of new sessions."""
        self._session_ids.start(now)
        self._local.start(now)

    def session_created(self, now: Instant, session_id: SessionId, effects: list[Effect]) -> None:
        """Handle an applied createSession: attach the client that waits for this session here, if any."""
        client = self._clients.attaching.get(session_id)
        if client is not None and client.creates:
            del self._clients.attaching[session_id]
            self.attach(now, client, True, effects)

    def connect(self, now: Instant, client: Connection, request: ConnectRequest, effects: list[Effect]) -> None:
        """Process a ConnectRequest (ZooKeeperServer.processConnectRequest)."""
        if client.stage is not Stage.OPEN:
            self._clients.close(client, effects)
            return
        if reason := self._refusal(request):
            self._clients.close(client, effects, reason)
            return
        client.knows_read_only = request.read_only is not None
        client.timeout_ms = min(max(request.timeout_ms, self._timeout_min_ms), self._timeout_max_ms)
        if self._connect_alone(now, client, request, effects):
            return
        if request.session_id == 0:
            session_id = self._session_ids.next()
            client.creates = True
            self._start_attaching(client, session_id)
            body = CreateSessionTxn(client.timeout_ms).encode()
            effects.append(Submit(ForwardedRequest(session_id, 0, OpCode.CREATE_SESSION, body)))
            return
        session_id = SessionId(request.session_id)
        if request.password != password_of(session_id):
            self.attach(now, client, False, effects)
            return
        self._clients.close_others(session_id, effects)
        self._start_attaching(client, session_id)
        effects.append(AskRevalidate(session_id, client.timeout_ms))

    def _refusal(self, request: ConnectRequest) -> str:
        """Return why this server rejects a ConnectRequest, or "" if it does not. A rejected client gets no reply."""
        session = f"session 0x{request.session_id & _UNSIGNED:x}"
        if self._state.read_only and not request.read_only:
            return f"{session}: this server is read-only until it finds a leader, and the client did not ask for that"
        last_zxid = self._state.tree.last_zxid
        if request.last_zxid_seen > last_zxid:
            return (
                f"{session}: the client has seen zxid 0x{request.last_zxid_seen:x}, the last one here is "
                f"0x{last_zxid:x}; it must try another server, or be restarted if no server has that zxid"
            )
        return ""

    def _connect_alone(self, now: Instant, client: Connection, request: ConnectRequest, effects: list[Effect]) -> bool:
        """Process a ConnectRequest that this server can handle without the leader; return False for any other."""
        local, session_id = self._local.sessions, SessionId(request.session_id)
        if session_id == 0 and local is not None:
            client.session_id = self._session_ids.next()
            self._local.open(now, local, client, effects)
            valid = True
        elif self._state.read_only and (session_id == 0 or session_id in self._state.tree.sessions):
            # Only a leader can open or resume a global session. Close the connection, so that the client tries other
            # servers.
            reason = f"session 0x{session_id & _UNSIGNED:x}: a read-only server cannot tell whether it lives on"
            self._clients.close(client, effects, reason if session_id else "a read-only server opens no session")
            return True
        elif self._state.read_only or (local is not None and session_id in local):
            client.session_id = session_id
            valid = request.password == password_of(session_id) and self._local.touch(now, client)
            if valid:
                self._clients.close_others(session_id, effects)
        else:
            return False
        client.alone = True
        self.attach(now, client, valid, effects)
        return True

    def _start_attaching(self, client: Connection, session_id: SessionId) -> None:
        client.stage = Stage.ATTACHING
        client.session_id = session_id
        self._clients.attaching[session_id] = client

    def revalidated(self, now: Instant, session_id: SessionId, valid: bool, proposed: Zxid) -> list[Effect]:
        """Process the leader's reply to a request to revalidate a session (AskRevalidate)."""
        effects: list[Effect] = []
        connection = self._clients.attaching.pop(session_id, None)
        if connection is not None:
            connection.attached_after = proposed
            self.attach(now, connection, valid, effects)
        return effects

    def attach(self, now: Instant, client: Connection, valid: bool, effects: list[Effect]) -> None:
        """Reply to a ConnectRequest (finishSessionInit).

        If the session is not `valid`, the reply reports that the session has expired, and the connection is closed.
        """
        self._counters.packets_sent += 1
        read_only = self._state.read_only if client.knows_read_only else None
        if not valid:
            effects.append(Answer(client.id, ConnectResponse(0, 0, 0, NO_PASSWORD, read_only)))
            self._clients.close(client, effects)
            return
        session_id = client.session_id
        client.stage = Stage.ATTACHED
        session = self._clients.sessions.get(session_id)
        if session is None:
            session = self._clients.sessions[session_id] = OpenSession(session_id)
        session.connection = client
        client.sent += 1
        response = ConnectResponse(0, client.timeout_ms, session_id, password_of(session_id), read_only)
        effects.append(Answer(client.id, response))
        self._clients.touch(now, client)
        held, client.held = client.held, []
        for request in held:
            if client.stage is Stage.ATTACHED:
                self._requests.request(now, client, request, effects)
