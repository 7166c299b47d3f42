"""The port between ZAB and the replicated service above it.

ZAB orders transactions and knows nothing of znodes; the application (`ensemble.tree.service.Service`) turns requests
into transactions, applies them and talks to clients.  Both are pure and live in one `Peer`, which passes events down
and effects up.  Every method returns effects to carry out (possibly none), unless it says otherwise.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from ensemble.effects import Effect
from ensemble.ids import ConnectionId, Epoch, LinkId, SessionId, Zxid
from ensemble.ports import Instant
from ensemble.records import ClientMessage
from ensemble.tree.snapshot import TreeSnapshot
from ensemble.txn import Txn
from ensemble.zab.messages import ForwardedRequest, SyncRequest
from journal.events import ZxidCheckpoint


class Submit(Effect):
    """Application to ZAB: a write of a local client (or a session to create, close or expire).  A follower forwards it
    to the leader; the leader prepares and proposes it.  Never reaches the driver."""

    request: ForwardedRequest


class SubmitSync(Effect):
    """Application to ZAB: call `sync_done` when everything proposed by now is committed (a quorum operation)."""

    request: SyncRequest


class AskRevalidate(Effect):
    """Application to ZAB, on a learner: ask the leader whether a session may go on here."""

    session_id: SessionId
    timeout_ms: int


class Application(Protocol):
    """The replicated service, as ZAB drives it."""

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def last_applied(self) -> Zxid:
        """The zxid of the last applied transaction (or of the restored snapshot)."""
        ...

    def snapshot(self) -> TreeSnapshot:
        """The state as of `last_applied`; immutable, unaffected by later transactions."""
        ...

    def checkpoint(self) -> ZxidCheckpoint:
        """Where the tree stands now: `last_applied`, digest and sizes.  ZAB emits it from time to time."""
        ...

    def restore(self, snapshot: TreeSnapshot | None) -> None:
        """Replace the state; None means empty."""
        ...

    def apply(self, now: Instant, txn: Txn) -> list[Effect]:
        """Apply the next transaction; fire watches, then answer the local client it came from."""
        ...

    # -- leading -------------------------------------------------------------------------------------------------

    def start_leading(self, now: Instant, epoch: Epoch) -> None:
        """From now on `prepare` will be called: track every session with its full timeout."""
        ...

    def prepare(self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None) -> Txn:
        """Turn a request into a transaction with that zxid, against the latest *proposed* state (outstanding changes
        included).  A request that fails becomes an ErrorTxn: it still takes its zxid.  `origin` is the learner link it
        came by, None for a local client (sessions are owned by where they were last validated)."""
        ...

    def touch(self, now: Instant, session_id: SessionId, timeout_ms: int) -> None:
        """Leader: a learner heard from that session."""
        ...

    def revalidate(self, now: Instant, session_id: SessionId, timeout_ms: int, origin: LinkId | None) -> bool:
        """Leader: may the session go on at that learner?  If so that learner owns it now."""
        ...

    def expire_sessions(self, now: Instant) -> list[Effect]:
        """Leader, every tick: Emit session_expired and Submit a closeSession for each session that is overdue."""
        ...

    # -- serving clients -----------------------------------------------------------------------------------------

    def start_serving(self, now: Instant, leading: bool) -> list[Effect]:
        """This peer is in sync with an established leader: accept clients from now on."""
        ...

    def stop_serving(self, now: Instant) -> list[Effect]:
        """This peer lost its leader or its quorum: close every client connection, drop outstanding requests, forget
        watches and session tracking.  The tree stays."""
        ...

    def on_client_connected(self, now: Instant, connection: ConnectionId) -> list[Effect]: ...

    def on_client(self, now: Instant, connection: ConnectionId, message: ClientMessage) -> list[Effect]:
        """A frame from a client; while not serving the connection is closed (ZooKeeper refuses it the same way)."""
        ...

    def on_client_closed(self, now: Instant, connection: ConnectionId) -> list[Effect]:
        """The connection is gone; its session lives on until it expires."""
        ...

    def drain_touched(self) -> list[tuple[SessionId, int]]:
        """Learner: sessions heard from since the last call, for the answer to a leader's ping."""
        ...

    def revalidated(self, now: Instant, session_id: SessionId, valid: bool) -> list[Effect]:
        """Learner: the leader's answer to AskRevalidate."""
        ...

    def sync_done(self, now: Instant, request: SyncRequest) -> list[Effect]:
        """Every transaction that SubmitSync waited for has been applied here."""
        ...


class EnsembleConfig(msgspec.Struct, frozen=True):
    """What ZAB needs of zoo.cfg.  Times of `init_limit` and `sync_limit` are in ticks, as there."""

    my_id: int
    voters: tuple[int, ...]
    observers: tuple[int, ...] = ()
    tick_time_ms: int = 2000
    init_limit: int = 10
    sync_limit: int = 5
    min_session_timeout_ms: int = -1
    max_session_timeout_ms: int = -1
    snap_count: int = 100_000
    full_journal: bool = False
    membership: str = ""
    """What /zookeeper/config shows: one `server.N=...` a line, then `version=0`; empty leaves the node empty."""
