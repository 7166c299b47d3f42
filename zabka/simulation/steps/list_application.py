"""The simplest replicated application: a list of payloads, one per transaction.

Searches of the bare protocol use it instead of the znode tree, because its state is the sequence that ZAB replicates,
and its digest depends on the whole sequence so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from zabka.ensemble.auth.schemes import AuthId
from zabka.ensemble.ids import ConnectionId, Epoch, LinkId, PeerId, SessionId, Zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import ClientMessage, OpCode, Reply, Request
from zabka.ensemble.tree_snapshot import NodeImage, TreeSnapshot
from zabka.ensemble.txn import SetDataTxn, Txn
from zabka.ensemble.zab.application import EnsembleView, Submit, SubmitSync
from zabka.ensemble.zab.effects import Answer, CloseConnection, Effect, Emit
from zabka.ensemble.zab.messages import ForwardedRequest, SyncRequest
from zabka.journal.events import TxnCommitted, WriteAcknowledged, ZxidCheckpoint


class ListApplication:
    """Implements `zabka.ensemble.zab.application.Application` as a list. Every connection is a separate session."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, bytes]] = []
        self.base = Zxid(0)
        self.digest = 0
        self.serving = False
        self.leading: Epoch | None = None
        self.waiting: dict[tuple[int, int], ConnectionId] = {}

    # -- state -------------------------------------------------------------------------------------------------------

    @property
    def last_applied(self) -> Zxid:
        """Return the zxid of the newest entry, or the zxid of the restored snapshot if there is no entry after it."""
        return Zxid(self.entries[-1][0]) if self.entries else self.base

    def snapshot(self) -> TreeSnapshot:
        """Return a snapshot of the list with one znode per entry."""
        nodes = [
            NodeImage(
                path=f"/{zxid:x}",
                data=data,
                acl=(),
                czxid=zxid,
                mzxid=zxid,
                ctime=0,
                mtime=0,
                version=0,
                cversion=0,
                aversion=0,
                ephemeral_owner=0,
                pzxid=zxid,
            )
            for zxid, data in self.entries
        ]
        return TreeSnapshot(self.last_applied, {}, nodes, self.digest)

    @property
    def snapshot_bytes(self) -> int:
        """Return the total size of the entries."""
        return sum(len(data) for _, data in self.entries)

    def checkpoint(self) -> ZxidCheckpoint:
        """Return a journal checkpoint of the list: its last zxid and its digest."""
        return ZxidCheckpoint(self.last_applied, self.digest, len(self.entries), 0)

    def restore(self, snapshot: TreeSnapshot | None) -> None:
        """Replace the list by the content of a snapshot."""
        self.entries = [(n.czxid, n.data or b"") for n in snapshot.nodes] if snapshot else []
        self.base = snapshot.zxid if snapshot else Zxid(0)
        self.digest = 0
        for zxid, data in self.entries:
            self._digest(zxid, data)

    def _digest(self, zxid: int, data: bytes) -> None:
        self.digest = self.digest_after(self.digest, zxid, data)

    @staticmethod
    def digest_after(digest: int, zxid: int, data: bytes) -> int:
        """Return the digest of a list after one more entry; `digest` is the digest before it."""
        return crc32(b"%x %s" % (zxid, data), digest)

    def apply(self, now: Instant, txns: Sequence[Txn]) -> list[Effect]:
        """Append the transactions as entries, and reply to those clients of this peer that wait for them."""
        return [effect for txn in txns for effect in self._apply(txn)]

    def _apply(self, txn: Txn) -> list[Effect]:
        assert isinstance(txn.body, SetDataTxn)
        data = txn.body.data or b""
        self.entries.append((txn.zxid, data))
        self._digest(txn.zxid, data)
        session, cxid = txn.session_id, txn.cxid
        committed = TxnCommitted(
            zxid=txn.zxid,
            session_id=session,
            cxid=cxid,
            operation="setData",
            path="/",
            error=0,
            digest=self.digest,
        )
        effects: list[Effect] = [Emit(committed)]
        connection = self.waiting.pop((session, cxid), None)
        if connection is not None:
            effects.append(Emit(WriteAcknowledged(session, cxid, txn.zxid, "setData", "/")))
            effects.append(Answer(connection, Reply(cxid, txn.zxid, 0)))
        return effects

    # -- calls on the leader -----------------------------------------------------------------------------------------

    def start_leading(self, now: Instant, epoch: Epoch) -> None:
        """Do nothing, because the list has no sessions."""
        self.leading = epoch

    def prepare(self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None) -> Txn:
        """Turn a request into a transaction that appends its payload."""
        body = SetDataTxn("/", request.body, 0)
        return Txn(request.session_id, request.cxid, zxid, 0, OpCode.SET_DATA, body)

    def prepare_all(
        self, now: Instant, requests: Sequence[ForwardedRequest], zxid: Zxid, origin: LinkId | None
    ) -> list[Txn]:
        """Turn each request into a transaction, independently of the others."""
        return [self.prepare(now, request, Zxid(zxid + i), origin) for i, request in enumerate(requests)]

    def prepare_reconfig(
        self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None, ensemble: EnsembleView
    ) -> Txn:
        """Raise AssertionError, because the membership of the ensemble never changes here."""
        raise AssertionError("nobody reconfigures a list")

    def describe_membership(self, now: Instant, text: str, version: int) -> None:
        """Do nothing, because the list has no configuration znode."""

    def touch(self, now: Instant, session_id: SessionId, timeout_ms: int, by: PeerId) -> None:
        """Do nothing, because the list has no sessions."""

    def revalidate(
        self, now: Instant, session_id: SessionId, timeout_ms: int, origin: LinkId | None, by: PeerId
    ) -> bool:
        """Return True: every session is valid."""
        return True

    def expire_sessions(self, now: Instant) -> list[Effect]:
        """Return no effects, because sessions never expire."""
        return []

    # -- calls for clients -------------------------------------------------------------------------------------------

    def start_serving(self, now: Instant, leading: bool) -> list[Effect]:
        """Start to accept clients."""
        self.serving = True
        return []

    def start_read_only(self, now: Instant) -> list[Effect]:
        """Return no effects, because the list has no read-only mode."""
        return []

    def expire_local_sessions(self, now: Instant) -> list[Effect]:
        """Return no effects, because the list has no sessions."""
        return []

    def delete_lapsed(self, now: Instant) -> list[Effect]:
        """Return no effects, because entries have no TTL."""
        return []

    def stop_serving(self, now: Instant) -> list[Effect]:
        """Close every client connection. The results of pending requests stay unknown."""
        self.serving = False
        self.leading = None
        closed = dict.fromkeys(self.waiting.values())
        self.waiting.clear()
        return [CloseConnection(connection) for connection in closed]

    def on_client_connected(
        self, now: Instant, connection: ConnectionId, identities: tuple[AuthId, ...] = ()
    ) -> list[Effect]:
        """Return no effects, because there is no session handshake."""
        return []

    def on_client(self, now: Instant, connection: ConnectionId, message: ClientMessage) -> list[Effect]:
        """Submit a client's write or sync request."""
        assert isinstance(message, Request)
        if not self.serving:
            return [CloseConnection(connection)]
        session = SessionId(connection)
        self.waiting[session, message.xid] = connection
        if message.op == OpCode.SYNC:
            return [SubmitSync(SyncRequest(session, message.xid, "/"))]
        return [Submit(ForwardedRequest(session, message.xid, message.op, b"%d.%d" % (connection, message.xid)))]

    def on_client_closed(self, now: Instant, connection: ConnectionId) -> list[Effect]:
        """Return no effects, because the list has no state for a connection."""
        return []

    def drain_touched(self) -> list[tuple[SessionId, int]]:
        """Return an empty list, because the list has no sessions."""
        return []

    def revalidated(self, now: Instant, session_id: SessionId, valid: bool, proposed: Zxid) -> list[Effect]:
        """Return no effects, because the list has no sessions."""
        return []

    def sync_done(self, now: Instant, request: SyncRequest) -> list[Effect]:
        """Reply to the client's sync with this peer's last applied zxid."""
        connection = self.waiting.pop((request.session_id, request.cxid), None)
        return [] if connection is None else [Answer(connection, Reply(request.cxid, self.last_applied, 0))]
