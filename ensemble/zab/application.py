"""The port between ZAB and the replicated service above it.

ZAB orders transactions and knows nothing of znodes; the application (`zabka.ensemble.tree.service.Service`) turns
requests into transactions, applies them and talks to clients.  Both are pure and live in one `Peer`, which passes
events down and effects up.  Every method returns effects to carry out (possibly none), unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from zabka.ensemble.auth.policy import OPEN_POLICY, AuthPolicy
from zabka.ensemble.auth.schemes import AuthId
from zabka.ensemble.ids import ConnectionId, Epoch, LinkId, PeerId, SessionId, Zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import ClientMessage
from zabka.ensemble.tree_rules import DEFAULT_RULES, TreeRules
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.effects import Effect
from zabka.ensemble.zab.membership import Membership
from zabka.ensemble.zab.messages import ForwardedRequest, SyncRequest
from zabka.ensemble.zab.sync import COMMITTED_LOG_LENGTH, SNAPSHOT_SIZE_FACTOR
from zabka.journal.events import ZxidCheckpoint

LOCAL_SESSIONS_TIMER: Final = "local-sessions.expiry"
"""The application's timer: it runs at the end of each tick while there are sessions that only this server knows."""
LAPSING_TIMER: Final = "lapsing-nodes.check"
"""Another one: a leader's, where it looks at containers and times to live more often than every tick."""


class Submit(Effect):
    """Application to ZAB: a write of a local client (or a session to create, close or expire).  A follower forwards it
    to the leader; the leader prepares and proposes it.  Never reaches the driver."""

    request: ForwardedRequest


class SubmitSync(Effect):
    """Application to ZAB: call `sync_done` when everything proposed by now is committed (a quorum operation)."""

    request: SyncRequest


class TreeDiffers(Effect):
    """Application to ZAB: a transaction was applied, and its digest, which its leader made, is not this tree's."""


class AskRevalidate(Effect):
    """Application to ZAB: ask the leader whether a session may go on here."""

    session_id: SessionId
    timeout_ms: int


class EnsembleView(msgspec.Struct, frozen=True):
    """What a leader knows of its ensemble, for the judgement of a reconfiguration.  `synced` are the servers that could
    acknowledge a proposal now, the leader included."""

    current: Membership
    last_seen: Membership
    synced: tuple[PeerId, ...]
    enabled: bool
    standalone_enabled: bool
    several_addresses: bool = False
    """Whether a server may have more than one (multiAddress.enabled)."""


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

    @property
    def snapshot_bytes(self) -> int:
        """About how large a snapshot of the state would be."""
        ...

    def checkpoint(self) -> ZxidCheckpoint:
        """Where the tree stands now: `last_applied`, digest and sizes.  ZAB emits it from time to time."""
        ...

    def restore(self, snapshot: TreeSnapshot | None) -> None:
        """Replace the state; None means empty."""
        ...

    def apply(self, now: Instant, txns: Sequence[Txn]) -> list[Effect]:
        """Apply the next transactions, in order; for each fire watches, then answer the local client it came from.
        `TreeDiffers` where the tree is not what its leader's was."""
        ...

    def describe_membership(self, now: Instant, text: str, version: int) -> None:
        """Show in /zookeeper/config which membership is in force; no transaction says so (initConfigInZKDatabase)."""
        ...

    # -- leading -------------------------------------------------------------------------------------------------

    def start_leading(self, now: Instant, epoch: Epoch) -> None:
        """From now on `prepare_all` will be called: track every session with its full timeout."""
        ...

    def prepare_all(
        self, now: Instant, requests: Sequence[ForwardedRequest], zxid: Zxid, origin: LinkId | None
    ) -> list[Txn]:
        """Turn requests that came together into transactions, the first with that zxid, against the latest *proposed*
        state (outstanding changes included).  A request that fails becomes an ErrorTxn: it still takes its zxid.
        `origin` is the learner link they came by, None for local clients (sessions are owned by where they were last
        validated)."""
        ...

    def prepare_reconfig(
        self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None, ensemble: EnsembleView
    ) -> Txn:
        """As `prepare_all`, for one change of the ensemble itself: the transaction's data is the new membership."""
        ...

    def touch(self, now: Instant, session_id: SessionId, timeout_ms: int, by: PeerId) -> None:
        """Leader: that learner heard from the session."""
        ...

    def revalidate(
        self, now: Instant, session_id: SessionId, timeout_ms: int, origin: LinkId | None, by: PeerId
    ) -> bool:
        """Leader: may the session go on at that learner?  If so that learner owns it now."""
        ...

    def expire_sessions(self, now: Instant) -> list[Effect]:
        """Leader, every tick: Emit session_expired and Submit a closeSession for each session that is overdue."""
        ...

    # -- serving clients -----------------------------------------------------------------------------------------

    def start_serving(self, now: Instant, leading: bool) -> list[Effect]:
        """This peer is in sync with an established leader: accept clients from now on."""
        ...

    def start_read_only(self, now: Instant) -> list[Effect]:
        """This peer has found no leader for a while: answer reads of clients that put up with it, until
        `stop_serving`.  Neither the tree nor the log may change meanwhile."""
        ...

    def expire_local_sessions(self, now: Instant) -> list[Effect]:
        """The timer LOCAL_SESSIONS_TIMER, which the application has set, ran out."""
        ...

    def delete_lapsed(self, now: Instant) -> list[Effect]:
        """The timer LAPSING_TIMER, which the application of a leader has set, ran out."""
        ...

    def stop_serving(self, now: Instant) -> list[Effect]:
        """This peer lost its leader or its quorum, or read-only service ends: close every client connection, drop
        outstanding requests, forget watches and session tracking.  The tree stays."""
        ...

    def on_client_connected(
        self, now: Instant, connection: ConnectionId, identities: tuple[AuthId, ...] = ()
    ) -> list[Effect]:
        """A client connected; `identities` are what the connection proves by itself: address, certificate."""
        ...

    def on_client(self, now: Instant, connection: ConnectionId, message: ClientMessage) -> list[Effect]:
        """A frame from a client; while not serving the connection is closed (ZooKeeper refuses it the same way)."""
        ...

    def on_client_closed(self, now: Instant, connection: ConnectionId) -> list[Effect]:
        """The connection is gone; its session lives on until it expires."""
        ...

    def drain_touched(self) -> list[tuple[SessionId, int]]:
        """Learner: sessions heard from since the last call, for the answer to a leader's ping."""
        ...

    def revalidated(self, now: Instant, session_id: SessionId, valid: bool, proposed: Zxid) -> list[Effect]:
        """The leader's answer to AskRevalidate; `proposed` is the last transaction proposed before it: what the session
        asks for here comes behind that."""
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
    snap_count_max: int = 0
    """Where this is more than `snap_count`, a snapshot waits until the log since the last one is as large as that one,
    for no more transactions than this."""
    snap_size_limit_bytes: int = 4 << 30
    committed_log_length: int = COMMITTED_LOG_LENGTH
    snapshot_size_factor: float = SNAPSHOT_SIZE_FACTOR
    full_journal: bool = False
    membership: str = ""
    """What /zookeeper/config shows: one `server.N=...` a line, `version=` last.  Where it is given, roles, groups and
    weights are taken from it; empty leaves the node empty."""
    next_membership: str = ""
    """The last one proposed, where it is not known to be in force."""
    auth: AuthPolicy = OPEN_POLICY
    reconfig_enabled: bool = False
    several_addresses: bool = False
    read_only_mode: bool = False
    """Whether a peer that finds no leader serves reads (readonlymode.enabled)."""
    leader_serves: bool = True
    """Whether the leader serves clients (leaderServes); if not, its client port closes every connection, as that of a
    peer without a leader does."""
    has_oracle: bool = False
    """Whether somebody tells this peer, one of two voters, if it may go on without the other (oraclePath)."""
    local_sessions: bool = False
    local_sessions_upgrading: bool = False
    tree: TreeRules = DEFAULT_RULES
    answers_bytes_max: int = 1 << 62
    """How much a client is told before it has taken that: `zabka.ensemble.tree.backlog`."""
    observes_followers: bool = False
    """Whether an observer learns from a follower rather than from the leader (observerMasterPort)."""
    serves_observers: bool = False
    """Whether a follower lets observers learn from it."""
    standalone_enabled: bool = True
