"""Interface between ZAB and the replicated service.

ZAB orders transactions and does not depend on znodes. The application (`zabka.ensemble.tree.service.Service`) converts
requests to transactions, applies them and replies to clients. Both are pure, and one `Peer` owns both: it passes events
to the application and the application's effects to the driver. Every method returns effects to execute (possibly none),
unless its docstring says otherwise.
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
"""Name of the application's timer that expires at the end of each tick while there are local sessions."""
LAPSING_TIMER: Final = "lapsing-nodes.check"
"""Name of the timer with which a leader checks container and TTL znodes more often than once per tick."""


class Submit(Effect):
    """From the application to ZAB: a write of a local client, or a request to create, close or expire a session.

    A follower forwards the request to the leader, which prepares and proposes the transaction. This effect is not
    passed to the driver.
    """

    request: ForwardedRequest


class SubmitSync(Effect):
    """From the application to ZAB: call `sync_done` when everything proposed so far is committed.

    The leader also checks that a quorum still follows it.
    """

    request: SyncRequest


class TreeDiffers(Effect):
    """From the application to ZAB: the digest of this peer's tree differs from the leader's.

    Each transaction contains the leader's digest of the tree after the transaction.
    """


class AskRevalidate(Effect):
    """From the application to ZAB: ask the leader whether a session can continue on this server."""

    session_id: SessionId
    timeout_ms: int


class EnsembleView(msgspec.Struct, frozen=True):
    """A leader's view of its ensemble, against which a reconfiguration request is checked.

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
    """The replicated service, as an interface that ZAB calls."""

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def last_applied(self) -> Zxid:
        """The zxid of the last applied transaction (or of the restored snapshot)."""
        ...

    def snapshot(self) -> TreeSnapshot:
        """Return a snapshot of the state as of `last_applied`, which later transactions do not change."""
        ...

    @property
    def snapshot_bytes(self) -> int:
        """Approximate size of a snapshot of the state."""
        ...

    def checkpoint(self) -> ZxidCheckpoint:
        """Return a journal event with `last_applied`, digest and sizes of the tree. ZAB emits it from time to time."""
        ...

    def restore(self, snapshot: TreeSnapshot | None) -> None:
        """Replace the state by the snapshot, or by the empty state if None."""
        ...

    def apply(self, now: Instant, txns: Sequence[Txn]) -> list[Effect]:
        """Apply the next transactions in order.

        For each transaction, fire watches, then reply to the local client that requested it. Returns `TreeDiffers` if
        the tree's digest differs from the leader's digest.
        """
        ...

    def describe_membership(self, now: Instant, text: str, version: int) -> None:
        """Write the active membership to /zookeeper/config, without a transaction (initConfigInZKDatabase)."""
        ...

    # -- leading -------------------------------------------------------------------------------------------------

    def start_leading(self, now: Instant, epoch: Epoch) -> None:
        """Become leader: track every session, beginning with its full timeout. `prepare_all` is called from now on."""
        ...

    def prepare_all(
        self, now: Instant, requests: Sequence[ForwardedRequest], zxid: Zxid, origin: LinkId | None
    ) -> list[Txn]:
        """Convert requests that arrived together to transactions; the first one gets this zxid.

        The requests are checked against the latest *proposed* state (outstanding changes included). A rejected request
        becomes an ErrorTxn, which uses a zxid too. `origin` is the link of the learner that sent the requests, None for
        local clients (a session is owned by the server where it was last validated).
        """
        ...

    def prepare_reconfig(
        self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None, ensemble: EnsembleView
    ) -> Txn:
        """Convert a change of the membership to a transaction, whose data is the new membership; see `prepare_all`."""
        ...

    def touch(self, now: Instant, session_id: SessionId, timeout_ms: int, by: PeerId) -> None:
        """Record, on a leader, that the learner `by` received a message of the session."""
        ...

    def revalidate(
        self, now: Instant, session_id: SessionId, timeout_ms: int, origin: LinkId | None, by: PeerId
    ) -> bool:
        """Return, on a leader, whether the session can continue on the learner `by`, which then owns the session."""
        ...

    def expire_sessions(self, now: Instant) -> list[Effect]:
        """Emit session_expired and submit a closeSession for each overdue session.

        Called on a leader every tick.
        """
        ...

    # -- accepting clients ---------------------------------------------------------------------------------------

    def start_serving(self, now: Instant, leading: bool) -> list[Effect]:
        """Accept clients from now on, because this peer is in sync with an established leader."""
        ...

    def start_read_only(self, now: Instant) -> list[Effect]:
        """Accept read-only clients until `stop_serving`, because this peer finds no leader.

        The tree and the log do not change during that time.
        """
        ...

    def expire_local_sessions(self, now: Instant) -> list[Effect]:
        """Handle the expiry of LOCAL_SESSIONS_TIMER, which the application has set."""
        ...

    def delete_lapsed(self, now: Instant) -> list[Effect]:
        """Handle the expiry of LAPSING_TIMER, which the application has set on a leader."""
        ...

    def stop_serving(self, now: Instant) -> list[Effect]:
        """Stop accepting clients: this peer has lost its leader or its quorum, or its read-only service ends.

        Close every client connection; drop outstanding requests, watches and session tracking. The tree does not
        change.
        """
        ...

    def on_client_connected(
        self, now: Instant, connection: ConnectionId, identities: tuple[AuthId, ...] = ()
    ) -> list[Effect]:
        """Handle a new client connection; its address and its certificate prove `identities`."""
        ...

    def on_client(self, now: Instant, connection: ConnectionId, message: ClientMessage) -> list[Effect]:
        """Handle a frame from a client; if this peer does not accept clients, close the connection, as in ZooKeeper."""
        ...

    def on_client_closed(self, now: Instant, connection: ConnectionId) -> list[Effect]:
        """Handle a closed connection; its session remains until it expires."""
        ...

    def drain_touched(self) -> list[tuple[SessionId, int]]:
        """Return, on a learner, the sessions active since the last call, for the reply to the leader's ping."""
        ...

    def revalidated(self, now: Instant, session_id: SessionId, valid: bool, proposed: Zxid) -> list[Effect]:
        """Handle the leader's reply to AskRevalidate.

        `proposed` is the last zxid proposed before the reply; the requests that the session sends here get higher
        zxids.
        """
        ...

    def sync_done(self, now: Instant, request: SyncRequest) -> list[Effect]:
        """Handle a completed sync (SubmitSync): this server has applied every transaction that it had to wait for."""
        ...


class EnsembleConfig(msgspec.Struct, frozen=True):
    """Settings in zoo.cfg that ZAB uses. `init_limit` and `sync_limit` are in ticks, as in zoo.cfg."""

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
    """Upper limit for the number of transactions between two snapshots, if it exceeds `snap_count`.

    In that case, after `snap_count` transactions the next snapshot is postponed until the log is as large as the last
    snapshot, but at most until this limit.
    """
    snap_size_limit_bytes: int = 4 << 30
    committed_log_length: int = COMMITTED_LOG_LENGTH
    snapshot_size_factor: float = SNAPSHOT_SIZE_FACTOR
    full_journal: bool = False
    membership: str = ""
    """Content of /zookeeper/config: one `server.N=...` per line, `version=` last.

    If it is not empty, it also defines the roles, groups and weights. If it is empty, the znode is empty too.
    """
    next_membership: str = ""
    """The last proposed membership; empty if that membership is known to be active."""
    auth: AuthPolicy = OPEN_POLICY
    reconfig_enabled: bool = False
    several_addresses: bool = False
    read_only_mode: bool = False
    """Whether a peer without a leader accepts clients for reads (readonlymode.enabled)."""
    leader_serves: bool = True
    """Whether the leader accepts clients (leaderServes).

    If it does not, its client port closes every connection, like the port of a peer without a leader.
    """
    has_oracle: bool = False
    """Whether an oracle decides if this peer, one of two voters, can continue without the other one (oraclePath)."""
    local_sessions: bool = False
    local_sessions_upgrading: bool = False
    tree: TreeRules = DEFAULT_RULES
    answers_bytes_max: int = 1 << 62
    """Limit of unread reply bytes per client (`zabka.ensemble.tree.backlog`)."""
    observes_followers: bool = False
    """Whether an observer learns from a follower instead of the leader (observerMasterPort)."""
    serves_observers: bool = False
    """Whether a follower accepts observers that learn from it."""
    standalone_enabled: bool = True
