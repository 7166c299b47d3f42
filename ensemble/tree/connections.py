"""State of a server's client connections, and of the request queue of each session connected to it.

Source: ServerCnxn, CommitProcessor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum

import msgspec

from zabka.ensemble.auth.digest_md5 import DigestMd5Server
from zabka.ensemble.auth.schemes import AuthId
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import ConnectionId, SessionId, Zxid
from zabka.ensemble.records import AnyBody, Reply, ReplyFrames, Request


class Stage(Enum):
    """Stage of a connection."""

    OPEN = "open"
    """The connection is open, and no ConnectRequest has arrived yet."""
    ATTACHING = "attaching"
    """The connection's session is being created or validated; requests are queued."""
    ATTACHED = "attached"
    CLOSED = "closed"


class Connection:
    """A client's connection to this server."""

    __slots__ = (
        "alone", "attached_after", "auth", "barred", "creates", "deferred", "held", "id", "knows_read_only",
        "last_cxid", "last_latency_ms", "last_op", "last_response_ms", "last_zxid", "latency_max_ms", "latency_min_ms",
        "latency_total_ms", "opened_ms", "outstanding", "received", "rights", "sasl", "sent", "session_id",
        "stage", "timeout_ms", "unread_bytes",
    )  # fmt: skip

    def __init__(self, connection: ConnectionId, now_ms: int) -> None:
        self.id = connection
        self.stage = Stage.OPEN
        self.session_id = SessionId(0)
        self.creates = False
        self.attached_after = Zxid(0)
        """Transactions up to this zxid do not belong to requests of this connection.

        They were proposed while the session was connected to another server.
        """
        self.knows_read_only = True
        self.timeout_ms = 0
        self.alone = False
        """Whether the leader does not know the session, because it is local or this server is read-only."""
        self.auth: tuple[AuthId, ...] = ()
        self.rights: Sequence[AuthId] = ()
        """Identities for ACL checks, from `AuthPolicy.rights_of`."""
        self.barred = False
        """Whether the client still has to authenticate with a required scheme."""
        self.sasl: DigestMd5Server | None = None
        self.held: list[Request] = []
        self.deferred: list[bytes] = []
        """Requests that arrived while replies were held back; they are processed after these replies are sent."""
        self.opened_ms = now_ms
        self.outstanding = 0
        self.unread_bytes = 0
        """Bytes of replies sent since the client had last read all its replies (`zabka.ensemble.tree.backlog`)."""
        self.last_response_ms = now_ms
        self.reset_statistics()

    def reset_statistics(self) -> None:
        """Reset the statistics (ServerCnxn.resetStats)."""
        self.received = 0
        self.sent = 0
        self.last_cxid = -1
        self.last_zxid = -1
        self.last_op = 0
        self.last_latency_ms = 0
        self.latency_min_ms = -1
        self.latency_max_ms = 0
        self.latency_total_ms = 0

    def answered(self, now_ms: int, latency_ms: int, cxid: int, zxid: int, op: int) -> None:
        """Count a request whose reply was sent (updateStatsForResponse)."""
        self.sent += 1
        self.last_cxid = cxid
        self.last_zxid = zxid
        self.last_op = op
        self.last_response_ms = now_ms
        self.last_latency_ms = latency_ms
        self.latency_total_ms += latency_ms
        if latency_ms > self.latency_max_ms:
            self.latency_max_ms = latency_ms
        if latency_ms < self.latency_min_ms or self.latency_min_ms < 0:
            self.latency_min_ms = latency_ms


class Waiting(msgspec.Struct, eq=False, gc=False):
    """A request whose reply cannot be sent yet: a write or sync in progress, or any request after one.

    `reply` is set when the reply is known, and may have to wait for earlier replies. The reply to a read is computed
    only when all earlier replies have been sent. `frame` contains the bytes of a plain request, which has no `body` and
    whose reply is bytes.
    """

    connection: Connection
    cxid: int
    op: int
    body: AnyBody | None
    since_ms: int
    frame: bytes | None = None
    under_way: bool = False
    problem: ErrorCode = ErrorCode.OK
    done: bool = False
    closes: bool = False
    reply: Reply | ReplyFrames | None = None


class OpenSession:
    """A session that is connected to this server, or was connected and still has unfinished requests.

    The queue is part of the session, not of the connection: pending requests of a broken connection must still be
    matched with their transactions before any request of the session's new connection.
    """

    __slots__ = ("connection", "id", "queue")

    def __init__(self, session_id: SessionId) -> None:
        self.id = session_id
        self.connection: Connection | None = None
        self.queue: deque[Waiting] = deque()


class ConnectionInfo(msgspec.Struct, frozen=True):
    """Statistics of one connection, for `cons` and `stat`.

    Latencies include only requests that got a reply; times are on the node's monotonic clock.
    """

    connection: ConnectionId
    session_id: SessionId
    timeout_ms: int
    outstanding: int
    received: int
    sent: int
    opened_mono_ms: int
    last_op: str
    last_cxid: int
    last_zxid: int
    last_response_mono_ms: int
    last_latency_ms: int
    latency_min_ms: int
    latency_avg_ms: float
    latency_max_ms: int


def info_of(connection: Connection, last_op: str) -> ConnectionInfo:
    """Return a connection's statistics for reports."""
    answered = connection.sent
    return ConnectionInfo(
        connection=connection.id,
        session_id=connection.session_id,
        timeout_ms=connection.timeout_ms,
        outstanding=connection.outstanding,
        received=connection.received,
        sent=answered,
        opened_mono_ms=connection.opened_ms,
        last_op=last_op,
        last_cxid=connection.last_cxid,
        last_zxid=connection.last_zxid,
        last_response_mono_ms=connection.last_response_ms,
        last_latency_ms=connection.last_latency_ms,
        latency_min_ms=max(connection.latency_min_ms, 0),
        latency_avg_ms=connection.latency_total_ms / answered if answered else 0.0,
        latency_max_ms=connection.latency_max_ms,
    )
