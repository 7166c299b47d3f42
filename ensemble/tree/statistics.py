"""Statistics of a service for the admin commands and the API: counts, connections, sessions, details of a znode."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from zabka.ensemble.ids import ConnectionId, SessionId, Zxid
from zabka.ensemble.records import ACL, Stat
from zabka.ensemble.tree.clients import Clients
from zabka.ensemble.tree.connections import ConnectionInfo, info_of
from zabka.ensemble.tree.counters import Counters
from zabka.ensemble.tree.facts import OP_NAMES
from zabka.ensemble.tree.server_state import ServerState
from zabka.ensemble.tree.watches import WatchCounts


class ServiceStatistics(msgspec.Struct, frozen=True):
    """Counts and latencies for `srvr`, `stat` and `mntr`.

    `znodes` is the number that ZooKeeper would report. ZooKeeper counts the root twice, because the root has two paths
    there. Latencies, in milliseconds, are those of the requests that got a reply since the last reset. `outstanding`
    counts requests without a reply.
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
    """One znode for display, with the connections that watch it on this server."""

    path: str
    data: bytes | None
    stat: Stat
    children: list[str]
    acl: Sequence[ACL]
    watchers: list[tuple[ConnectionId, str]]


class SessionInfo(msgspec.Struct, frozen=True):
    """One session of the ensemble; `connection` is None if the session is not connected to this server."""

    session_id: SessionId
    timeout_ms: int
    ephemerals: list[str]
    connection: ConnectionId | None


class ServiceViews:
    """Reports about a service, created on demand."""

    def __init__(self, state: ServerState, clients: Clients, counters: Counters) -> None:
        self._state = state
        self._clients = clients
        self._counters = counters

    def statistics(self) -> ServiceStatistics:
        """Return the current counts and latencies."""
        tree, counters = self._state.tree, self._counters
        return ServiceStatistics(
            last_zxid=tree.last_zxid,
            digest=tree.digest,
            znodes=len(tree.nodes) + 1,
            watches=len(self._state.watches),
            ephemerals=tree.ephemeral_count,
            sessions=len(tree.sessions),
            connections=len(self._clients.connections),
            outstanding=sum(connection.outstanding for connection in self._clients.connections.values()),
            approximate_data_size_bytes=tree.data_size_bytes,
            packets_received=counters.packets_received,
            packets_sent=counters.packets_sent,
            latency_min_ms=max(counters.latency_min_ms, 0),
            latency_avg_ms=counters.latency_total_ms / counters.answers if counters.answers else 0.0,
            latency_max_ms=counters.latency_max_ms,
            digest_mismatches=counters.digest_mismatches,
        )

    def watch_counts(self) -> WatchCounts:
        """Return the number of watches, of connections that have watches, and of watched paths."""
        return self._state.watches.counts()

    def connections(self) -> list[ConnectionInfo]:
        """Return the statistics of every connection, oldest connection first."""
        return [
            info_of(connection, OP_NAMES.get(connection.last_op, "NA"))
            for connection in self._clients.connections.values()
        ]

    def ephemerals(self, session_id: SessionId) -> list[str]:
        """Return the paths of a session's ephemeral znodes."""
        return list(self._state.tree.ephemerals.get(session_id, ()))

    def session_infos(self) -> list[SessionInfo]:
        """Return every session of the ensemble, ordered by id."""
        infos: list[SessionInfo] = []
        for session_id, timeout_ms in sorted(self._state.tree.sessions.items()):
            local = self._clients.sessions.get(session_id)
            connection = local.connection.id if local is not None and local.connection is not None else None
            owned = sorted(self._state.tree.ephemerals.get(session_id, ()))
            infos.append(SessionInfo(session_id, timeout_ms, owned, connection))
        return infos

    def sessions_by_due_time(self) -> list[tuple[int, list[SessionId]]] | None:
        """Return the sessions by expiry time on the monotonic clock, or None if this server does not track them."""
        return None if self._state.proposer is None else self._state.proposer.tracker.by_due_time()

    def znode(self, path: str) -> ZnodeView | None:
        """Return one znode with all its details, or None if it does not exist."""
        node = self._state.tree.nodes.get(path)
        if node is None:
            return None
        return ZnodeView(
            path,
            node.data,
            node.stat(),
            self._state.tree.children(path),
            node.acl,
            self._state.watches.watchers_of(path),
        )
