"""Requests of one session: requests in flight, and requests that wait for a connection.

Replies arrive in the order of the requests. Source: ClientCnxn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain

from zabka.ensemble.client.call import Auth, Call
from zabka.ensemble.client.watches import Left
from zabka.ensemble.errors import ConnectionLoss
from zabka.ensemble.records import AUTH_XID, OpCode, Reply, Request

QUEUED_CALLS_MAX = 65_536
"""Maximum number of calls that wait for a reconnect. Further calls fail at once with ConnectionLoss."""
XID_MAX = 0x7FFFFFFF


class Pipeline:
    """Sends requests with `send` in the order of the calls, and matches replies in that order."""

    __slots__ = ("_pending", "_pending_auths", "_queued", "_send", "_xid")

    def __init__(self, send: Callable[[Request], None]) -> None:
        self._send = send
        self._pending: deque[Call] = deque()
        self._pending_auths: deque[Auth] = deque()
        self._queued: deque[Call] = deque()
        self._xid = 0

    def next_xid(self) -> int:
        """Return the xid of the next request: counts from 1, and restarts at 1 after the maximum."""
        self._xid = self._xid % XID_MAX + 1
        return self._xid

    def send(self, call: Call) -> None:
        """Send a call; its reply is expected after the replies of all earlier calls."""
        call.xid = self.next_xid()
        self._pending.append(call)
        self._send(Request(call.xid, call.op, call.body))

    def send_auth(self, auth: Auth) -> None:
        """Send credentials. Replies to several credentials arrive in the order of sending."""
        self._pending_auths.append(auth)
        self._send(Request(AUTH_XID, OpCode.AUTH, auth.packet))

    def queue(self, call: Call) -> None:
        """Queue a call for the next connection; fail it with ConnectionLoss if too many are queued."""
        if len(self._queued) >= QUEUED_CALLS_MAX:
            call.fail(ConnectionLoss(call.path))
        else:
            self._queued.append(call)

    def send_queued(self) -> None:
        """Send the queued calls on the new connection."""
        queued, self._queued = self._queued, deque()
        for call in queued:
            self.send(call)

    def watches(self) -> Iterator[Left]:
        """Return the watches that the sent and queued calls will set when their replies arrive."""
        return (call.watch for call in chain(self._pending, self._queued) if call.watch is not None)

    def match_reply(self, reply: Reply) -> Call | None:
        """Remove and return the oldest call in flight, or return None if its xid differs from the reply's."""
        if not self._pending or self._pending[0].xid != reply.xid:
            return None
        return self._pending.popleft()

    def take_auth(self) -> Auth | None:
        """Remove and return the oldest auth packet in flight, to which the next auth reply belongs, or None if there is
        none.
        """
        return self._pending_auths.popleft() if self._pending_auths else None

    def lose(self) -> None:
        """Fail all calls in flight with ConnectionLoss: whether the server applied them is unknown."""
        pending, self._pending = self._pending, deque()
        auths, self._pending_auths = self._pending_auths, deque()
        for call in pending:
            call.fail(ConnectionLoss(call.path))
        for auth in auths:
            auth.resolve(ConnectionLoss())

    def drain_unanswered(self) -> list[Call]:
        """Remove and return the calls that will get no reply, because the session has ended."""
        calls = [*self._pending, *self._queued]
        self._pending.clear()
        self._queued.clear()
        self._pending_auths.clear()
        return calls
