"""A server's client connections and, for each session here, the order of its requests (ServerCnxn, CommitProcessor)."""

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
    """How far a connection has come."""

    OPEN = "open"
    """Waiting for the ConnectRequest."""
    ATTACHING = "attaching"
    """The session is being created or validated: requests wait."""
    ATTACHED = "attached"
    CLOSED = "closed"


class Connection:
    """One client connection."""

    __slots__ = (
        "alone", "attached_after", "auth", "barred", "creates", "deferred", "held", "id", "knows_read_only",
        "last_cxid", "last_latency_ms", "last_op", "last_response_ms", "last_zxid", "latency_max_ms", "latency_min_ms",
        "latency_total_ms", "opened_ms", "outstanding", "received", "rights", "sasl", "sent", "session_id",
        "stage", "timeout_ms", "told_bytes",
    )  # fmt: skip

    def __init__(self, connection: ConnectionId, now_ms: int) -> None:
        self.id = connection
        self.stage = Stage.OPEN
        self.session_id = SessionId(0)
        self.creates = False
        self.attached_after = Zxid(0)
        """No transaction up to this one is about what it asked for: its session was connected elsewhere."""
        self.knows_read_only = True
        self.timeout_ms = 0
        self.alone = False
        """Whether no leader knows of its session: a local one, or one on a read-only server."""
        self.auth: tuple[AuthId, ...] = ()
        self.rights: Sequence[AuthId] = ()
        """What counts where an ACL is asked: see `AuthPolicy.rights_of`."""
        self.barred = False
        """Whether it has still to prove what this server demands."""
        self.sasl: DigestMd5Server | None = None
        self.held: list[Request] = []
        self.deferred: list[bytes] = []
        """What came while answers waited until it has taken others: it is taken in after them."""
        self.opened_ms = now_ms
        self.outstanding = 0
        self.told_bytes = 0
        """Of answers since it last had them all, or has taken them (`zabka.ensemble.tree.backlog`)."""
        self.last_response_ms = now_ms
        self.reset_statistics()

    def reset_statistics(self) -> None:
        """Start counting over (ServerCnxn.resetStats)."""
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
        """Count a request that was answered (updateStatsForResponse)."""
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
    """A request that cannot be answered yet: a write or sync under way, or anything behind one.

    `reply` is set once the answer is known (its turn may still have to come); a read is worked out at its turn.
    `frame` are the bytes of a plain request, which has no `body` and is answered in bytes.
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
    """A session that is, or was until its last requests are done, connected here.

    The queue belongs to the session, not to the connection: what a broken connection left under way still has to be
    matched with its transactions, before anything that a new connection of the session asks.
    """

    __slots__ = ("connection", "id", "queue")

    def __init__(self, session_id: SessionId) -> None:
        self.id = session_id
        self.connection: Connection | None = None
        self.queue: deque[Waiting] = deque()


class ConnectionInfo(msgspec.Struct, frozen=True):
    """One connection as `cons` and `stat` show it.  Latencies are of answered requests; times on the node's clock."""

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
    """The read model of a connection."""
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
