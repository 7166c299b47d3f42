"""Interface between ZAB and the replicated service above it.

ZAB orders transactions and does not depend on znodes. The application (`zabka.ensemble.tree.service.Service`) turns
requests into transactions, applies them and replies to clients. Both are pure and belong to one `Peer`, which passes
events down and effects up. Every method returns effects to execute (possibly none), unless its docstring says
otherwise.
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
"""Timer of the application: it expires at the end of each tick while there are local sessions."""
LAPSING_TIMER: Final = "lapsing-nodes.check"
"""Timer of a leader that checks containers and times to live more often than every tick."""


class Submit(Effect):
    """From the application to ZAB: a write of a local client, or a session to create, close or expire.

    A follower forwards it to the leader; the leader prepares and proposes it. It never reaches the driver.
    """

    request: ForwardedRequest


class SubmitSync(Effect):
    """From the application to ZAB: call `sync_done` when everything proposed so far is committed.

    This is a quorum operation.
    """

    request: SyncRequest


class TreeDiffers(Effect):
    """From the application to ZAB: this tree's digest differs from the leader's.

    Each transaction contains the leader's digest of the tree after it.
    """


class AskRevalidate(Effect):
    """From the application to ZAB: ask the leader whether a session can continue here."""

    session_id: SessionId
    timeout_ms: int


class EnsembleView(msgspec.Struct, frozen=True):
    """A leader's view of its ensemble, used to validate a reconfiguration.

    `synced` are the servers that could acknowledge a proposal now, including the leader.
    """

    current: Membership
    last_seen: Membership
    synced: tuple[PeerId, ...]
    enabled: bool
    standalone_enabled: bool
    several_addresses: bool = False
    """Whether a server can have several addresses (multiAddress.enabled)."""


class Application(Protocol):
    """The replicated service, as ZAB drives it."""

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def last_applied(self) -> Zxid:
        """The zxid of the last applied transaction (or of the restored snapshot)."""
        ...

    def snapshot(self) -> TreeSnapshot:
        """Return the state as of `last_applied`; immutable, unaffected by later transactions."""
        ...

    @property
    def snapshot_bytes(self) -> int:
        """Approximate size of a snapshot of the state."""
        ...

    def checkpoint(self) -> ZxidCheckpoint:
        """Return the current state of the tree: `last_applied`, digest and sizes. ZAB emits it from time to time."""
        ...

    def restore(self, snapshot: TreeSnapshot | None) -> None:
        """Replace the state with the snapshot, or with the empty state if None."""
        ...

    def apply(self, now: Instant, txns: Sequence[Txn]) -> list[Effect]:
        """Apply the next transactions, in order; for each, fire watches, then reply to its local client.

        Returns `TreeDiffers` if the tree differs from its leader's.
        """
        ...

    def describe_membership(self, now: Instant, text: str, version: int) -> None:
        """Write the active membership to /zookeeper/config, without a transaction (initConfigInZKDatabase)."""
        ...

    # -- leading -------------------------------------------------------------------------------------------------

    def start_leading(self, now: Instant, epoch: Epoch) -> None:
        """Track every session with its full timeout; `prepare_all` will be called from now on."""
        ...

    def prepare_all(
        self, now: Instant, requests: Sequence[ForwardedRequest], zxid: Zxid, origin: LinkId | None
    ) -> list[Txn]:
        """Convert requests that arrived together to transactions, the first with this zxid.

        They are checked against the latest *proposed* state (outstanding changes included). A request that fails
        becomes an ErrorTxn, which still uses its zxid. `origin` is the learner link of the requests, None for local
        clients (a session is owned by the server where it was last validated).
        """
        ...

    def prepare_reconfig(
        self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None, ensemble: EnsembleView
    ) -> Txn:
        """Convert a change of the ensemble to a transaction, whose data is the new membership; see `prepare_all`."""
        ...

    def touch(self, now: Instant, session_id: SessionId, timeout_ms: int, by: PeerId) -> None:
        """Record, on a leader, that the learner `by` received a message of the session."""
        ...

    def revalidate(
        self, now: Instant, session_id: SessionId, timeout_ms: int, origin: LinkId | None, by: PeerId
    ) -> bool:
        """Return, on a leader, whether the session can continue on that learner, which then owns it."""
        ...

    def expire_sessions(self, now: Instant) -> list[Effect]:
        """Emit session_expired and submit a closeSession for each overdue session. Called on a leader every tick."""
        ...

    # -- serving clients -----------------------------------------------------------------------------------------

    def start_serving(self, now: Instant, leading: bool) -> list[Effect]:
        """Accept clients from now on, because this peer is in sync with an established leader."""
        ...

    def start_read_only(self, now: Instant) -> list[Effect]:
        """Serve reads of clients that accept this, until `stop_serving`, because this peer finds no leader.

        The tree and the log do not change during that time.
        """
        ...

    def expire_local_sessions(self, now: Instant) -> list[Effect]:
        """Handle the expired timer LOCAL_SESSIONS_TIMER, which the application has set."""
        ...

    def delete_lapsed(self, now: Instant) -> list[Effect]:
        """Handle the expired timer LAPSING_TIMER, which the application of a leader has set."""
        ...

    def stop_serving(self, now: Instant) -> list[Effect]:
        """End the service: this peer lost its leader or its quorum, or read-only service ends.

        Close every client connection; drop outstanding requests, watches and session tracking. The tree stays.
        """
        ...

    def on_client_connected(
        self, now: Instant, connection: ConnectionId, identities: tuple[AuthId, ...] = ()
    ) -> list[Effect]:
        """Handle a new client connection; it proves `identities` without credentials, by address and certificate."""
        ...

    def on_client(self, now: Instant, connection: ConnectionId, message: ClientMessage) -> list[Effect]:
        """Handle a frame from a client; if this peer is not serving, close the connection, as in ZooKeeper."""
        ...

    def on_client_closed(self, now: Instant, connection: ConnectionId) -> list[Effect]:
        """Handle a closed connection; its session lives until it expires."""
        ...

    def drain_touched(self) -> list[tuple[SessionId, int]]:
        """Return, on a learner, the sessions active since the last call, for the reply to the leader's ping."""
        ...

    def revalidated(self, now: Instant, session_id: SessionId, valid: bool, proposed: Zxid) -> list[Effect]:
        """Handle the leader's reply to AskRevalidate.

        `proposed` is the last transaction proposed before the reply; the session's requests here come after it.
        """
        ...

    def sync_done(self, now: Instant, request: SyncRequest) -> list[Effect]:
        """Handle a completed SubmitSync: every transaction that it waited for has been applied here."""
        ...


class EnsembleConfig(msgspec.Struct, frozen=True):
    """Settings in zoo.cfg that ZAB needs. `init_limit` and `sync_limit` are in ticks, as in zoo.cfg."""

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
    """Upper limit of transactions per snapshot, if more than `snap_count`.

    If it is more, a snapshot waits until the log since the last snapshot is as large as that snapshot.
    """
    snap_size_limit_bytes: int = 4 << 30
    committed_log_length: int = COMMITTED_LOG_LENGTH
    snapshot_size_factor: float = SNAPSHOT_SIZE_FACTOR
    full_journal: bool = False
    membership: str = ""
    """Content of /zookeeper/config: one `server.N=...` per line, `version=` last.

    If it is not empty, it also defines roles, groups and weights; if it is empty, the znode is empty.
    """
    next_membership: str = ""
    """The last proposed membership, if it is not known to be active."""
    auth: AuthPolicy = OPEN_POLICY
    reconfig_enabled: bool = False
    several_addresses: bool = False
    read_only_mode: bool = False
    """Whether a peer without a leader serves reads (readonlymode.enabled)."""
    leader_serves: bool = True
    """Whether the leader serves clients (leaderServes).

    If not, its client port closes every connection, as on a peer without a leader.
    """
    has_oracle: bool = False
    """Whether an oracle decides if this peer, one of two voters, can continue without the other (oraclePath)."""
    local_sessions: bool = False
    local_sessions_upgrading: bool = False
    tree: TreeRules = DEFAULT_RULES
    answers_bytes_max: int = 1 << 62
    """Limit of unread reply bytes per client (`zabka.ensemble.tree.backlog`)."""
    observes_followers: bool = False
    """Whether an observer learns from a follower instead of the leader (observerMasterPort)."""
    serves_observers: bool = False
    """Whether a follower allows observers to learn from it."""
    standalone_enabled: bool = True
