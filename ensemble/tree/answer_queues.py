"""Replies to the requests of each session, in the order of arrival (CommitProcessor, FinalRequestProcessor).

A write stays in its session's queue until this server has applied its transaction, and all later requests wait for it.
`zabka.ensemble.tree.requests` adds requests to the queues; `zabka.ensemble.tree.commits` reports the results of applied
transactions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice, takewhile

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import (
    NOTIFICATION_XID,
    PING_XID,
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
from zabka.ensemble.tree.answers import answer_write, moved
from zabka.ensemble.tree.backlog import SETTLED_BYTES_MAX, bytes_of
from zabka.ensemble.tree.clients import Clients
from zabka.ensemble.tree.connections import Connection, OpenSession, Stage, Waiting
from zabka.ensemble.tree.counters import Counters
from zabka.ensemble.tree.facts import acknowledged_fact, acknowledged_plain_fact
from zabka.ensemble.tree.inquiries import INQUIRIES, answer_inquiry
from zabka.ensemble.tree.local_requests import LocalRequests
from zabka.ensemble.tree.outcomes import Applied
from zabka.ensemble.tree.reads import answer_read
from zabka.ensemble.tree.ready_answers import answer_plain_reads, answer_plain_write, plain_write_answer, zxid_of
from zabka.ensemble.tree.server_state import ServerState
from zabka.ensemble.tree.watch_requests import rearm
from zabka.ensemble.txn import SetDataTxn, Txn
from zabka.ensemble.zab.effects import Answer, Effect, Emit
from zabka.ensemble.zab.messages import SyncRequest

_NOT_FOR_CLIENTS = {OpCode.NOTIFICATION, OpCode.ERROR, OpCode.CREATE_SESSION, OpCode.CHECK}
CLIENT_OPS = frozenset(int(op) for op in OpCode if op not in _NOT_FOR_CLIENTS)
"""Op codes that clients can send.

The reply to any other op is UNIMPLEMENTED, and the connection is closed (Request.isValid).
"""
PLAIN_READS_MAX = 64
"""Maximum number of reads whose replies are sent together with the reply to the preceding write."""
_SYNC_CONNECTED = int(KeeperState.SYNC_CONNECTED)
_CLOSED = Stage.CLOSED
"""A module constant, because looking up an enumeration member takes longer than the rest of a comparison."""
_SYNC = int(OpCode.SYNC)


class AnswerRun:
    """Replies to consecutively applied writes of one connection, collected so that they are sent together.

    `rewatch` is True if another reply may have set a watch since the run began.
    """

    __slots__ = ("answered", "answers", "rewatch", "zxid")

    def __init__(self) -> None:
        self.rewatch = True
        self.answered: list[Waiting] = []
        self.answers: list[bytes] = []
        self.zxid = 0


class AnswerQueues:
    """Sends the replies to queued requests, for the sessions that are open on this server."""

    __slots__ = (
        "_clients", "_counters", "_full_journal", "_held_back", "_local", "_sessions", "_state", "_unread_max",
        "_watches",
    )  # fmt: skip

    def __init__(self, state: ServerState, clients: Clients, counters: Counters, local: LocalRequests) -> None:
        self._state = state
        self._watches = state.watches
        self._full_journal = state.config.full_journal
        self._unread_max = state.config.answers_bytes_max
        self._clients = clients
        self._held_back = clients.held_back
        self._sessions = clients.sessions
        self._counters = counters
        self._local = local

    def commit(self, now: Instant, session: OpenSession, txn: Txn, applied: Applied, effects: list[Effect]) -> None:
        """Handle an applied transaction of a session that is connected here: set the reply of the request that caused
        it.
        """
        for waiting in session.queue:
            if waiting.under_way and not waiting.done and waiting.op != _SYNC:
                break
        else:
            return
        elsewhere = txn.zxid <= waiting.connection.attached_after
        if elsewhere or waiting.cxid != txn.cxid or (txn.type != waiting.op and txn.type != OpCode.ERROR):
            return  # this is of a request sent to another server; cxids can repeat (kazoo's do)
        if applied.error and moved(txn):
            session.queue.remove(waiting)
            waiting.connection.outstanding -= 1
            self._clients.close(waiting.connection, effects)
        else:
            waiting.done = True
            ready = answer_plain_write(waiting.cxid, txn, applied) if waiting.frame is not None else None
            waiting.reply = ready or answer_write(waiting, txn, applied)
        self.answer_ready(now, session, effects)

    def joins_run(
        self, now: Instant, session: OpenSession, txn: Txn, value: bytes, run: AnswerRun, effects: list[Effect]
    ) -> bool:
        """Add the reply to a plain write to the replies in `run`, if the write is next in its session's queue.

        Return False if the write is not next in the queue, or if its reply cannot be sent with the others.
        """
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
            or txn.zxid <= client.attached_after
            or client.stage is _CLOSED
        ):
            return False
        queue.popleft()
        body = txn.body
        child_count = self._state.tree.nodes.child_count(body.path) if isinstance(body, SetDataTxn) else 0
        answer = plain_write_answer(waiting.cxid, txn, value, child_count)
        if self._full_journal:
            waiting.reply = answer
            effects.append(Emit(acknowledged_plain_fact(waiting, client.session_id, txn.zxid)))
        if run.answered and run.answered[0].connection is not client:
            self.answer_run(now, run, effects)
        run.answered.append(waiting)
        run.answers.append(answer)
        run.zxid = txn.zxid
        if queue and not queue[0].under_way:
            self.answer_run(now, run, effects)
            self.answer_ready(now, session, effects)
            run.rewatch = True
        return True

    def answer_run(self, now: Instant, run: AnswerRun, effects: list[Effect]) -> None:
        """Send the replies that an `AnswerRun` has collected for one connection."""
        answered = run.answered
        if answered:
            client, answers = answered[0].connection, run.answers
            client.outstanding -= len(answered)
            if len(answered) == 1:
                self._counters.count_write(now.mono_ms, client, answered[0], run.zxid)
                effects.append(Answer(client.id, answers[0]))
            else:
                self._counters.count_writes(now, client, answered, run.zxid)
                effects.append(Answer(client.id, b"".join(answers)))
            answered.clear()
            answers.clear()

    def sync_done(self, now: Instant, request: SyncRequest) -> list[Effect]:
        """Handle a completed sync: reply to the session's oldest sync request in progress.

        This server has applied all transactions that the sync had to wait for.
        """
        effects: list[Effect] = []
        syncing = self._clients.syncing
        under_way = syncing.get(request.session_id)
        if under_way is not None:
            under_way.popleft().done = True
            if not under_way:
                del syncing[request.session_id]
        session = self._sessions.get(request.session_id)
        if session is not None:
            self.answer_ready(now, session, effects)
        return effects

    def session_closed(self, now: Instant, session: OpenSession, txn: Txn, effects: list[Effect]) -> None:
        """Handle an applied closeSession: reply to the client's closeSession after its earlier requests.

        If the earlier replies are too large, this reply is not sent. All other waiting requests are dropped.
        """
        connection = session.connection
        own = next((w for w in session.queue if w.op == OpCode.CLOSE_SESSION and w.cxid == txn.cxid), None)
        if own is not None and connection is own.connection and connection is not None:
            own.done = own.closes = True
            own.reply = Reply(own.cxid, txn.zxid, 0)
            self._answer_up_to(SETTLED_BYTES_MAX, now, session, effects)
        for waiting in session.queue:
            waiting.connection.outstanding = 0
        session.queue.clear()
        self._clients.syncing.pop(session.id, None)
        if connection is not None:
            self._clients.close(connection, effects)
        self._sessions.pop(session.id, None)

    def taken(self, now: Instant, client: Connection, effects: list[Effect]) -> None:
        """Resume the client's held-back replies, because it has read all earlier ones."""
        client.unread_bytes = 0
        self._held_back.pop(client.session_id, None)
        session = self._sessions.get(client.session_id)
        if session is not None and session.connection is client:
            self.answer_ready(now, session, effects)

    def settle(self, now: Instant, txn: Txn, effects: list[Effect]) -> None:
        """Before a write is applied, send the replies to the reads that its session sent before it.

        If the replies are too large, because the client has not read its earlier replies, close the connection.
        """
        session_id = txn.session_id
        self._held_back.pop(session_id, None)
        session = self._sessions.get(session_id)
        if session is not None:
            self._sync_before(session, txn)
            self._answer_up_to(SETTLED_BYTES_MAX, now, session, effects)
            if self._held_back.pop(session_id, session) is None and session.connection is not None:
                self._clients.close(session.connection, effects)

    def _sync_before(self, session: OpenSession, txn: Txn) -> None:
        """Complete the syncs that the session sent before a committed write.

        Everything proposed before these syncs is committed, and the commit proves that a quorum still followed the
        leader after them.
        """
        queue = session.queue
        own = next((w for w in queue if w.under_way and not w.done and w.op != _SYNC), None)
        if own is None or own.cxid != txn.cxid or txn.zxid <= own.connection.attached_after or moved(txn):
            return
        for waiting in takewhile(lambda each: each is not own, queue):
            if waiting.op == _SYNC and waiting.under_way:
                waiting.done = True

    def answer_ready(self, now: Instant, session: OpenSession, effects: list[Effect]) -> None:
        """Send the replies at the head of the session's queue, up to the first request that is still in progress.

        A reply to a read waits in the queue while the client has too many unread reply bytes. A reply to a write is
        never held back, because it must precede the event of any later change.
        """
        self._answer_up_to(self._unread_max, now, session, effects)

    def _answer_up_to(self, unread_max: int, now: Instant, session: OpenSession, effects: list[Effect]) -> None:
        queue = session.queue
        while queue:
            waiting = queue[0]
            if waiting.under_way and not waiting.done:
                return
            client = waiting.connection
            if client.unread_bytes >= unread_max and waiting.reply is None and client.stage is not _CLOSED:
                self._held_back[session.id] = None
                return
            if waiting.frame is not None and self._answer_plain(unread_max, now, queue, effects):
                continue
            queue.popleft()
            client.outstanding -= 1
            if client.stage is not _CLOSED:
                reply = waiting.reply or self._work_out(waiting, effects)
                assert isinstance(reply, Reply), "replies in bytes are answered together"
                self._answer(now, waiting, client, reply, effects)
        if session.connection is None:
            self._sessions.pop(session.id, None)

    def _answer_plain(self, unread_max: int, now: Instant, queue: deque[Waiting], effects: list[Effect]) -> int:
        """Send the reply to a completed plain write at the queue's head with the replies to the reads after it.

        Only plain reads are included. Return the number of replies. Requests that cannot be answered this way stay in
        the queue.
        """
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
            if self._full_journal:
                effects.append(Emit(acknowledged_plain_fact(first, client.session_id, zxid)))
        if queue and queue[0].frame is not None and not queue[0].under_way:
            reads = self._answer_plain_reads(unread_max - client.unread_bytes, client, queue, answered)
            if reads:
                out, zxid = out + reads, self._state.tree.last_zxid
        if answered:
            self._counters.count_answers(now, client, answered, zxid)
            client.unread_bytes += len(out)
            client.outstanding -= len(answered)
            effects.append(Answer(client.id, out))
        return len(answered)

    def _answer_plain_reads(
        self, bytes_max: int, client: Connection, queue: deque[Waiting], answered: list[Waiting]
    ) -> ReplyFrames:
        """Remove the client's plain reads from the queue's head, and return their replies.

        Stop at the first request that is not a plain read of this client. At most PLAIN_READS_MAX requests are examined
        in one call.
        """
        frames: list[bytes] = []
        for waiting in islice(queue, PLAIN_READS_MAX):
            if waiting.frame is None or waiting.under_way or waiting.connection is not client:
                break
            frames.append(waiting.frame)
        out = bytearray()
        for _ in range(answer_plain_reads(self._state.tree, frames, 0, out, bytes_max)):
            answered.append(queue.popleft())
        return bytes(out)

    def _work_out(self, waiting: Waiting, effects: list[Effect]) -> Reply:
        """Return the reply to a request that has no transaction: a read, a ping, setWatches, or an invalid request."""
        if waiting.frame is not None:
            request = Request.decode(waiting.frame)
            waiting.body, waiting.problem = request.body, request.problem
        op, body, cxid = waiting.op, waiting.body, waiting.cxid
        zxid = self._state.tree.last_zxid
        if op == OpCode.PING:
            return Reply(PING_XID, zxid, 0)
        if op not in CLIENT_OPS:
            waiting.closes = True
            return Reply(cxid, -1, int(ErrorCode.UNIMPLEMENTED))
        if body is None:
            return Reply(cxid, zxid, int(waiting.problem))
        if op == OpCode.CLOSE_SESSION:
            return self._local.close(waiting)
        client = waiting.connection
        if isinstance(body, PathRequest) and op == OpCode.SYNC:
            return Reply(cxid, zxid, 0, SyncResponse(body.path))
        if isinstance(body, SetWatches | SetWatches2):
            self._send_missed(client, rearm(self._state.tree, self._watches, client.id, body), effects)
            return Reply(cxid, zxid, 0)
        answer = answer_inquiry if op in INQUIRIES else answer_read
        error, response = answer(self._state.tree, self._watches, client, op, body)
        return Reply(cxid, zxid, error, response)

    def _send_missed(self, client: Connection, missed: Iterable[tuple[EventType, str]], effects: list[Effect]) -> None:
        for event, path in missed:
            self._counters.packets_sent += 1
            body = WatcherEvent(int(event), _SYNC_CONNECTED, path)
            effects.append(Answer(client.id, Reply(NOTIFICATION_XID, -1, 0, body)))

    def _answer(self, now: Instant, waiting: Waiting, client: Connection, reply: Reply, effects: list[Effect]) -> None:
        self._counters.count_answers(now, client, (waiting,), reply.zxid)
        client.unread_bytes += bytes_of(reply.body)
        if waiting.under_way and self._full_journal and reply.err == 0 and waiting.op != OpCode.SYNC:
            fact = acknowledged_fact(waiting, client.session_id, reply.zxid, reply.body)
            if fact is not None:
                effects.append(Emit(fact))
        effects.append(Answer(client.id, reply))
        if waiting.closes:
            self._clients.close(client, effects)
