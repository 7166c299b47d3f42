"""What the admin words and the API read of a service: counts, connections, one znode, the journal's checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ensemble.ids import ConnectionId, SessionId, Zxid
from ensemble.ports import Instant
from ensemble.records import ACL, Stat
from ensemble.tree.connections import Connection, ConnectionInfo, LocalSession, Waiting, info_of
from ensemble.tree.datatree import DataTree
from ensemble.tree.facts import OP_NAMES
from ensemble.tree.watches import WatchCounts, Watches
from journal.events import ZxidCheckpoint


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
    _sessions: dict[SessionId, LocalSession]

    def _reset_counters(self) -> None:
        self.digest_mismatches = 0
        self.reset_statistics()

    def reset_statistics(self) -> None:
        """Start counting packets and latencies over (`srst`)."""
        self.packets_received = 0
        self.packets_sent = 0
        self._answers = 0
        self._latency_min_ms = -1
        self._latency_max_ms = 0
        self._latency_total_ms = 0

    def _count_answer(self, now: Instant, waiting: Waiting, client: Connection, zxid: int) -> None:
        latency_ms = now.mono_ms - waiting.since_ms
        self.packets_sent += 1
        self._answers += 1
        self._latency_total_ms += latency_ms
        if latency_ms > self._latency_max_ms:
            self._latency_max_ms = latency_ms
        if latency_ms < self._latency_min_ms or self._latency_min_ms < 0:
            self._latency_min_ms = latency_ms
        client.answered(now.mono_ms, latency_ms, waiting.cxid, zxid, waiting.op)

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
