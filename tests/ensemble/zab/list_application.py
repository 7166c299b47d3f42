"""The simplest replicated service for tests of ZAB: a list, to which each write appends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import ConnectionId, Epoch, LinkId, PeerId, SessionId, Zxid, epoch_of
from zabka.ensemble.jute import Reader
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import ClientMessage, OpCode, ReconfigRequest, Reply, Request
from zabka.ensemble.tree.reconfig import new_membership
from zabka.ensemble.tree_snapshot import NodeImage, TreeSnapshot
from zabka.ensemble.txn import SetDataTxn, Txn
from zabka.ensemble.zab.application import EnsembleView, Submit, SubmitSync
from zabka.ensemble.zab.effects import (
    Answer,
    CloseConnection,
    Effect,
)
from zabka.ensemble.zab.messages import ForwardedRequest, SyncRequest
from zabka.journal.events import ZxidCheckpoint

Entry = tuple[int, bytes]


class ListApplication:
    """Replicated list. Each write appends (zxid, payload)."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.base = Zxid(0)
        self.serving = False
        self.leading: Epoch | None = None
        self.membership = ("", 0)
        self.refusals: list[ErrorCode] = []
        self.waiting: dict[tuple[int, int], tuple[ConnectionId, int]] = {}
        self.touched: list[tuple[SessionId, int]] = []
        self.closed: list[ConnectionId] = []
        self.touches: list[tuple[SessionId, int]] = []
        self.revalidations: list[tuple[SessionId, bool]] = []
        self.revalidated_after: list[Zxid] = []
        self.due: list[Effect] = []
        self.on_committed: Callable[[], None] = lambda: None

    @property
    def last_applied(self) -> Zxid:
        return Zxid(self.entries[-1][0]) if self.entries else self.base

    def snapshot(self) -> TreeSnapshot:
        nodes = [NodeImage(f"/{z:x}", data, (), z, z, 0, 0, 0, 0, 0, 0, z) for z, data in self.entries]
        return TreeSnapshot(self.last_applied, {}, nodes, len(nodes))

    @property
    def snapshot_bytes(self) -> int:
        """Return the total size of the payloads, in place of a snapshot's size."""
        return sum(len(data) for _, data in self.entries)

    def checkpoint(self) -> ZxidCheckpoint:
        return ZxidCheckpoint(self.last_applied, 0, len(self.entries), 0)

    def restore(self, snapshot: TreeSnapshot | None) -> None:
        self.entries = [(n.czxid, n.data or b"") for n in snapshot.nodes] if snapshot else []
        self.base = snapshot.zxid if snapshot else Zxid(0)

    def apply(self, now: Instant, txns: Sequence[Txn]) -> list[Effect]:
        return [effect for txn in txns for effect in self._apply(txn)]

    def _apply(self, txn: Txn) -> list[Effect]:
        assert txn.zxid > self.last_applied
        assert isinstance(txn.body, SetDataTxn)
        self.entries.append((txn.zxid, txn.body.data or b""))
        if not self.serving:
            return []
        self.on_committed()
        waiting = self.waiting.pop((txn.session_id, txn.cxid), None)
        if waiting is None:
            return []
        return [Answer(waiting[0], Reply(waiting[1], txn.zxid, 0))]

    def describe_membership(self, now: Instant, text: str, version: int) -> None:
        self.membership = (text, version)

    def start_leading(self, now: Instant, epoch: Epoch) -> None:
        self.leading = epoch

    def prepare(self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None) -> Txn:
        assert self.leading == epoch_of(zxid)
        body = SetDataTxn("/", request.body, 0)
        return Txn(request.session_id, request.cxid, zxid, now.wall_ms, OpCode.SET_DATA, body)

    def prepare_all(
        self, now: Instant, requests: Sequence[ForwardedRequest], zxid: Zxid, origin: LinkId | None
    ) -> list[Txn]:
        return [self.prepare(now, request, Zxid(zxid + i), origin) for i, request in enumerate(requests)]

    def prepare_reconfig(
        self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None, ensemble: EnsembleView
    ) -> Txn:
        """Return the transaction for a reconfig request, without checking permissions."""
        requested = ReconfigRequest.read_from(Reader(request.body))
        membership = new_membership(requested, zxid, ensemble) if ensemble.enabled else ErrorCode.RECONFIG_DISABLED
        if isinstance(membership, ErrorCode):
            self.refusals.append(membership)
            return self.prepare(now, request, zxid, origin)
        body = SetDataTxn("/zookeeper/config", membership.text.encode(), -1)
        return Txn(request.session_id, request.cxid, zxid, now.wall_ms, OpCode.RECONFIG, body)

    def touch(self, now: Instant, session_id: SessionId, timeout_ms: int, by: PeerId) -> None:
        self.touches.append((session_id, timeout_ms))

    def revalidate(
        self, now: Instant, session_id: SessionId, timeout_ms: int, origin: LinkId | None, by: PeerId
    ) -> bool:
        return session_id > 0

    def expire_sessions(self, now: Instant) -> list[Effect]:
        due, self.due = self.due, []
        return due

    def start_serving(self, now: Instant, leading: bool) -> list[Effect]:
        assert not self.serving and leading == (self.leading is not None)
        self.serving = True
        self.on_committed()
        return []

    def stop_serving(self, now: Instant) -> list[Effect]:
        assert self.serving
        self.serving = False
        self.leading = None
        closed = dict.fromkeys(connection for connection, _ in self.waiting.values())
        self.waiting.clear()
        return [CloseConnection(connection) for connection in closed]

    def on_client_connected(self, now: Instant, connection: ConnectionId, identities=()) -> list[Effect]:
        return []

    def on_client(self, now: Instant, connection: ConnectionId, message: ClientMessage) -> list[Effect]:
        assert isinstance(message, Request)
        if not self.serving:
            return [CloseConnection(connection)]
        session = SessionId(connection)
        self.waiting[session, message.xid] = (connection, message.xid)
        if message.op == OpCode.SYNC:
            return [SubmitSync(SyncRequest(session, message.xid, "/"))]
        body = b"%d.%d" % (connection, message.xid)
        if isinstance(message.body, ReconfigRequest):
            body = message.body.encode()
        return [Submit(ForwardedRequest(session, message.xid, message.op, body))]

    def on_client_closed(self, now: Instant, connection: ConnectionId) -> list[Effect]:
        self.closed.append(connection)
        return []

    def drain_touched(self) -> list[tuple[SessionId, int]]:
        touched, self.touched = self.touched, []
        return touched

    def revalidated(self, now: Instant, session_id: SessionId, valid: bool, proposed: Zxid) -> list[Effect]:
        self.revalidations.append((session_id, valid))
        self.revalidated_after.append(proposed)
        return []

    def sync_done(self, now: Instant, request: SyncRequest) -> list[Effect]:
        waiting = self.waiting.pop((request.session_id, request.cxid))
        return [Answer(waiting[0], Reply(waiting[1], self.last_applied, 0))]
