"""Each session's requests, answered in the order in which they came (CommitProcessor, FinalRequestProcessor).

A client's write is submitted as soon as it arrives, so that many are under way; its answer, and every request of the
session behind it, waits in the session's queue until the transaction has been applied here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from struct import Struct

from ensemble.errors import ErrorCode
from ensemble.ids import SessionId
from ensemble.ports import Instant
from ensemble.records import (
    NOTIFICATION_XID,
    PING_XID,
    REQUEST_HEADER_SIZE,
    WRITES,
    EventType,
    KeeperState,
    OpCode,
    PathRequest,
    Reply,
    ReplyFrames,
    Request,
    SetWatches,
    SetWatches2,
    SyncResponse,
    WatcherEvent,
)
from ensemble.tree.answers import answer_write, moved
from ensemble.tree.authentication import Authentication
from ensemble.tree.connections import Connection, OpenSession, Stage, Waiting
from ensemble.tree.datatree import Applied
from ensemble.tree.facts import acknowledged_fact, acknowledged_plain_fact
from ensemble.tree.inquiries import INQUIRIES, answer_inquiry
from ensemble.tree.local_requests import LocalRequests
from ensemble.tree.proposer import Proposer
from ensemble.tree.reads import answer_read
from ensemble.tree.ready_answers import (
    PLAIN_READS,
    answer_plain_reads,
    answer_plain_write,
    is_well_formed,
    plain_write_answer,
    zxid_of,
)
from ensemble.tree.sessions import LOCAL
from ensemble.tree.watch_requests import rearm
from ensemble.tree.znode import Znode
from ensemble.txn import Txn
from ensemble.zab.application import EnsembleConfig, Submit, SubmitSync
from ensemble.zab.effects import Answer, CloseConnection, Effect, Emit
from ensemble.zab.messages import ForwardedRequest, SyncRequest

OUTSTANDING_MAX = 20_000
"""Requests of one connection that wait for an answer; a client that goes beyond it is disconnected."""
_NOT_FOR_CLIENTS = {OpCode.NOTIFICATION, OpCode.ERROR, OpCode.CREATE_SESSION, OpCode.CHECK}
_CLIENT_OPS = frozenset(int(op) for op in OpCode if op not in _NOT_FOR_CLIENTS)
"""Any other op is answered with UNIMPLEMENTED and the end of the connection (Request.isValid)."""
PLAIN_WRITES = frozenset(map(int, (OpCode.SET_DATA, OpCode.CREATE, OpCode.CREATE2, OpCode.DELETE)))
"""Writes that go to the leader as they came."""
PLAIN_READS_MAX = 64
"""Reads behind a write that are answered in one go."""
_REQUEST_HEADER = Struct(">ii")
_SYNC_CONNECTED = int(KeeperState.SYNC_CONNECTED)
_ATTACHED, _CLOSED = Stage.ATTACHED, Stage.CLOSED
"""By themselves: to look up a member of an enumeration costs more than the rest of a comparison."""
_AUTH, _SASL, _SYNC = int(OpCode.AUTH), int(OpCode.SASL), int(OpCode.SYNC)
_PROVING = frozenset({_AUTH, _SASL})


class AnswerRun:
    """Writes of one connection, applied one right after the other, whose answers leave together.

    `rewatch` tells that something was answered since that may have left a watch.
    """

    __slots__ = ("answered", "answers", "rewatch", "zxid")

    def __init__(self) -> None:
        self.rewatch = True
        self.answered: list[Waiting] = []
        self.answers: list[bytes] = []
        self.zxid = 0


class RequestQueues(LocalRequests):
    """The part of a `Service` that takes requests of attached clients and answers them."""

    _config: EnsembleConfig
    _proposer: Proposer | None
    _authentication: Authentication
    _attaching: dict[SessionId, Connection]
    _touched: dict[SessionId, int]

    def _close(self, connection: Connection, effects: list[Effect]) -> None:
        if connection.stage is not Stage.CLOSED:
            effects.append(CloseConnection(connection.id))
            self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        connection.stage = Stage.CLOSED
        connection.held.clear()
        self.stale_replies += connection.outstanding
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
        if client.alone:
            return self._touch_alone(now, client)
        if self._proposer is not None:
            return self._proposer.tracker.touch(now, client.session_id, client.timeout_ms)
        self._touched[client.session_id] = client.timeout_ms
        return True

    def _heard(self, now: Instant, client: Connection, effects: list[Effect]) -> bool:
        """A client says something.  False where it is not listened to any more."""
        if not self._touch(now, client):
            return False  # its closing is under way, and will close the connection
        if client.alone or self._proposer is None:
            return True
        if not self._proposer.tracker.owned_by(client.session_id, LOCAL):
            self._close(client, effects)  # SessionMoved is never sent
            return False
        return True

    def _frames(self, now: Instant, client: Connection, frames: list[bytes], effects: list[Effect]) -> None:
        """Requests that came together as bytes: the plain ones are not even taken apart, the others as any request."""
        if not self._heard(now, client, effects):
            return
        queue = self._sessions[client.session_id].queue
        at_once = not client.barred
        position, count = 0, len(frames)
        while position < count and client.stage is _ATTACHED:
            if at_once and not queue and _REQUEST_HEADER.unpack_from(frames[position])[1] in PLAIN_READS:
                position = self._answer_at_once(now, client, frames, position, effects)
                if position == count:
                    return
            if at_once and not client.alone:
                position = self._submit_plain_writes(now, client, frames, position, queue, effects)
                if position == count:
                    return
            frame = frames[position]
            position += 1
            xid, op = _REQUEST_HEADER.unpack_from(frame)
            if not (at_once and op in PLAIN_READS and queue):
                self._request(now, client, Request.decode(frame), effects)
            elif client.outstanding >= OUTSTANDING_MAX:
                self._close(client, effects)
            else:
                client.outstanding += 1
                queue.append(Waiting(client, xid, op, None, now.mono_ms, frame))

    def _submit_plain_writes(
        self, now: Instant, client: Connection, frames: list[bytes], start: int, queue: deque[Waiting],
        effects: list[Effect],
    ) -> int:  # fmt: skip
        """Send writes to the leader as they came; the index of the first request that is none, or is one too many.  Our
        own leader finds out for itself what is malformed."""
        leads, since_ms = self._proposer is not None, now.mono_ms
        session_id, auth, header_at = client.session_id, client.auth, _REQUEST_HEADER.unpack_from
        stop = min(len(frames), start + OUTSTANDING_MAX - client.outstanding)
        position = start
        while position < stop:
            frame = frames[position]
            xid, op = header_at(frame)
            if op not in PLAIN_WRITES or not (leads or is_well_formed(op, frame)):
                break
            queue.append(Waiting(client, xid, op, None, since_ms, frame, True))
            effects.append(Submit(ForwardedRequest(session_id, xid, op, frame[REQUEST_HEADER_SIZE:], auth)))
            position += 1
        client.outstanding += position - start
        return position

    def _answer_at_once(
        self, now: Instant, client: Connection, frames: list[bytes], start: int, effects: list[Effect]
    ) -> int:
        """With nothing in front of them plain reads are answered as they come; the index of the first that is not."""
        out = bytearray()
        stop = answer_plain_reads(self._tree, frames, start, out)
        if stop > start:
            xid, op = _REQUEST_HEADER.unpack_from(frames[stop - 1])
            self._count_answers_at_once(now, stop - start, client, xid, self._tree.last_zxid, op)
            effects.append(Answer(client.id, bytes(out)))
        return stop

    def _request(self, now: Instant, client: Connection, request: Request, effects: list[Effect]) -> None:
        if not self._heard(now, client, effects):
            return
        session_id = client.session_id
        op, body = request.op, request.body
        if op in _PROVING or client.barred:
            self._authenticate(client, request, effects)
            return
        if client.outstanding >= OUTSTANDING_MAX:
            self._close(client, effects)
            return
        session = self._sessions[session_id]
        waiting = Waiting(client, request.xid, op, body, now.mono_ms)
        waiting.problem = request.problem
        session.queue.append(waiting)
        client.outstanding += 1
        if client.alone and self._stays_here(waiting, request, effects):
            if len(session.queue) == 1:
                self._answer_ready(now, session, effects)
        elif body is not None and op in WRITES and op in _CLIENT_OPS:
            waiting.under_way = True
            effects.append(Submit(ForwardedRequest(session_id, request.xid, op, request.encoded_body(), client.auth)))
        elif op == OpCode.SYNC and isinstance(body, PathRequest):
            waiting.under_way = True
            effects.append(SubmitSync(SyncRequest(session_id, request.xid, body.path)))
        elif len(session.queue) == 1:
            self._answer_ready(now, session, effects)

    def _authenticate(self, client: Connection, request: Request, effects: list[Effect]) -> None:
        """Somebody proves who it is, or asks for something without having done so where that is demanded."""
        if request.op == _AUTH:
            verdict = self._authentication.on_auth(client, request)
        elif request.op == _SASL:
            verdict = self._authentication.on_sasl(client, request)
        else:
            verdict = self._authentication.bar(request.xid)
        if verdict.reply is not None:
            self.packets_sent += 1
            effects.append(Answer(client.id, verdict.reply))
        if verdict.closes:
            self._close(client, effects)

    def _commit(self, now: Instant, session: OpenSession, txn: Txn, applied: Applied, effects: list[Effect]) -> None:
        """A transaction of a session that is connected here was applied: is it one that we wait for?"""
        for waiting in session.queue:
            if waiting.under_way and not waiting.done and waiting.op != _SYNC:
                break
        else:
            return
        if waiting.cxid != txn.cxid or (txn.type != waiting.op and txn.type != OpCode.ERROR):
            return  # the session was elsewhere when it asked for this
        if applied.error and moved(txn, applied):
            session.queue.remove(waiting)
            waiting.connection.outstanding -= 1
            self._close(waiting.connection, effects)
        else:
            waiting.done = True
            ready = answer_plain_write(waiting.cxid, txn, applied) if waiting.frame is not None else None
            waiting.reply = ready or answer_write(waiting, txn, applied)
        self._answer_ready(now, session, effects)

    def _joins_run(
        self, now: Instant, session: OpenSession, txn: Txn, node: Znode, run: AnswerRun, effects: list[Effect]
    ) -> bool:
        """Answer a plain write together with those before it, where it is next in its session's turn; False where it is
        not, or not plain after all."""
        queue = session.queue
        if not queue:
            return True
        waiting = queue[0]
        client = waiting.connection
        if (
            waiting.frame is None
            or waiting.cxid != txn.cxid
            or waiting.op != txn.type
            or not waiting.under_way
            or client.stage is _CLOSED
        ):
            return False
        queue.popleft()
        answer = plain_write_answer(waiting.cxid, txn, node)
        if self._config.full_journal:
            waiting.reply = answer
            effects.append(Emit(acknowledged_plain_fact(waiting, client.session_id, txn.zxid)))
        if run.answered and run.answered[0].connection is not client:
            self._answer_run(now, run, effects)
        run.answered.append(waiting)
        run.answers.append(answer)
        run.zxid = txn.zxid
        if queue and not queue[0].under_way:
            self._answer_run(now, run, effects)
            self._answer_ready(now, session, effects)
            run.rewatch = True
        return True

    def _answer_run(self, now: Instant, run: AnswerRun, effects: list[Effect]) -> None:
        """Send the answers that have gathered."""
        answered = run.answered
        if answered:
            client, answers = answered[0].connection, run.answers
            client.outstanding -= len(answered)
            if len(answered) == 1:
                self._count_write(now.mono_ms, client, answered[0], run.zxid)
                effects.append(Answer(client.id, answers[0]))
            else:
                self._count_writes(now, client, answered, run.zxid)
                effects.append(Answer(client.id, b"".join(answers)))
            answered.clear()
            answers.clear()

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

    def _session_closed(self, now: Instant, session: OpenSession, txn: Txn, effects: list[Effect]) -> None:
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

    def _answer_ready(self, now: Instant, session: OpenSession, effects: list[Effect]) -> None:
        """Answer from the head of the session's queue up to the first request that is still under way."""
        queue = session.queue
        while queue:
            waiting = queue[0]
            if waiting.under_way and not waiting.done:
                return
            if waiting.frame is not None and self._answer_plain(now, queue, effects):
                continue
            queue.popleft()
            client = waiting.connection
            client.outstanding -= 1
            if client.stage is not _CLOSED:
                reply = waiting.reply or self._work_out(waiting, effects)
                assert isinstance(reply, Reply), "replies in bytes are answered together"
                self._answer(now, waiting, client, reply, effects)
        if session.connection is None:
            self._sessions.pop(session.id, None)

    def _answer_plain(self, now: Instant, queue: deque[Waiting], effects: list[Effect]) -> int:
        """Answer in one go the plain write at the queue's head, if it is done, and the plain reads behind it; how many
        they were.  What is not plain after all stays."""
        first = queue[0]
        client = first.connection
        if client.stage is _CLOSED:
            return 0
        answered: list[Waiting] = []
        out, zxid = b"", 0
        if first.under_way:
            if not isinstance(first.reply, ReplyFrames):
                return 0
            out, zxid = first.reply, zxid_of(first.reply)
            answered.append(queue.popleft())
            if self._config.full_journal:
                effects.append(Emit(acknowledged_plain_fact(first, client.session_id, zxid)))
        if queue and queue[0].frame is not None and not queue[0].under_way:
            reads = self._answer_plain_reads(client, queue, answered)
            if reads:
                out, zxid = out + reads, self._tree.last_zxid
        if answered:
            self._count_answers(now, client, answered, zxid)
            client.outstanding -= len(answered)
            effects.append(Answer(client.id, out))
        return len(answered)

    def _answer_plain_reads(self, client: Connection, queue: deque[Waiting], answered: list[Waiting]) -> ReplyFrames:
        """Take the client's plain reads from the queue's head; a few at a time, since they may turn out not to be."""
        frames: list[bytes] = []
        for waiting in islice(queue, PLAIN_READS_MAX):
            if waiting.frame is None or waiting.under_way or waiting.connection is not client:
                break
            frames.append(waiting.frame)
        out = bytearray()
        for _ in range(answer_plain_reads(self._tree, frames, 0, out)):
            answered.append(queue.popleft())
        return bytes(out)

    def _work_out(self, waiting: Waiting, effects: list[Effect]) -> Reply:
        """A request that needs no transaction: a read, a ping, setWatches, or one that makes no sense."""
        if waiting.frame is not None:
            request = Request.decode(waiting.frame)
            waiting.body, waiting.problem = request.body, request.problem
        op, body, cxid = waiting.op, waiting.body, waiting.cxid
        zxid = self._tree.last_zxid
        if op == OpCode.PING:
            return Reply(PING_XID, zxid, 0)
        if op not in _CLIENT_OPS:
            waiting.closes = True
            return Reply(cxid, -1, int(ErrorCode.UNIMPLEMENTED))
        if body is None:
            return Reply(cxid, zxid, int(waiting.problem))
        if op == OpCode.CLOSE_SESSION:
            return self._close_local(waiting)
        client = waiting.connection
        if isinstance(body, SetWatches | SetWatches2):
            self._tell_missed(client, rearm(self._tree, self._watches, client.id, body), effects)
            return Reply(cxid, zxid, 0)
        answer = answer_inquiry if op in INQUIRIES else answer_read
        error, response = answer(self._tree, self._watches, client, op, body)
        return Reply(cxid, zxid, error, response)

    def _tell_missed(self, client: Connection, missed: Iterable[tuple[EventType, str]], effects: list[Effect]) -> None:
        for event, path in missed:
            self.packets_sent += 1
            body = WatcherEvent(int(event), _SYNC_CONNECTED, path)
            effects.append(Answer(client.id, Reply(NOTIFICATION_XID, -1, 0, body)))

    def _answer(self, now: Instant, waiting: Waiting, client: Connection, reply: Reply, effects: list[Effect]) -> None:
        self._count_answers(now, client, (waiting,), reply.zxid)
        if waiting.under_way and self._config.full_journal and reply.err == 0 and waiting.op != OpCode.SYNC:
            fact = acknowledged_fact(waiting, client.session_id, reply.zxid, reply.body)
            if fact is not None:
                effects.append(Emit(fact))
        effects.append(Answer(client.id, reply))
        if waiting.closes:
            self._close(client, effects)
