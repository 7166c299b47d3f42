"""Coordination service of one peer: client connections, sessions, requests and watches over the replicated tree.

`Service` implements `zabka.ensemble.zab.application.Application`, the interface that ZAB calls (ZooKeeperServer,
LeaderZooKeeperServer). Its parts:

    clients       `Clients` the tables of connections and sessions
    attachment    `Attachment` a ConnectRequest becomes a session
    requests      `RequestIntake` requests arrive, and writes go to the leader
    commits       `Commits` transactions are applied, and watches fire
    answer_queues `AnswerQueues` each session's replies are sent in order
    local         `LocalRequests` local sessions, and read-only service
    counters, statistics           counts, and reports for operators

They share `ServerState`: the tree, the watches, and whether this server leads or accepts clients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zabka.ensemble.auth.schemes import AuthId
from zabka.ensemble.ids import ConnectionId, Epoch, LinkId, PeerId, SessionId, Zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import ClientMessage, ConnectRequest, Frames, OpCode, PathRequest, Request
from zabka.ensemble.tree.answer_queues import AnswerQueues
from zabka.ensemble.tree.attachment import Attachment
from zabka.ensemble.tree.authentication import KEY_PATH, Authentication, EnsembleCounts
from zabka.ensemble.tree.clients import Clients
from zabka.ensemble.tree.commits import Commits
from zabka.ensemble.tree.connections import Connection, Stage
from zabka.ensemble.tree.containers import ContainerCheck
from zabka.ensemble.tree.counters import Counters
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.local_requests import LocalRequests
from zabka.ensemble.tree.proposer import Proposer
from zabka.ensemble.tree.quota_guard import QuotaGuard
from zabka.ensemble.tree.requests import OUTSTANDING_MAX, RequestIntake
from zabka.ensemble.tree.server_state import ServerState
from zabka.ensemble.tree.sessions import NO_SESSION, SessionTracker, owner_of
from zabka.ensemble.tree.statistics import ServiceViews
from zabka.ensemble.tree.watches import Watches
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.application import LAPSING_TIMER, EnsembleConfig, EnsembleView, Submit
from zabka.ensemble.zab.effects import Effect, Emit, SetTimer
from zabka.ensemble.zab.messages import ForwardedRequest, SyncRequest
from zabka.journal.events import SessionExpired, ZxidCheckpoint

_ATTACHED = Stage.ATTACHED
"""`Stage.ATTACHED` as a module constant, because looking up an enumeration member takes as long as a call."""


class Service:
    """Coordination service of one peer. See `Application` for the methods.

    `new_nonce` must return unpredictable strings, for SASL. `counters` and `views` are for the operator interfaces.
    """

    def __init__(self, config: EnsembleConfig, new_nonce: Callable[[], str] | None = None) -> None:
        self._config = config
        self._state = state = ServerState(config)
        self._authentication = Authentication(config.auth, new_nonce, lambda: state.tree.nodes.get(KEY_PATH))
        self._containers: ContainerCheck | None = None
        self.counters = counters = Counters()
        self._local = local = LocalRequests(state)
        self.clients = clients = Clients(state, counters, local)
        self.views = ServiceViews(state, clients, counters)
        answers = AnswerQueues(state, clients, counters, local)
        self._requests = RequestIntake(
            state, clients, counters, local=local, answers=answers, authentication=self._authentication
        )
        self._attachment = Attachment(state, clients, counters, local=local, requests=self._requests)
        self._commits = Commits(state, clients, counters, answers=answers, attachment=self._attachment)
        self._answers = answers

    @property
    def tree(self) -> DataTree:
        """The replicated tree; callers must not change it."""
        return self._state.tree

    @property
    def watches(self) -> Watches:
        """The watches of this server; callers must not change them."""
        return self._state.watches

    @property
    def ensemble_auth(self) -> EnsembleCounts:
        """Counts of clients that sent an ensemble's name."""
        return self._authentication.of_ensemble

    def local_sessions(self) -> list[tuple[SessionId, int]]:
        """Return (id, timeout in milliseconds) of the local sessions."""
        return self._local.listed()

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def last_applied(self) -> Zxid:
        """The zxid of the last applied transaction (or of the restored snapshot)."""
        return self._state.tree.last_zxid

    def snapshot(self) -> TreeSnapshot:
        """Return a snapshot of the state as of `last_applied`, which later transactions do not change."""
        return self._state.tree.to_snapshot()

    def restore(self, snapshot: TreeSnapshot | None) -> None:
        """Replace the state by the snapshot, or clear it if the snapshot is None.

        Raises ValueError for a damaged snapshot.
        """
        assert not self._state.serving, "the tree is replaced while clients read it"
        self._state.tree = DataTree() if snapshot is None else DataTree.from_snapshot(snapshot)
        self.counters.digests.clear()

    def apply(self, now: Instant, txns: Sequence[Txn]) -> list[Effect]:
        """Apply the next transactions; for each, fire watches, then reply to the local client that requested it."""
        return self._commits.apply(now, txns)

    @property
    def snapshot_bytes(self) -> int:
        """Approximate size of a snapshot of the state."""
        return self._state.tree.snapshot_bytes

    def checkpoint(self) -> ZxidCheckpoint:
        """Return a journal event that describes the current state of the tree."""
        tree = self._state.tree
        return ZxidCheckpoint(tree.last_zxid, tree.digest, len(tree.nodes), len(tree.sessions))

    def describe_membership(self, now: Instant, text: str, version: int) -> None:
        """Write the active membership to /zookeeper/config."""
        if text:
            self._state.tree.describe_membership(text.encode(), version, now.wall_ms)

    # -- leading -------------------------------------------------------------------------------------------------

    def start_leading(self, now: Instant, epoch: Epoch) -> None:
        """Become leader: track every session, beginning with its full timeout.

        After this call, `prepare_all` can be called.
        """
        tracker = SessionTracker(self._config.tick_time_ms, now)
        for session_id, timeout_ms in self._state.tree.sessions.items():
            tracker.track(now, session_id, timeout_ms)
        rules, tree = self._config.tree, self._state.tree
        quotas = QuotaGuard(tree, self.counters.quota_refusals) if rules.enforce_quota else None
        self._state.proposer = Proposer(tree, tracker, self._config.auth, rules, quotas)
        self._state.proposer.local = self._local.sessions
        self._containers = ContainerCheck(now, self._config.tree, self._config.tick_time_ms)

    def prepare_all(
        self, now: Instant, requests: Sequence[ForwardedRequest], zxid: Zxid, origin: LinkId | None
    ) -> list[Txn]:
        """Convert requests that arrived together to transactions.

        The requests are checked against the latest proposed state.
        """
        assert self._state.proposer is not None, "prepare without start_leading"
        return self._state.proposer.prepare_all(now, requests, zxid, origin)

    def prepare_reconfig(
        self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None, ensemble: EnsembleView
    ) -> Txn:
        """Convert a change of the ensemble's membership to a transaction."""
        assert self._state.proposer is not None, "prepare without start_leading"
        return self._state.proposer.prepare_reconfig(now, request, zxid, origin, ensemble)

    def touch(self, now: Instant, session_id: SessionId, timeout_ms: int, by: PeerId) -> None:
        """Record, on a leader, that the learner `by` received a message of the session."""
        if self._state.proposer is not None:
            self._state.proposer.tracker.touch(now, session_id, timeout_ms, by)

    def revalidate(
        self, now: Instant, session_id: SessionId, timeout_ms: int, origin: LinkId | None, by: PeerId
    ) -> bool:
        """Return whether a session can continue on the learner `by`, and make that learner its owner.

        Called on a leader. `origin` is None for the leader itself.
        """
        assert self._state.proposer is not None, "revalidate without start_leading"
        tracker = self._state.proposer.tracker
        self.counters.revalidations += 1
        if not tracker.touch(now, session_id, timeout_ms, by):
            return False
        tracker.set_owner(session_id, owner_of(origin))
        return True

    def expire_sessions(self, now: Instant) -> list[Effect]:
        """Propose to close each overdue session, and to delete empty containers and znodes whose time to live has
        expired.

        Called on a leader every tick.
        """
        if self._state.proposer is None:
            return []
        effects: list[Effect] = []
        for overdue in self._state.proposer.tracker.expire(now):
            effects.append(Emit(SessionExpired(*overdue)))
            effects.append(Submit(ForwardedRequest(overdue.session_id, 0, OpCode.CLOSE_SESSION, b"")))
        if self._containers is not None and self._containers.period_ms == self._config.tick_time_ms:
            effects += self._deletions(now, self._containers)
        return effects

    def delete_lapsed(self, now: Instant) -> list[Effect]:
        """Propose to delete empty containers and znodes whose time to live has expired.

        Called on a leader every `znode.container.checkIntervalMs` if this interval is shorter than a tick. Otherwise
        `expire_sessions` does the same at every tick.
        """
        if self._containers is None:
            return []
        return [*self._deletions(now, self._containers), SetTimer(LAPSING_TIMER, self._containers.period_ms)]

    def _deletions(self, now: Instant, containers: ContainerCheck) -> list[Effect]:
        bodies = [PathRequest(path).encode() for path in containers.lapsed(now, self._state.tree)]
        return [Submit(ForwardedRequest(NO_SESSION, 0, OpCode.DELETE_CONTAINER, body)) for body in bodies]

    # -- accepting clients ---------------------------------------------------------------------------------------

    def start_serving(self, now: Instant, leading: bool) -> list[Effect]:
        """Accept clients from now on; a leader with leaderServes=no accepts none."""
        assert not leading or self._state.proposer is not None, "serving as leader without start_leading"
        if self._config.leader_serves or not leading:
            self._serve(now)
        if self._containers is None or self._containers.period_ms == self._config.tick_time_ms:
            return []
        return [SetTimer(LAPSING_TIMER, self._containers.period_ms)]

    def start_read_only(self, now: Instant) -> list[Effect]:
        """Accept clients for reads without a leader (ReadOnlyZooKeeperServer)."""
        assert not self._state.serving, "a peer that serves has a leader"
        self._state.read_only = True
        self._serve(now)
        return []

    def _serve(self, now: Instant) -> None:
        self._state.serving = True
        self._attachment.start(now)

    def expire_local_sessions(self, now: Instant) -> list[Effect]:
        """End overdue local sessions and close their connections. Called every tick while there are local sessions."""
        effects: list[Effect] = []
        local = self._local.sessions
        if local is not None:
            for session_id in local.expire(now):
                self.clients.close_session(session_id, effects)
            if len(local):
                effects.append(local.next_expiry(now))
        return effects

    def stop_serving(self, now: Instant) -> list[Effect]:
        """Close every client connection; drop outstanding requests, watches and session tracking."""
        state = self._state
        effects = self.clients.close_all()
        state.proposer = self._containers = None
        state.tree.foreseen = {}
        state.serving = state.read_only = False
        return effects

    def on_client_connected(
        self, now: Instant, connection: ConnectionId, identities: tuple[AuthId, ...] = ()
    ) -> list[Effect]:
        """Handle a new client connection; its first message must be a ConnectRequest."""
        client = self.clients.connections[connection] = Connection(connection, now.mono_ms)
        self._authentication.welcome(client, identities)
        return []

    def on_client(self, now: Instant, connection: ConnectionId, message: ClientMessage) -> list[Effect]:
        """Process a client's frame; drop it if the connection was closed before."""
        client = self.clients.connections.get(connection)
        if client is None:
            self.counters.stale_requests += 1
            return []
        effects: list[Effect] = []
        self.counters.packets_received += 1
        client.received += 1
        if not self._state.serving:
            self.counters.closed_without_service += 1
            self.clients.close(client, effects)
        elif isinstance(message, Frames):
            self._take_frames(now, client, message.frames, effects)
        elif isinstance(message, ConnectRequest):
            self._attachment.connect(now, client, message, effects)
        elif client.stage is Stage.ATTACHED:
            if not client.outstanding:
                client.unread_bytes = 0
            self._requests.request(now, client, message, effects)
        elif client.stage is Stage.ATTACHING and len(client.held) < OUTSTANDING_MAX:
            client.held.append(message)
        else:
            self.clients.close(client, effects)
        return effects

    def _take_frames(self, now: Instant, client: Connection, frames: list[bytes], effects: list[Effect]) -> None:
        more = len(frames) - 1
        if more:
            self.counters.packets_received += more
            client.received += more
        if client.stage is _ATTACHED:
            if not frames:
                self._answers.taken(now, client, effects)
                self._requests.resume(now, client, effects)
                return
            if not client.outstanding:
                client.unread_bytes = 0
            self._requests.frames(now, client, frames, effects)
        elif client.stage is Stage.ATTACHING and len(client.held) + len(frames) <= OUTSTANDING_MAX:
            client.held.extend(map(Request.decode, frames))
        else:
            self.clients.close(client, effects)

    def on_client_closed(self, now: Instant, connection: ConnectionId) -> list[Effect]:
        """Handle a closed connection; its session remains until it expires."""
        client = self.clients.connections.get(connection)
        if client is not None:
            self.clients.forget(client)
        return []

    def drain_touched(self) -> list[tuple[SessionId, int]]:
        """Return the sessions that were active since the last call. Called on a learner."""
        return self.clients.drain_touched()

    def revalidated(self, now: Instant, session_id: SessionId, valid: bool, proposed: Zxid) -> list[Effect]:
        """Process the leader's reply to a request to revalidate a session (AskRevalidate)."""
        return self._attachment.revalidated(now, session_id, valid, proposed)

    def sync_done(self, now: Instant, request: SyncRequest) -> list[Effect]:
        """Handle a completed sync (SubmitSync): this server has applied every transaction that it had to wait for."""
        return self._answers.sync_done(now, request)
