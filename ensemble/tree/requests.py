"""Processes requests of attached clients (first part of PrepRequestProcessor and FollowerRequestProcessor).

A client's write is submitted as soon as it arrives, so that many can be in flight. Its reply, and every later request
of the session, waits in the session's queue (`zabka.ensemble.tree.answer_queues`) until the transaction has been
applied.
"""

from __future__ import annotations

from collections import deque
from struct import Struct

from zabka.ensemble.ports import Instant
from zabka.ensemble.records import REQUEST_HEADER_SIZE, WRITES, OpCode, PathRequest, Request
from zabka.ensemble.tree.answer_queues import CLIENT_OPS, AnswerQueues
from zabka.ensemble.tree.authentication import Authentication
from zabka.ensemble.tree.clients import Clients
from zabka.ensemble.tree.connections import Connection, Stage, Waiting
from zabka.ensemble.tree.counters import Counters
from zabka.ensemble.tree.local_requests import LocalRequests
from zabka.ensemble.tree.ready_answers import PLAIN_READS, answer_plain_reads, is_well_formed
from zabka.ensemble.tree.server_state import ServerState
from zabka.ensemble.zab.application import Submit, SubmitSync
from zabka.ensemble.zab.effects import Answer, Effect
from zabka.ensemble.zab.messages import ForwardedRequest, SyncRequest

OUTSTANDING_MAX = 20_000
"""Maximum number of requests of a connection that have no reply yet; a client that exceeds it is disconnected."""
PLAIN_WRITES = frozenset(map(int, (OpCode.SET_DATA, OpCode.CREATE, OpCode.CREATE2, OpCode.DELETE)))
"""Op codes of the writes that are forwarded to the leader as received."""
_REQUEST_HEADER = Struct(">ii")
_ATTACHED = Stage.ATTACHED
"""A module constant, because looking up an enumeration member takes longer than the rest of a comparison."""
_AUTH, _SASL = int(OpCode.AUTH), int(OpCode.SASL)
_PROVING = frozenset({_AUTH, _SASL})


class RequestIntake:
    """Adds each request to its session's queue, submits writes and syncs, and replies at once if possible."""

    __slots__ = (
        "_answers", "_authentication", "_clients", "_counters", "_held_back", "_local", "_sessions", "_state",
        "_unread_max",
    )  # fmt: skip

    def __init__(
        self, state: ServerState, clients: Clients, counters: Counters, *, local: LocalRequests, answers: AnswerQueues,
        authentication: Authentication,
    ) -> None:  # fmt: skip
        self._state = state
        self._unread_max = state.config.answers_bytes_max
        self._clients = clients
        self._held_back = clients.held_back
        self._sessions = clients.sessions
        self._counters = counters
        self._local = local
        self._answers = answers
        self._authentication = authentication

    def frames(self, now: Instant, client: Connection, frames: list[bytes], effects: list[Effect]) -> None:
        """Process undecoded requests that arrived together on one connection.

        The most frequent reads and writes are processed without decoding them. All other requests are decoded and
        passed to `request`.
        """
        if not self._clients.accepts_message(now, client, effects):
            return
        if client.deferred:
            self._defer(client, frames, effects)
            return
        session_id, held_back = client.session_id, self._held_back
        queue = self._sessions[session_id].queue
        at_once = not client.barred
        position, count = 0, len(frames)
        while position < count and client.stage is _ATTACHED:
            if held_back and session_id in held_back:
                self._defer(client, frames[position:], effects)
                return
            op = _REQUEST_HEADER.unpack_from(frames[position])[1]
            if at_once and not queue and op in PLAIN_READS and client.unread_bytes < self._unread_max:
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
                self.request(now, client, Request.decode(frame), effects)
            elif client.outstanding >= OUTSTANDING_MAX:
                self._clients.close(client, effects)
            else:
                client.outstanding += 1
                queue.append(Waiting(client, xid, op, None, now.mono_ms, frame))

    def _defer(self, client: Connection, frames: list[bytes], effects: list[Effect]) -> None:
        """Hold later requests back until the client has read its earlier replies.

        Otherwise a write would be executed before an earlier read.
        """
        if client.outstanding + len(frames) > OUTSTANDING_MAX:
            self._clients.close(client, effects)
        else:
            client.deferred += frames
            client.outstanding += len(frames)

    def resume(self, now: Instant, client: Connection, effects: list[Effect]) -> None:
        """Process the requests that were held back until the client had read its replies."""
        frames, client.deferred = client.deferred, []
        client.outstanding -= len(frames)
        if frames and client.stage is _ATTACHED:
            self.frames(now, client, frames, effects)

    def _submit_plain_writes(
        self, now: Instant, client: Connection, frames: list[bytes], start: int, queue: deque[Waiting],
        effects: list[Effect],
    ) -> int:  # fmt: skip
        """Submit plain writes as received; return the index of the first request that is not plain or exceeds the
        limit.

        On a leader the writes are not checked here, because the leader's own conversion to transactions checks them.
        """
        leads, since_ms = self._state.proposer is not None, now.mono_ms
        session_id, auth, header_at = client.session_id, client.auth, _REQUEST_HEADER.unpack_from
        stop = min(len(frames), start + OUTSTANDING_MAX - client.outstanding)
        position = start
        while position < stop:
            frame = frames[position]
            xid, op = header_at(frame)
            if op not in PLAIN_WRITES or not (leads or is_well_formed(op, frame)):
                break
            queue.append(Waiting(client, xid, op, None, since_ms, frame, under_way=True))
            effects.append(Submit(ForwardedRequest(session_id, xid, op, frame[REQUEST_HEADER_SIZE:], auth)))
            position += 1
        client.outstanding += position - start
        return position

    def _answer_at_once(
        self, now: Instant, client: Connection, frames: list[bytes], start: int, effects: list[Effect]
    ) -> int:
        """Reply to plain reads at once, if the session's queue is empty.

        Return the index of the first request that has no reply yet.
        """
        out = bytearray()
        stop = answer_plain_reads(self._state.tree, frames, start, out, self._unread_max - client.unread_bytes)
        if stop > start:
            client.unread_bytes += len(out)
            xid, op = _REQUEST_HEADER.unpack_from(frames[stop - 1])
            self._counters.count_answers_at_once(now, stop - start, client, xid, self._state.tree.last_zxid, op)
            effects.append(Answer(client.id, bytes(out)))
        return stop

    def request(self, now: Instant, client: Connection, request: Request, effects: list[Effect]) -> None:
        """Process one decoded request."""
        if not self._clients.accepts_message(now, client, effects):
            return
        session_id = client.session_id
        if client.deferred or (self._held_back and session_id in self._held_back):
            self._defer(client, [request.encode()], effects)
            return
        op, body = request.op, request.body
        if op in _PROVING or client.barred:
            self._authenticate(client, request, effects)
            return
        if client.outstanding >= OUTSTANDING_MAX:
            self._clients.close(client, effects)
            return
        session = self._sessions[session_id]
        waiting = Waiting(client, request.xid, op, body, now.mono_ms)
        waiting.problem = request.problem
        session.queue.append(waiting)
        client.outstanding += 1
        if client.alone and self._local.stays_here(now, waiting, request, effects):
            if len(session.queue) == 1:
                self._answers.answer_ready(now, session, effects)
        elif body is not None and op in WRITES and op in CLIENT_OPS:
            waiting.under_way = True
            effects.append(Submit(ForwardedRequest(session_id, request.xid, op, request.encoded_body(), client.auth)))
        elif op == OpCode.SYNC and isinstance(body, PathRequest):
            waiting.under_way = True
            self._clients.syncing.setdefault(session_id, deque()).append(waiting)
            effects.append(SubmitSync(SyncRequest(session_id, request.xid, body.path)))
        elif len(session.queue) == 1:
            self._answers.answer_ready(now, session, effects)

    def _authenticate(self, client: Connection, request: Request, effects: list[Effect]) -> None:
        """Process an auth or SASL request, or reject another request if the client must authenticate first."""
        if request.op == _AUTH:
            verdict = self._authentication.on_auth(client, request)
        elif request.op == _SASL:
            verdict = self._authentication.on_sasl(client, request)
        else:
            verdict = self._authentication.bar(request.xid)
        if verdict.reply is not None:
            self._counters.packets_sent += 1
            effects.append(Answer(client.id, verdict.reply))
        if verdict.closes:
            self._clients.close(client, effects)
