"""The coordination service of one peer: client connections, sessions, requests, watches, over the replicated tree.

`Service` implements `ensemble.zab.application.Application`: the state, leading, and clients that come and go
(ZooKeeperServer, LeaderZooKeeperServer).  What attached clients ask is in `requests`, what others read in `statistics`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ensemble.auth.schemes import AuthId
from ensemble.ids import ConnectionId, Epoch, LinkId, PeerId, SessionId, Zxid
from ensemble.ports import Instant
from ensemble.records import (
    NOTIFICATION_XID,
    ClientMessage,
    ConnectRequest,
    ConnectResponse,
    Frames,
    KeeperState,
    OpCode,
    PathRequest,
    Permission,
    Reply,
    Request,
    WatcherEvent,
)
from ensemble.tree.acl import allows
from ensemble.tree.authentication import KEY_PATH, Authentication, EnsembleCounts
from ensemble.tree.connections import Connection, OpenSession, Stage
from ensemble.tree.containers import ContainerCheck
from ensemble.tree.datatree import DIGEST_MASK, Applied, DataTree
from ensemble.tree.facts import committed_facts, committed_plain_fact, session_fact
from ensemble.tree.local_sessions import LocalSessions
from ensemble.tree.proposer import Proposer
from ensemble.tree.requests import OUTSTANDING_MAX, AnswerRun, RequestQueues
from ensemble.tree.sessions import NO_PASSWORD, NO_SESSION, SessionIds, SessionTracker, owner_of, password_of
from ensemble.tree.statistics import DIGESTS_EVERY, WATCH_EVENT_BYTES
from ensemble.tree.watches import Watches
from ensemble.tree_snapshot import TreeSnapshot
from ensemble.txn import CreateSessionTxn, Txn
from ensemble.zab.application import AskRevalidate, EnsembleConfig, EnsembleView, Submit
from ensemble.zab.effects import Answer, CloseConnection, Effect, Emit
from ensemble.zab.messages import ForwardedRequest
from journal.events import InvariantViolated, QuotaExceeded, SessionExpired

_MIN_TIMEOUT_TICKS = 2
_MAX_TIMEOUT_TICKS = 20
_READ = int(Permission.READ)
_SYNC_CONNECTED = int(KeeperState.SYNC_CONNECTED)
_ATTACHED = Stage.ATTACHED
"""By itself: to look up a member of an enumeration costs as much as a call."""


class Service(RequestQueues):
    """One peer's service.  See `Application` for what each method is for.  `new_nonce` (unpredictable) is for SASL."""

    def __init__(self, config: EnsembleConfig, new_nonce: Callable[[], str] | None = None) -> None:
        self._config = config
        self._authentication = Authentication(config.auth, new_nonce, lambda: self._tree.nodes.get(KEY_PATH))
        tick_ms = config.tick_time_ms
        minimum, maximum = config.min_session_timeout_ms, config.max_session_timeout_ms
        self._timeout_min_ms = minimum if minimum != -1 else _MIN_TIMEOUT_TICKS * tick_ms
        self._timeout_max_ms = maximum if maximum != -1 else _MAX_TIMEOUT_TICKS * tick_ms
        self._tree = DataTree()
        self._watches = Watches()
        self._session_ids = SessionIds(PeerId(config.my_id))
        self._serving = False
        self._proposer: Proposer | None = None
        self._containers: ContainerCheck | None = None
        self._connections: dict[ConnectionId, Connection] = {}
        self._sessions: dict[SessionId, OpenSession] = {}
        self._attaching: dict[SessionId, Connection] = {}
        self._touched: dict[SessionId, int] = {}
        self._read_only = False
        self._local: LocalSessions | None = None
        if config.local_sessions:
            my_id = PeerId(config.my_id)
            self._local = LocalSessions(my_id, tick_ms, upgrading=config.local_sessions_upgrading)
        self._reset_counters()

    @property
    def ensemble_auth(self) -> EnsembleCounts:
        """Clients that named the ensemble they look for."""
        return self._authentication.of_ensemble

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def last_applied(self) -> Zxid:
        """The zxid of the last applied transaction (or of the restored snapshot)."""
        return self._tree.last_zxid

    def snapshot(self) -> TreeSnapshot:
        """The state as of `last_applied`, unaffected by what follows."""
        return self._tree.to_snapshot()

    def restore(self, snapshot: TreeSnapshot | None) -> None:
        """Replace the state; None means empty.  ValueError where the snapshot is damaged."""
        assert not self._serving, "the tree is replaced while clients read it"
        self._tree = DataTree() if snapshot is None else DataTree.from_snapshot(snapshot)
        self.digests.clear()

    def apply(self, now: Instant, txns: Sequence[Txn]) -> list[Effect]:
        """Apply the next transactions; for each fire watches, then answer the local client it came from."""
        effects: list[Effect] = []
        tree, sessions, full_journal = self._tree, self._sessions, self._config.full_journal
        run = AnswerRun()
        for txn in txns:
            if run.rewatch:
                watched = any(self._watches.watched)
                run.rewatch = False
            node = None if watched else tree.apply_plain(txn)
            if node is None:
                self._answer_run(now, run, effects)
                self._apply(now, txn, effects)
                run.rewatch = True
                continue
            if txn.digest is not None and txn.digest != tree.digest_sum & DIGEST_MASK:
                self._digest_differs(txn, effects)
            if not txn.zxid % DIGESTS_EVERY:
                self.digests.append((txn.zxid, tree.digest))
            if full_journal:
                effects.append(Emit(committed_plain_fact(txn, tree)))
            session = sessions.get(txn.session_id)
            if session is not None and not self._joins_run(now, session, txn, node, run, effects):
                self._answer_run(now, run, effects)
                self._commit(now, session, txn, Applied(txn.type, 0, getattr(txn.body, "path", ""), node), effects)
                run.rewatch = True
        if run.answered:
            self._answer_run(now, run, effects)
        if self._proposer is not None:
            self._proposer.applied(txns[-1].zxid)
        if self._serving:
            self._count_applied(now, txns)
        return effects

    def _apply(self, now: Instant, txn: Txn, effects: list[Effect]) -> None:
        tree = self._tree
        is_new = txn.zxid > tree.last_zxid
        session = self._sessions.get(txn.session_id)
        applied = tree.apply(txn, session is not None)
        if txn.digest is not None and is_new and txn.digest != tree.digest:
            self._digest_differs(txn, effects)
        if not txn.zxid % DIGESTS_EVERY:
            self.digests.append((txn.zxid, tree.digest))
        if tree.changes and any(self._watches.watched):
            self._fire_watches(txn.zxid, effects)
        if tree.quotas.passed:
            self._quotas_passed(effects)
        if self._config.full_journal:
            effects.extend(Emit(fact) for fact in committed_facts(txn, tree, applied))
        if txn.type < 0 and txn.type != OpCode.ERROR:
            self._session_changed(now, txn, session, effects)
        elif session is not None:
            self._commit(now, session, txn, applied, effects)

    def _digest_differs(self, txn: Txn, effects: list[Effect]) -> None:
        """Like ZooKeeper, count it and go on; the journal hears of the first one."""
        self.digest_mismatches += 1
        if self.digest_mismatches == 1 and self._serving:
            detail = f"zxid 0x{txn.zxid:x}: 0x{txn.digest:x} proposed, 0x{self._tree.digest:x} applied"
            effects.append(Emit(InvariantViolated("tree digest agrees with the leader's", detail)))

    def _quotas_passed(self, effects: list[Effect]) -> None:
        """The leader warns of quotas that are used up, soft or hard; the others only take note."""
        passed, self._tree.quotas.passed = self._tree.quotas.passed, []
        if self._proposer is not None:
            for quota in passed:
                limits = quota.limits
                event = QuotaExceeded(quota.path, quota.count, limits.count_max, quota.bytes, limits.bytes_max)
                effects.append(Emit(event))

    def _fire_watches(self, zxid: Zxid, effects: list[Effect]) -> None:
        for change in self._tree.changes:
            for fired in self._watches.fire(change):
                acl = change.parent_acl if fired.of_parent else change.acl
                event = WatcherEvent(int(fired.event), _SYNC_CONNECTED, fired.path)
                self.watches_fired[fired.event].add(len(fired.connections))
                self.watch_bytes += len(fired.connections) * (
                    WATCH_EVENT_BYTES + len(fired.path.encode("utf-8", "surrogatepass"))
                )
                reply = Reply(NOTIFICATION_XID, zxid, 0, event)
                for watcher in fired.connections:
                    connection = self._connections[watcher]
                    if allows(acl or (), _READ, connection.rights):
                        self.packets_sent += 1
                        effects.append(Answer(watcher, reply))

    def _session_changed(self, now: Instant, txn: Txn, session: OpenSession | None, effects: list[Effect]) -> None:
        """A createSession or closeSession was applied."""
        fact = session_fact(txn, self._tree)
        if fact is not None:
            effects.append(Emit(fact))
        tracker = self._proposer.tracker if self._proposer is not None else None
        if txn.type == OpCode.CREATE_SESSION:
            if tracker is not None and txn.session_id not in tracker:
                tracker.track(now, txn.session_id, self._tree.sessions[txn.session_id])
            connection = self._attaching.get(txn.session_id)
            if connection is not None and connection.creates:
                del self._attaching[txn.session_id]
                self._attached(now, connection, True, effects)
            return
        if tracker is not None:
            tracker.remove(txn.session_id)
        self._touched.pop(txn.session_id, None)
        if session is not None:
            self._session_closed(now, session, txn, effects)

    def describe_membership(self, now: Instant, text: str, version: int) -> None:
        """Show which membership is in force."""
        if text:
            self._tree.describe_membership(text.encode(), version, now.wall_ms)

    # -- leading -------------------------------------------------------------------------------------------------

    def start_leading(self, now: Instant, epoch: Epoch) -> None:
        """Track every session with its full timeout; from now on `prepare_all` is called."""
        tracker = SessionTracker(self._config.tick_time_ms, now)
        for session_id, timeout_ms in self._tree.sessions.items():
            tracker.track(now, session_id, timeout_ms)
        self._proposer = Proposer(self._tree, tracker, self._config.auth, self._config.tree)
        self._proposer.local = self._local
        self._containers = ContainerCheck(now, self._config.tree, self._config.tick_time_ms)

    def prepare_all(
        self, now: Instant, requests: Sequence[ForwardedRequest], zxid: Zxid, origin: LinkId | None
    ) -> list[Txn]:
        """Turn requests that came together into transactions against the latest proposed state."""
        assert self._proposer is not None, "prepare without start_leading"
        return self._proposer.prepare_all(now, requests, zxid, origin)

    def prepare_reconfig(
        self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None, ensemble: EnsembleView
    ) -> Txn:
        """The same for a change of the ensemble's membership."""
        assert self._proposer is not None, "prepare without start_leading"
        return self._proposer.prepare_reconfig(now, request, zxid, origin, ensemble)

    def touch(self, now: Instant, session_id: SessionId, timeout_ms: int) -> None:
        """Leader: a learner heard from that session."""
        if self._proposer is not None:
            self._proposer.tracker.touch(now, session_id, timeout_ms)

    def revalidate(self, now: Instant, session_id: SessionId, timeout_ms: int, origin: LinkId | None) -> bool:
        """Leader: may the session go on at that learner (None: here)?  If so, it is owned there now."""
        assert self._proposer is not None, "revalidate without start_leading"
        tracker = self._proposer.tracker
        self.revalidations += 1
        if not tracker.touch(now, session_id, timeout_ms):
            return False
        tracker.set_owner(session_id, owner_of(origin))
        return True

    def expire_sessions(self, now: Instant) -> list[Effect]:
        """Leader, every tick: close each session that is overdue, delete containers and nodes that had their time."""
        if self._proposer is None:
            return []
        effects: list[Effect] = []
        for session_id, timeout_ms in self._proposer.tracker.expire(now):
            effects.append(Emit(SessionExpired(session_id, timeout_ms)))
            effects.append(Submit(ForwardedRequest(session_id, 0, OpCode.CLOSE_SESSION, b"")))
        if self._containers is not None:
            for path in self._containers.lapsed(now, self._tree):
                body = PathRequest(path).encode()
                effects.append(Submit(ForwardedRequest(NO_SESSION, 0, OpCode.DELETE_CONTAINER, body)))
        return effects

    # -- serving clients -----------------------------------------------------------------------------------------

    def start_serving(self, now: Instant, leading: bool) -> list[Effect]:
        """Accept clients from now on."""
        assert not leading or self._proposer is not None, "serving as leader without start_leading"
        self._serve(now)
        return []

    def start_read_only(self, now: Instant) -> list[Effect]:
        """Answer reads, with no leader (ReadOnlyZooKeeperServer)."""
        assert not self._serving, "a peer that serves has a leader"
        self._read_only = True
        self._serve(now)
        return []

    def _serve(self, now: Instant) -> None:
        self._serving = True
        self._session_ids.start(now)
        if self._local is not None:
            self._local.start(now)

    def expire_local_sessions(self, now: Instant) -> list[Effect]:
        """Every tick while there are local sessions: those that are overdue end, and their connections."""
        effects: list[Effect] = []
        if self._local is not None:
            for session_id in self._local.expire(now):
                session = self._sessions.get(session_id)
                if session is not None and session.connection is not None:
                    self._close(session.connection, effects)
            if len(self._local):
                effects.append(self._local.next_expiry(now))
        return effects

    def stop_serving(self, now: Instant) -> list[Effect]:
        """Close every client connection, drop outstanding requests, forget watches and session tracking."""
        effects: list[Effect] = [CloseConnection(connection) for connection in self._connections]
        for connection in self._connections.values():
            connection.stage = Stage.CLOSED
        self._connections.clear()
        self._sessions.clear()
        self._attaching.clear()
        self._touched.clear()
        self._watches.clear()
        self._proposer = self._containers = None
        self._tree.foreseen = {}
        self._serving = self._read_only = False
        return effects

    def on_client_connected(
        self, now: Instant, connection: ConnectionId, identities: tuple[AuthId, ...] = ()
    ) -> list[Effect]:
        """A client opened a connection; it must say who it is first."""
        client = self._connections[connection] = Connection(connection, now.mono_ms)
        self._authentication.welcome(client, identities)
        return []

    def on_client(self, now: Instant, connection: ConnectionId, message: ClientMessage) -> list[Effect]:
        """A frame from a client; frames of connections that were closed meanwhile are dropped."""
        client = self._connections.get(connection)
        if client is None:
            self.stale_requests += 1
            return []
        effects: list[Effect] = []
        self.packets_received += 1
        client.received += 1
        if not self._serving:
            self.closed_without_service += 1
            self._close(client, effects)
        elif isinstance(message, Frames):
            self._take_frames(now, client, message.frames, effects)
        elif isinstance(message, ConnectRequest):
            self._connect(now, client, message, effects)
        elif client.stage is Stage.ATTACHED:
            self._request(now, client, message, effects)
        elif client.stage is Stage.ATTACHING and len(client.held) < OUTSTANDING_MAX:
            client.held.append(message)
        else:
            self._close(client, effects)
        return effects

    def _take_frames(self, now: Instant, client: Connection, frames: list[bytes], effects: list[Effect]) -> None:
        more = len(frames) - 1
        if more:
            self.packets_received += more
            client.received += more
        if client.stage is _ATTACHED:
            self._frames(now, client, frames, effects)
        elif client.stage is Stage.ATTACHING and len(client.held) + len(frames) <= OUTSTANDING_MAX:
            client.held.extend(map(Request.decode, frames))
        else:
            self._close(client, effects)

    def on_client_closed(self, now: Instant, connection: ConnectionId) -> list[Effect]:
        """The connection is gone; its session lives on until it expires."""
        client = self._connections.get(connection)
        if client is not None:
            self._forget(client)
        return []

    def drain_touched(self) -> list[tuple[SessionId, int]]:
        """Learner: sessions heard from since the last call."""
        touched = list(self._touched.items())
        self._touched.clear()
        return touched

    # -- connections ---------------------------------------------------------------------------------------------

    def _connect(self, now: Instant, client: Connection, request: ConnectRequest, effects: list[Effect]) -> None:
        """A ConnectRequest (ZooKeeperServer.processConnectRequest)."""
        # A client that has seen the future must find a server that knows it; this one does not even answer.
        refused = client.stage is not Stage.OPEN or request.last_zxid_seen > self._tree.last_zxid
        if refused or (self._read_only and not request.read_only):
            self._close(client, effects)
            return
        client.knows_read_only = request.read_only is not None
        client.timeout_ms = min(max(request.timeout_ms, self._timeout_min_ms), self._timeout_max_ms)
        if self._connect_alone(now, client, request, effects):
            return
        if request.session_id == 0:
            session_id = self._session_ids.next()
            client.creates = True
            self._start_attaching(client, session_id)
            body = CreateSessionTxn(client.timeout_ms).encode()
            effects.append(Submit(ForwardedRequest(session_id, 0, OpCode.CREATE_SESSION, body)))
            return
        session_id = SessionId(request.session_id)
        if request.password != password_of(session_id):
            self._attached(now, client, False, effects)
            return
        self._close_others(session_id, effects)
        self._start_attaching(client, session_id)
        effects.append(AskRevalidate(session_id, client.timeout_ms))

    def _connect_alone(self, now: Instant, client: Connection, request: ConnectRequest, effects: list[Effect]) -> bool:
        """A ConnectRequest that needs no leader; False where it is another one."""
        local, session_id = self._local, SessionId(request.session_id)
        if session_id == 0 and local is not None:
            client.session_id = self._session_ids.next()
            self._open_local(now, local, client, effects)
            valid = True
        elif self._read_only and (session_id == 0 or session_id in self._tree.sessions):
            # Whether a global session lives on, and a new one with it, only a leader can say; ask for one elsewhere.
            self._close(client, effects)
            return True
        elif self._read_only or (local is not None and session_id in local):
            client.session_id = session_id
            valid = request.password == password_of(session_id) and self._touch_alone(now, client)
            if valid:
                self._close_others(session_id, effects)
        else:
            return False
        client.alone = True
        self._attached(now, client, valid, effects)
        return True

    def _start_attaching(self, client: Connection, session_id: SessionId) -> None:
        client.stage = Stage.ATTACHING
        client.session_id = session_id
        self._attaching[session_id] = client

    def _close_others(self, session_id: SessionId, effects: list[Effect]) -> None:
        """A session has one connection: an older one to this server goes."""
        session = self._sessions.get(session_id)
        for older in (self._attaching.get(session_id), session.connection if session is not None else None):
            if older is not None:
                self._close(older, effects)

    def revalidated(self, now: Instant, session_id: SessionId, valid: bool) -> list[Effect]:
        """The leader's answer to AskRevalidate."""
        effects: list[Effect] = []
        connection = self._attaching.pop(session_id, None)
        if connection is not None:
            self._attached(now, connection, valid, effects)
        return effects

    def _attached(self, now: Instant, client: Connection, valid: bool, effects: list[Effect]) -> None:
        """Answer a ConnectRequest (finishSessionInit); a session that is gone is told so and disconnected."""
        self.packets_sent += 1
        read_only = self._read_only if client.knows_read_only else None
        if not valid:
            effects.append(Answer(client.id, ConnectResponse(0, 0, 0, NO_PASSWORD, read_only)))
            self._close(client, effects)
            return
        session_id = client.session_id
        client.stage = Stage.ATTACHED
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = OpenSession(session_id)
        session.connection = client
        client.sent += 1
        response = ConnectResponse(0, client.timeout_ms, session_id, password_of(session_id), read_only)
        effects.append(Answer(client.id, response))
        self._touch(now, client)
        held, client.held = client.held, []
        for request in held:
            if client.stage is Stage.ATTACHED:
                self._request(now, client, request, effects)
