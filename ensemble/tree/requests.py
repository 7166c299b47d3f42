"""Each session's requests, answered in the order in which they came (CommitProcessor, FinalRequestProcessor).

A client's write is submitted as soon as it arrives, so that many are under way; its answer, and every request of the
session behind it, waits in the session's queue until the transaction has been applied here.
"""

from __future__ import annotations

from collections.abc import Iterable

from ensemble.effects import Answer, CloseConnection, Effect, Emit
from ensemble.errors import ErrorCode
from ensemble.ids import SessionId
from ensemble.ports import Instant
from ensemble.records import (
    NOTIFICATION_XID,
    PING_XID,
    WRITES,
    AnyBody,
    AuthPacket,
    EventType,
    KeeperState,
    OpCode,
    PathRequest,
    Reply,
    Request,
    SetWatches,
    SyncResponse,
    WatcherEvent,
)
from ensemble.tree.acl import authenticate
from ensemble.tree.answers import answer_write, moved
from ensemble.tree.connections import Connection, LocalSession, Stage, Waiting
from ensemble.tree.datatree import Applied
from ensemble.tree.facts import acknowledged_fact
from ensemble.tree.proposer import Proposer
from ensemble.tree.reads import answer_read, rearm
from ensemble.tree.sessions import LOCAL
from ensemble.tree.statistics import ServiceViews
from ensemble.txn import Txn
from ensemble.zab.application import EnsembleConfig, Submit, SubmitSync
from ensemble.zab.messages import ForwardedRequest, SyncRequest

OUTSTANDING_MAX = 20_000
"""Requests of one connection that wait for an answer; a client that goes beyond it is disconnected."""
_NOT_FOR_CLIENTS = {OpCode.NOTIFICATION, OpCode.ERROR, OpCode.CREATE_SESSION, OpCode.CHECK, OpCode.DELETE_CONTAINER}
_CLIENT_OPS = frozenset(int(op) for op in OpCode if op not in _NOT_FOR_CLIENTS)
"""Any other op is answered with UNIMPLEMENTED and the end of the connection (Request.isValid)."""
_SYNC_CONNECTED = int(KeeperState.SYNC_CONNECTED)


class RequestQueues(ServiceViews):
    """The part of a `Service` that takes requests of attached clients and answers them."""

    _config: EnsembleConfig
    _proposer: Proposer | None
    _attaching: dict[SessionId, Connection]
    _touched: dict[SessionId, int]

    def _close(self, connection: Connection, effects: list[Effect]) -> None:
        if connection.stage is not Stage.CLOSED:
            effects.append(CloseConnection(connection.id))
            self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        connection.stage = Stage.CLOSED
        connection.held.clear()
        del self._connections[connection.id]
        self._watches.forget(connection.id)
        session_id = connection.session_id
        if self._attaching.get(session_id) is connection:
            del self._attaching[session_id]
        session = self._sessions.get(session_id)
        if session is not None and session.connection is connection:
            session.connection = None
            if not session.queue:
                del self._sessions[session_id]

    def _touch(self, now: Instant, client: Connection) -> bool:
        """The session was heard from.  False where it is closing already."""
        if self._proposer is not None:
            return self._proposer.tracker.touch(now, client.session_id, client.timeout_ms)
        self._touched[client.session_id] = client.timeout_ms
        return True

    def _request(self, now: Instant, client: Connection, request: Request, effects: list[Effect]) -> None:
        if not self._touch(now, client):
            return  # its closing is under way, and will close the connection
        session_id = client.session_id
        if self._proposer is not None and not self._proposer.tracker.owned_by(session_id, LOCAL):
            self._close(client, effects)  # SessionMoved is never sent
            return
        op, body = request.op, request.body
        if op == OpCode.AUTH:
            self._authenticate(client, request.xid, body, effects)
            return
        if client.outstanding >= OUTSTANDING_MAX:
            self._close(client, effects)
            return
        session = self._sessions[session_id]
        waiting = Waiting(client, request.xid, op, body, now.mono_ms)
        waiting.problem = request.problem
        session.queue.append(waiting)
        client.outstanding += 1
        if body is not None and op in WRITES and op in _CLIENT_OPS:
            waiting.under_way = True
            out = bytearray()
            body.encode_into(out)
            effects.append(Submit(ForwardedRequest(session_id, request.xid, op, bytes(out), client.auth)))
        elif op == OpCode.SYNC and isinstance(body, PathRequest):
            waiting.under_way = True
            effects.append(SubmitSync(SyncRequest(session_id, request.xid, body.path)))
        elif len(session.queue) == 1:
            self._answer_ready(now, session, effects)

    def _authenticate(self, client: Connection, xid: int, packet: AnyBody | None, effects: list[Effect]) -> None:
        """Answered at once, not in its turn, as ZooKeeper does; refused credentials end the connection."""
        if not isinstance(packet, AuthPacket):
            self._close(client, effects)  # unreadable: not even an answer
            return
        identity = authenticate(packet.scheme, packet.auth)
        error = ErrorCode.OK if identity is not None else ErrorCode.AUTH_FAILED
        self.packets_sent += 1
        effects.append(Answer(client.id, Reply(xid, 0, int(error))))
        if identity is None:
            self._close(client, effects)
        elif identity not in client.auth:
            client.auth = (*client.auth, identity)

    def _commit(self, now: Instant, session: LocalSession, txn: Txn, applied: Applied, effects: list[Effect]) -> None:
        """A transaction of a session that is connected here was applied: is it one that we wait for?"""
        for waiting in session.queue:
            if waiting.under_way and not waiting.done and waiting.op != OpCode.SYNC:
                break
        else:
            return
        if waiting.cxid != txn.cxid or (txn.type != waiting.op and txn.type != OpCode.ERROR):
            return  # the session was elsewhere when it asked for this
        if moved(txn, applied):
            session.queue.remove(waiting)
            waiting.connection.outstanding -= 1
            self._close(waiting.connection, effects)
        else:
            waiting.done = True
            waiting.reply = answer_write(waiting, txn, applied)
        self._answer_ready(now, session, effects)

    def sync_done(self, now: Instant, request: SyncRequest) -> list[Effect]:
        """Every transaction that SubmitSync waited for has been applied here."""
        effects: list[Effect] = []
        session = self._sessions.get(request.session_id)
        if session is not None:
            for waiting in session.queue:
                if waiting.op == OpCode.SYNC and waiting.cxid == request.cxid and not waiting.done:
                    waiting.done = True
                    response = SyncResponse(request.path)
                    waiting.reply = Reply(request.cxid, self._tree.last_zxid, 0, response)
                    break
            self._answer_ready(now, session, effects)
        return effects

    def _session_closed(self, now: Instant, session: LocalSession, txn: Txn, effects: list[Effect]) -> None:
        """The session is over: answer its own closeSession, in its turn; whatever else waits is dropped."""
        connection = session.connection
        own = next((w for w in session.queue if w.op == OpCode.CLOSE_SESSION and w.cxid == txn.cxid), None)
        if own is not None and connection is own.connection and connection is not None:
            for waiting in session.queue:
                if waiting is own:
                    break
                if isinstance(waiting.body, PathRequest) and waiting.op == OpCode.SYNC and not waiting.done:
                    # What the session asked for after it is committed and applied, so all before it is, too.
                    waiting.done = True
                    waiting.reply = Reply(waiting.cxid, txn.zxid, 0, SyncResponse(waiting.body.path))
            own.done = own.closes = True
            own.reply = Reply(own.cxid, txn.zxid, 0)
            self._answer_ready(now, session, effects)
        for waiting in session.queue:
            waiting.connection.outstanding = 0
        session.queue.clear()
        if connection is not None:
            self._close(connection, effects)
        self._sessions.pop(session.id, None)

    def _answer_ready(self, now: Instant, session: LocalSession, effects: list[Effect]) -> None:
        """Answer from the head of the session's queue up to the first request that is still under way."""
        queue = session.queue
        while queue:
            waiting = queue[0]
            if waiting.under_way and not waiting.done:
                return
            queue.popleft()
            client = waiting.connection
            client.outstanding -= 1
            if client.stage is not Stage.CLOSED:
                reply = waiting.reply or self._work_out(waiting, effects)
                self._answer(now, waiting, client, reply, effects)
        if session.connection is None:
            self._sessions.pop(session.id, None)

    def _work_out(self, waiting: Waiting, effects: list[Effect]) -> Reply:
        """A request that needs no transaction: a read, a ping, setWatches, or one that makes no sense."""
        op, body, cxid = waiting.op, waiting.body, waiting.cxid
        zxid = self._tree.last_zxid
        if op == OpCode.PING:
            return Reply(PING_XID, zxid, 0)
        if op not in _CLIENT_OPS:
            waiting.closes = True
            return Reply(cxid, -1, int(ErrorCode.UNIMPLEMENTED))
        if body is None:
            return Reply(cxid, zxid, int(waiting.problem))
        if isinstance(body, SetWatches):
            self._tell_missed(
                waiting.connection, rearm(self._tree, self._watches, waiting.connection.id, body), effects
            )
            return Reply(cxid, zxid, 0)
        error, response = answer_read(self._tree, self._watches, waiting.connection, op, body)
        return Reply(cxid, zxid, error, response)

    def _tell_missed(self, client: Connection, missed: Iterable[tuple[EventType, str]], effects: list[Effect]) -> None:
        for event, path in missed:
            self.packets_sent += 1
            body = WatcherEvent(int(event), _SYNC_CONNECTED, path)
            effects.append(Answer(client.id, Reply(NOTIFICATION_XID, -1, 0, body)))

    def _answer(self, now: Instant, waiting: Waiting, client: Connection, reply: Reply, effects: list[Effect]) -> None:
        self._count_answer(now, waiting, client, reply.zxid)
        if waiting.under_way and self._config.full_journal and reply.err == 0 and waiting.op != OpCode.SYNC:
            fact = acknowledged_fact(waiting, client.session_id, reply.zxid, reply.body)
            if fact is not None:
                effects.append(Emit(fact))
        effects.append(Answer(client.id, reply))
        if waiting.closes:
            self._close(client, effects)
