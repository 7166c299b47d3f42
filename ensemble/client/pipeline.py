"""The calls of one session: those under way, answered in order, and those that wait for a connection (ClientCnxn)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain

from zabka.ensemble.client.call import Auth, Call
from zabka.ensemble.client.watches import Left
from zabka.ensemble.errors import ConnectionLoss
from zabka.ensemble.records import AUTH_XID, OpCode, Reply, Request

QUEUED_CALLS_MAX = 65_536
"""Calls that may wait for a reconnect; more fail at once with ConnectionLoss."""
XID_MAX = 0x7FFFFFFF


class Pipeline:
    """Requests leave by `send` in the order of the calls, and answers come in that order."""

    __slots__ = ("_pending", "_pending_auths", "_queued", "_send", "_xid")

    def __init__(self, send: Callable[[Request], None]) -> None:
        self._send = send
        self._pending: deque[Call] = deque()
        self._pending_auths: deque[Auth] = deque()
        self._queued: deque[Call] = deque()
        self._xid = 0

    def next_xid(self) -> int:
        """A number for the next request: from 1 on, and from 1 again after the greatest."""
        self._xid = self._xid % XID_MAX + 1
        return self._xid

    def send(self, call: Call) -> None:
        """Send a call; its answer is to come after those of all before it."""
        call.xid = self.next_xid()
        self._pending.append(call)
        self._send(Request(call.xid, call.op, call.body))

    def send_auth(self, auth: Auth) -> None:
        """Send credentials; answers to these come in order among themselves."""
        self._pending_auths.append(auth)
        self._send(Request(AUTH_XID, OpCode.AUTH, auth.packet))

    def queue(self, call: Call) -> None:
        """Keep a call for the next connection, unless there are too many."""
        if len(self._queued) >= QUEUED_CALLS_MAX:
            call.fail(ConnectionLoss(call.path))
        else:
            self._queued.append(call)

    def send_queued(self) -> None:
        """There is a connection: send what has waited for it."""
        queued, self._queued = self._queued, deque()
        for call in queued:
            self.send(call)

    def watches(self) -> Iterator[Left]:
        """What the calls without an answer yet are to leave."""
        return (call.watch for call in chain(self._pending, self._queued) if call.watch is not None)

    def match_reply(self, reply: Reply) -> Call | None:
        """The call that a reply answers; None where it is not the oldest one's."""
        if not self._pending or self._pending[0].xid != reply.xid:
            return None
        return self._pending.popleft()

    def take_auth(self) -> Auth | None:
        """The credentials that are answered now; None where none are under way."""
        return self._pending_auths.popleft() if self._pending_auths else None

    def lose(self) -> None:
        """The connection is gone, and nobody knows what became of what was under way."""
        pending, self._pending = self._pending, deque()
        auths, self._pending_auths = self._pending_auths, deque()
        for call in pending:
            call.fail(ConnectionLoss(call.path))
        for auth in auths:
            auth.resolve(ConnectionLoss())

    def drain_unanswered(self) -> list[Call]:
        """The session is over: the calls that nobody will answer."""
        calls = [*self._pending, *self._queued]
        self._pending.clear()
        self._queued.clear()
        self._pending_auths.clear()
        return calls
