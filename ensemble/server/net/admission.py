"""Enforcement of the client ports' limits on connections and on requests in progress.

Sources: NettyServerCnxnFactory (maxClientCnxns, maxCnxns), ZooKeeperServer (shouldThrottle, checkRequestSize…,
connThrottle), RequestThrottler.
"""

from __future__ import annotations

from collections.abc import Callable

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import ConnectionId
from zabka.ensemble.records import ClientMessage, ConnectRequest, Frames, OpCode, Request
from zabka.ensemble.server.config.limits import ConnectionThrottle, LimitCounts, Limits
from zabka.ensemble.summary import Summary

_NEVER_THROTTLED = frozenset(map(int, (OpCode.PING, OpCode.CLOSE_SESSION, OpCode.AUTH, OpCode.SASL)))


class Admission:
    """Enforces the limits on a server's clients. `draw` returns a random number from 0 to 1."""

    def __init__(self, limits: Limits, draw: Callable[[], float], now_ms: int) -> None:
        self.limits = limits
        self.counts = LimitCounts()
        self.throttle = ConnectionThrottle(limits.throttle, draw, now_ms)
        self.connections = 0
        self.token_deficit = Summary()
        self.throttled_ms = Summary()
        """Waiting times of the requests that the request throttle held back."""
        self.outstanding = 0
        """Number of requests in progress (without a reply), over all connections."""
        self.large_bytes = 0
        self.handed_over: dict[ConnectionId, int] = {}
        """Number of requests that were passed to the peer in the current event loop turn and that it has not processed
        yet.

        Keyed by connection; cleared in each new turn.
        """
        self._per_host: dict[str, int] = {}

    def admit(self, host: str) -> bool:
        """Return whether a new connection from this host stays within the limits. If it does, count it.

        The connection counts until `leave` is called.
        """
        count = self._per_host.get(host, 0)
        limits = self.limits
        crowded = 0 < limits.per_host <= count or 0 < limits.connections <= self.connections
        if crowded:
            self.counts.connection_rejected += 1
            return False
        self._per_host[host] = count + 1
        self.connections += 1
        return True

    def leave(self, host: str) -> None:
        """Remove a connection of this host, which has ended, from the count."""
        self.connections -= 1
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]

    def count_plain(self, host: str) -> None:
        """Count a connection without TLS in the metrics, as local or remote (incrementNonMTLS…ConnCount)."""
        if host.startswith("127.") or host in ("::1", "localhost"):
            self.counts.non_mtls_local_conn_count += 1
        else:
            self.counts.non_mtls_remote_conn_count += 1

    def may_begin(self, request: ConnectRequest, now_ms: int) -> bool:
        """Return whether the throttle allows a session to be opened or renewed now.

        If not, the caller closes the connection without a reply.
        """
        renews = request.session_id != 0
        if not self.throttle.admits(now_ms, renews=renews):
            self.counts.connection_rejected += 1
            return False
        self.token_deficit.add(self.throttle.deficit)
        self.counts.connection_request_count += 1
        self.counts.connection_revalidate_count += renews
        return True

    def hand_over(self, connection: ConnectionId, messages: list[ClientMessage]) -> None:
        """Count the requests in these messages as passed to the peer."""
        count = self.handed_over.get(connection, 0)
        for each in messages:
            count += len(each.frames) if isinstance(each, Frames) else isinstance(each, Request)
        self.handed_over[connection] = count

    def overloaded(self, own: int) -> bool:
        """Return whether to pause reading from a connection with `own` requests in progress.

        True if the total number of requests in progress exceeds the limit.
        """
        return own > 0 and self.outstanding > self.limits.outstanding

    def is_large(self, size: int) -> bool:
        """Return whether a request of `size` bytes counts against largeRequestMaxBytes."""
        return 0 <= self.limits.large_request_threshold < size

    def fits(self, size: int) -> bool:
        """Return whether a large request of `size` bytes is allowed in addition to the large requests in progress."""
        if self.large_bytes + size <= self.limits.large_request_bytes:
            return True
        self.counts.large_requests_rejected += 1
        return False


class RequestGate:
    """Request throttle: queues requests while `in_process` requests are in progress (RequestThrottler).

    Queued requests are released in order of arrival. The reply to a request that waited longer than
    `throttled_op_wait_ms` is the error THROTTLED, sent in its place among the replies.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._held: dict[ConnectionId, list[tuple[int, ClientMessage]]] = {}

    def holds(self, connection: ConnectionId, messages: list[ClientMessage], now_ms: int) -> bool:
        """Queue a connection's messages and return True, or return False if they can be processed at once."""
        admission = self._admission
        waiting = self._held.get(connection)
        if waiting is None:
            if admission.outstanding < admission.limits.in_process:
                return False
            waiting = self._held[connection] = []
            admission.counts.request_throttle_wait_count += 1
        waiting.extend((now_ms, message) for message in messages)
        return True

    def is_holding(self, connection: ConnectionId) -> bool:
        """Return whether messages of that connection are queued."""
        return connection in self._held

    def release(self, now_ms: int) -> tuple[ConnectionId, list[ClientMessage]] | None:
        """Remove and return all messages of the connection that has waited longest, or None if none can be processed
        now.
        """
        if not self._held or self._admission.outstanding >= self._admission.limits.in_process:
            return None
        connection = next(iter(self._held))
        waited = self._held.pop(connection)
        for since_ms, _ in waited:
            self._admission.throttled_ms.add(now_ms - since_ms)
        return connection, [passed for since_ms, each in waited for passed in self._late(each, now_ms - since_ms)]

    def _late(self, message: ClientMessage, waited_ms: int) -> list[ClientMessage]:
        wait_max_ms = self._admission.limits.throttled_op_wait_ms
        if not 0 < wait_max_ms < waited_ms or not isinstance(message, Frames):
            return [message]
        return [self._refused(frame) for frame in message.frames]

    def _refused(self, frame: bytes) -> ClientMessage:
        xid, op = (int.from_bytes(frame[i : i + 4], "big", signed=True) for i in (0, 4))
        if op in _NEVER_THROTTLED:
            return Frames([frame])
        self._admission.counts.throttled_ops += 1
        return Request(xid, op, None, ErrorCode.THROTTLED)

    def forget(self, connection: ConnectionId) -> None:
        """Drop the queued messages of a connection that has ended."""
        self._admission.counts.stale_requests_dropped += len(self._held.pop(connection, ()))
