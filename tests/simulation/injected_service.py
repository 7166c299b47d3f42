"""Injected bugs of sessions, snapshots and the read-only mode. Each has a script of the outage library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import msgspec

from tests.simulation import injected_ensemble
from tests.simulation.injecting import broken
from zabka.ensemble.client.session import Session
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import Epoch, SessionId, Zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import OPEN_ACL
from zabka.ensemble.tree.attachment import Attachment
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.local_requests import LocalRequests
from zabka.ensemble.tree.outcomes import Applied
from zabka.ensemble.tree.proposer import Proposer
from zabka.ensemble.tree.service import Service
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import CloseSessionTxn, CreateSessionTxn
from zabka.ensemble.zab.application import Submit
from zabka.ensemble.zab.messages import ForwardedRequest
from zabka.ensemble.zab.peer import Peer

# -- sessions


@contextmanager
def closes_delete_nothing() -> Iterator[None]:
    """Injected bug: when a session ends, no ephemeral is listed or deleted, so that all trees are equally wrong."""

    def propose(self: Proposer, request: Any) -> CloseSessionTxn:
        self.tracker.close(self._session_id)
        return CloseSessionTxn([])

    def close(self: DataTree, txn: Any, kind: int, body: Any, with_stats: bool) -> Applied:
        self.sessions.pop(txn.session_id, None)
        return Applied(kind, ErrorCode.OK, "")

    with broken(Proposer, _close_session=propose), broken(DataTree, _close_session=close):
        yield


@contextmanager
def a_new_leader_tracks_no_session() -> Iterator[None]:
    """Injected bug: sessions that exist when a leader is elected never expire (ZOOKEEPER-1367)."""
    start_leading = Service.start_leading

    def forgetful(self: Service, now: Instant, epoch: Epoch) -> None:
        sessions, self._state.tree.sessions = self._state.tree.sessions, {}
        start_leading(self, now, epoch)
        self._state.tree.sessions = sessions

    with broken(Service, start_leading=forgetful):
        yield


@contextmanager
def who_returns_gets_another_session() -> Iterator[None]:
    """Injected bug: a client that reconnects after its session expired gets a new session without an error (Keeper
    116690).
    """
    revalidated = Attachment.revalidated

    def obliging(self: Attachment, now: Instant, session_id: SessionId, valid: bool, proposed: Zxid) -> Any:
        client = self._clients.attaching.get(session_id)
        if valid or client is None:
            return revalidated(self, now, session_id, valid, proposed)
        client.creates = True
        body = CreateSessionTxn(client.timeout_ms).encode()
        return [Submit(ForwardedRequest(session_id, 0, -10, body))]

    with broken(Attachment, revalidated=obliging):
        yield


@contextmanager
def a_frozen_leader_thaws_and_answers() -> Iterator[None]:
    """Injected bug: a leader that was frozen replies to a sync without contacting a quorum (ZOOKEEPER-1675).

    It does not check for how long it was frozen.
    """
    with ExitStack() as both:
        both.enter_context(injected_ensemble.a_leader_never_steps_down())
        both.enter_context(injected_ensemble.sync_answered_by_the_leader_alone())
        yield


# -- snapshots


@contextmanager
def snapshots_know_no_sessions() -> Iterator[None]:
    """Injected bug: a snapshot contains no sessions, so a server that loads it does not know them (ZOOKEEPER-3144)."""
    to_snapshot = DataTree.to_snapshot

    def mixed(self: DataTree) -> TreeSnapshot:
        return msgspec.structs.replace(to_snapshot(self), sessions={})

    with broken(DataTree, to_snapshot=mixed):
        yield


@contextmanager
def snapshots_come_between_the_parts_of_a_multi() -> Iterator[None]:
    """Injected bug: a snapshot contains only the first znode that its last transaction, a multi, created
    (ZOOKEEPER-3127).
    """
    load = DataTree.from_snapshot.__func__  # type: ignore[attr-defined]

    def half(cls: Any, snapshot: TreeSnapshot) -> DataTree:
        nodes = list(snapshot.nodes)
        newest = [image.path for image in nodes if image.czxid == snapshot.zxid]
        kept = [image for image in nodes if image.path not in newest[1:]]
        tree: DataTree = load(cls, msgspec.structs.replace(snapshot, nodes=kept))
        return tree

    with broken(DataTree, from_snapshot=classmethod(half)):
        yield


@contextmanager
def snapshots_have_no_access_lists() -> Iterator[None]:
    """Injected bug: in a tree loaded from a snapshot, all znodes have the open ACL (ZOOKEEPER-4846)."""
    load = DataTree.from_snapshot.__func__  # type: ignore[attr-defined]

    def open_to_all(cls: Any, snapshot: TreeSnapshot) -> DataTree:
        nodes = [msgspec.structs.replace(image, acl=OPEN_ACL) for image in snapshot.nodes]
        tree: DataTree = load(cls, msgspec.structs.replace(snapshot, nodes=nodes))
        return tree

    with broken(DataTree, from_snapshot=classmethod(open_to_all)):
        yield


# -- read-only mode


@contextmanager
def sessions_are_global() -> Iterator[None]:
    """Injected bug: a read-only server stores its local sessions as global ones."""
    connect = Attachment._connect_alone

    def leaky(self: Attachment, now: Any, client: Any, request: Any, effects: Any) -> bool:
        alone = connect(self, now, client, request, effects)
        if alone and self._state.read_only and client.session_id:
            self._state.tree.sessions[client.session_id] = client.timeout_ms
        return alone

    with broken(Attachment, _connect_alone=leaky):
        yield


@contextmanager
def global_sessions_go_on_alone() -> Iterator[None]:
    """Injected bug: a read-only server treats a global session as its own local session."""
    connect = Attachment._connect_alone

    def hospitable(self: Attachment, now: Any, client: Any, request: Any, effects: Any) -> bool:
        session_id = SessionId(request.session_id)
        if not self._state.read_only or session_id not in self._state.tree.sessions:
            return connect(self, now, client, request, effects)
        client.session_id = session_id
        assert self._local.sessions is not None
        self._local.open(now, self._local.sessions, client, effects)
        client.alone = True
        self.attach(now, client, True, effects)
        return True

    with broken(Attachment, _connect_alone=hospitable):
        yield


@contextmanager
def writes_are_answered() -> Iterator[None]:
    """Injected bug: a read-only server rejects a write with another error than NotReadOnly."""
    stays = LocalRequests.stays_here

    def obliging(self: LocalRequests, now: Any, waiting: Any, request: Any, effects: Any) -> bool:
        here = stays(self, now, waiting, request, effects)
        if waiting.problem is ErrorCode.NOT_READ_ONLY:
            waiting.problem = ErrorCode.NODE_EXISTS
        return here

    with broken(LocalRequests, stays_here=obliging):
        yield


@contextmanager
def service_never_ends() -> Iterator[None]:
    """Injected bug: a server stays read-only, because it is not notified when an election ends."""
    with broken(Peer, _end_read_only=lambda self: None):
        yield


@contextmanager
def clients_take_local_sessions_elsewhere() -> Iterator[None]:
    """Injected bug: a client tries to continue a read-only server's local session at a server with a leader."""
    establish = Session._establish

    def hopeful(self: Session) -> None:
        establish(self)
        self._resumable = True

    with broken(Session, _establish=hopeful):
        yield


INJECTED: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "closes delete nothing": closes_delete_nothing,
    "a new leader tracks nobody": a_new_leader_tracks_no_session,
    "who returns gets another session": who_returns_gets_another_session,
    "a frozen leader thaws and answers": a_frozen_leader_thaws_and_answers,
    "snapshots know no sessions": snapshots_know_no_sessions,
    "snapshots come between the parts of a multi": snapshots_come_between_the_parts_of_a_multi,
    "snapshots have no access lists": snapshots_have_no_access_lists,
    "sessions of a read-only server are global": sessions_are_global,
    "global sessions go on alone": global_sessions_go_on_alone,
    "a read-only server answers writes": writes_are_answered,
    "read-only service never ends": service_never_ends,
    "local sessions are taken elsewhere": clients_take_local_sessions_elsewhere,
}
"""Injected bugs, keyed by name. For each bug, `tests.simulation.scenarios.pairs` has a script that shows it."""
