"""What the admin words and the API read of a service: counts, connections, one znode, the journal's checkpoint."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from ensemble.ids import ConnectionId, SessionId, Zxid
from ensemble.ports import Instant
from ensemble.records import ACL, WRITES, EventType, Stat
from ensemble.summary import Summary
from ensemble.tree.connections import Connection, ConnectionInfo, OpenSession, Waiting, info_of
from ensemble.tree.datatree import DataTree
from ensemble.tree.facts import OP_NAMES
from ensemble.tree.proposer import Proposer
from ensemble.tree.watches import WatchCounts, Watches
from ensemble.txn import Txn
from journal.events import ZxidCheckpoint

FIRED_AS = {
    EventType.CREATED: "node_created_watch_count",
    EventType.DELETED: "node_deleted_watch_count",
    EventType.DATA_CHANGED: "node_changed_watch_count",
    EventType.CHILDREN_CHANGED: "node_children_watch_count",
}
"""Under which names it is counted how many connections hear of a change."""
WATCH_EVENT_BYTES = 28
"""A notification's header, type, state, and the length of its path."""
DIGESTS_EVERY = 128
DIGESTS_KEPT = 1024
"""DataTree.DIGEST_LOG_INTERVAL and DIGEST_LOG_LIMIT."""


class ServiceStatistics(msgspec.Struct, frozen=True):
    """The numbers of `srvr`, `stat` and `mntr`.

    `znodes` counts as ZooKeeper does: the root has two names there and counts twice.  Latencies are of answered
    requests since the last reset, in milliseconds.  `outstanding` counts requests that wait for an answer.
    """

    last_zxid: Zxid
    digest: int
    znodes: int
    watches: int
    ephemerals: int
    sessions: int
    connections: int
    outstanding: int
    approximate_data_size_bytes: int
    packets_received: int
    packets_sent: int
    latency_min_ms: int
    latency_avg_ms: float
    latency_max_ms: int
    digest_mismatches: int


class ZnodeView(msgspec.Struct, frozen=True):
    """One znode, for people: with who watches it here."""

    path: str
    data: bytes | None
    stat: Stat
    children: list[str]
    acl: Sequence[ACL]
    watchers: list[tuple[ConnectionId, str]]


class SessionInfo(msgspec.Struct, frozen=True):
    """One session of the ensemble; `connection` is None where it is not connected to this server."""

    session_id: SessionId
    timeout_ms: int
    ephemerals: list[str]
    connection: ConnectionId | None


class ServiceViews:
    """The reading side of a `Service`, and its counters."""

    _tree: DataTree
    _watches: Watches
    _connections: dict[ConnectionId, Connection]
    _sessions: dict[SessionId, OpenSession]
    _proposer: Proposer | None

    def _reset_counters(self) -> None:
        self.digest_mismatches = 0
        self.txns_applied = 0
        self.digests: deque[tuple[Zxid, int]] = deque(maxlen=DIGESTS_KEPT)
        self.read_latency_ms = Summary()
        self.update_latency_ms = Summary()
        self.propagation_latency_ms = Summary()
        self.commit_propagation_latency_ms = Summary()
        self.quorum_ack_latency_ms = Summary()
        self.stale_requests = self.stale_replies = self.closed_without_service = 0
        self.revalidations = self.watch_bytes = 0
        self.watches_fired = {event: Summary() for event in FIRED_AS}
        self.reset_statistics()

    def reset_statistics(self) -> None:
        """Start counting packets and latencies over (`srst`)."""
        self.packets_received = 0
        self.packets_sent = 0
        self._answers = 0
        self._latency_min_ms = -1
        self._latency_max_ms = 0
        self._latency_total_ms = 0
        latencies = (
            self.read_latency_ms, self.update_latency_ms, self.propagation_latency_ms,
            self.commit_propagation_latency_ms, self.quorum_ack_latency_ms,
        )  # fmt: skip
        for summary in (*latencies, *self.watches_fired.values()):
            summary.reset()

    def reset_connection_statistics(self) -> None:
        """Start counting over for every connection (`crst`)."""
        for connection in self._connections.values():
            connection.reset_statistics()

    def _count_applied(self, now: Instant, txns: Sequence[Txn]) -> None:
        """A batch of transactions was applied while clients are served; its last one tells how long it took here."""
        self.txns_applied += len(txns)
        took_ms = now.wall_ms - txns[-1].time_ms
        took_ms = took_ms if took_ms > 0 else 0
        self.propagation_latency_ms.add(took_ms, len(txns))
        # Applied in the turn of the quorum's last acknowledgement, or of the leader's word.
        committed = self.commit_propagation_latency_ms if self._proposer is None else self.quorum_ack_latency_ms
        committed.add(took_ms, len(txns))

    def _count_answers_at_once(
        self, now: Instant, count: int, client: Connection, xid: int, zxid: int, op: int
    ) -> None:
        """Requests that were answered as soon as they came; the last of them was `xid`."""
        self.packets_sent += count
        self._answers += count
        self._latency_min_ms = 0
        self.read_latency_ms.add(0, count)
        client.sent += count - 1
        client.answered(now.mono_ms, 0, xid, zxid, op)

    def _count_answers(self, now: Instant, client: Connection, answered: Sequence[Waiting], zxid: int) -> None:
        """Requests of one connection that are answered together."""
        now_ms = now.mono_ms
        self.packets_sent += len(answered)
        self._answers += len(answered)
        for waiting in answered:
            latency_ms = now_ms - waiting.since_ms
            self._latency_total_ms += latency_ms
            if latency_ms > self._latency_max_ms:
                self._latency_max_ms = latency_ms
            if latency_ms < self._latency_min_ms or self._latency_min_ms < 0:
                self._latency_min_ms = latency_ms
            (self.update_latency_ms if waiting.op in WRITES else self.read_latency_ms).add(latency_ms)
            client.answered(now_ms, latency_ms, waiting.cxid, zxid, waiting.op)

    def _count_write(self, now_ms: int, client: Connection, written: Waiting, zxid: int) -> None:
        """A write of a connection that is answered by itself."""
        latency_ms = now_ms - written.since_ms
        self.packets_sent += 1
        self._answers += 1
        self._latency_total_ms += latency_ms
        if latency_ms > self._latency_max_ms:
            self._latency_max_ms = latency_ms
        if latency_ms < self._latency_min_ms or self._latency_min_ms < 0:
            self._latency_min_ms = latency_ms
        self.update_latency_ms.add(latency_ms)
        client.answered(now_ms, latency_ms, written.cxid, zxid, written.op)

    def _count_writes(self, now: Instant, client: Connection, answered: Sequence[Waiting], zxid: int) -> None:
        """The same where all of them are writes, several."""
        count, last, now_ms = len(answered), answered[-1], now.mono_ms
        latencies_ms = [now_ms - waiting.since_ms for waiting in answered]
        low, high, total = min(latencies_ms), max(latencies_ms), sum(latencies_ms)
        self.packets_sent += count
        self._answers += count
        self._latency_total_ms += total
        self._latency_max_ms = max(self._latency_max_ms, high)
        if low < self._latency_min_ms or self._latency_min_ms < 0:
            self._latency_min_ms = low
        if low == high:
            self.update_latency_ms.add(low, count)
        else:
            for latency_ms in latencies_ms:
                self.update_latency_ms.add(latency_ms)
        client.answered(now_ms, now_ms - last.since_ms, last.cxid, zxid, last.op)
        client.sent += count - 1
        client.latency_total_ms += total - latencies_ms[-1]
        client.latency_max_ms = max(client.latency_max_ms, high)
        client.latency_min_ms = min(client.latency_min_ms, low)

    # -- read models -------------------------------------------------------------------------------------------------

    @property
    def tree(self) -> DataTree:
        """The tree, for reading only."""
        return self._tree

    @property
    def watches(self) -> Watches:
        """The watches of this server, for reading only."""
        return self._watches

    def statistics(self) -> ServiceStatistics:
        """All counts, now."""
        tree = self._tree
        return ServiceStatistics(
            last_zxid=tree.last_zxid,
            digest=tree.digest,
            znodes=len(tree.nodes) + 1,
            watches=len(self._watches),
            ephemerals=tree.ephemeral_count,
            sessions=len(tree.sessions),
            connections=len(self._connections),
            outstanding=sum(connection.outstanding for connection in self._connections.values()),
            approximate_data_size_bytes=tree.data_size_bytes,
            packets_received=self.packets_received,
            packets_sent=self.packets_sent,
            latency_min_ms=max(self._latency_min_ms, 0),
            latency_avg_ms=self._latency_total_ms / self._answers if self._answers else 0.0,
            latency_max_ms=self._latency_max_ms,
            digest_mismatches=self.digest_mismatches,
        )

    def watch_counts(self) -> WatchCounts:
        """How many watches, of how many connections, on how many paths."""
        return self._watches.counts()

    def connections(self) -> list[ConnectionInfo]:
        """Every connection, oldest first."""
        return [
            info_of(connection, OP_NAMES.get(connection.last_op, "NA")) for connection in self._connections.values()
        ]

    def outstanding(self, connection: ConnectionId) -> int:
        """How many requests of a connection wait for an answer: a shell may stop reading from it for a while."""
        client = self._connections.get(connection)
        return client.outstanding + len(client.held) if client is not None else 0

    def session_infos(self) -> list[SessionInfo]:
        """Every session of the ensemble, by id."""
        infos: list[SessionInfo] = []
        for session_id, timeout_ms in sorted(self._tree.sessions.items()):
            local = self._sessions.get(session_id)
            connection = local.connection.id if local is not None and local.connection is not None else None
            owned = sorted(self._tree.ephemerals.get(session_id, ()))
            infos.append(SessionInfo(session_id, timeout_ms, owned, connection))
        return infos

    def sessions_by_due_time(self) -> list[tuple[int, list[SessionId]]] | None:
        """When which sessions expire, on the monotonic clock; None where this server is not the one that decides."""
        return None if self._proposer is None else self._proposer.tracker.by_due_time()

    def znode(self, path: str) -> ZnodeView | None:
        """One znode with everything about it, None where there is none."""
        node = self._tree.nodes.get(path)
        if node is None:
            return None
        return ZnodeView(
            path, node.data, node.stat(), self._tree.children(path), node.acl, self._watches.watchers_of(path)
        )

    def checkpoint(self) -> ZxidCheckpoint:
        """The journal's line that pins where this tree stands."""
        tree = self._tree
        return ZxidCheckpoint(tree.last_zxid, tree.digest, len(tree.nodes), len(tree.sessions))
