"""A peer's metrics, with the names of ZooKeeper's metrics (ServerMetrics, ServerStats, Leader).

The components update their counts once per batch; this module reads the counts on demand.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from zabka.ensemble.server.operator.running_peer import RunningPeer
from zabka.ensemble.summary import Summary
from zabka.ensemble.tree.counters import FIRED_AS
from zabka.ensemble.zab.messages import PeerState
from zabka.ensemble.zab.peer import PeerStatus
from zabka.journal.events import Event, PeerStateChanged, SessionExpired, SnapshotTaken

_GAUGES_OF_LIMITS = ("auth_failed_count", "non_mtls_remote_conn_count", "non_mtls_local_conn_count")
"""Fields of `LimitCounts` that are gauges, because ServerStats registers them as gauges in ZooKeeper."""


class RoleCounts:
    """Numbers of transactions that the peer logged and committed as leader, and in other roles."""

    def __init__(self) -> None:
        self.proposals = {True: 0, False: 0}
        self.commits = {True: 0, False: 0}
        self._leading = False
        self._seen = (0, 0)

    def settle(self, logged: int, applied: int, leading: bool) -> None:
        """Add the transactions since the last call to the counts of the role that the peer had during that time."""
        self.proposals[self._leading] += logged - self._seen[0]
        self.commits[self._leading] += applied - self._seen[1]
        self._seen = (logged, applied)
        self._leading = leading


class PeerHistory:
    """History of a peer: elections, times without a leader, snapshots, expired sessions."""

    def __init__(self) -> None:
        self.looking_count = 0
        self.sessions_expired = 0
        self.leading_since_ms: int | None = None
        self.last_snapshot: SnapshotTaken | None = None
        self.election_time_ms = Summary()
        self.unavailable_time_ms = Summary()
        self.leader_unavailable_time_ms = Summary()
        self.snapshot_time_ms = Summary()
        self.follower_sync_time_ms = Summary()
        self.observer_sync_time_ms = Summary()
        self.load_time_ms = Summary()
        self.snapshot_load_time_ms = Summary()
        self.txns_load_time_ms = Summary()
        self.txns_loaded = Summary()
        self._synchronising_since_ms: int | None = None
        self._looking_since_ms: int | None = None
        self._unavailable_since_ms: int | None = None

    def on_event(self, event: Event, now_ms: int) -> None:
        """Update the history with a journal event."""
        if isinstance(event, PeerStateChanged):
            self._on_state(event, now_ms)
        elif isinstance(event, SnapshotTaken):
            self.last_snapshot = event
            self.snapshot_time_ms.add(event.duration_ms)
        elif isinstance(event, SessionExpired):
            self.sessions_expired += 1

    def _on_state(self, event: PeerStateChanged, now_ms: int) -> None:
        looking, leading = event.state == "LOOKING", event.state == "LEADING"
        if looking and self._looking_since_ms is None:
            self.looking_count += 1
            self._looking_since_ms = now_ms
        elif not looking and self._looking_since_ms is not None:
            self.election_time_ms.add(now_ms - self._looking_since_ms)
            self._looking_since_ms = None
        if event.phase != "BROADCAST":
            self._unavailable_since_ms = self._unavailable_since_ms or now_ms
        elif self._unavailable_since_ms is not None:
            taken_ms = now_ms - self._unavailable_since_ms
            self.unavailable_time_ms.add(taken_ms)
            if leading:
                self.leader_unavailable_time_ms.add(taken_ms)
            self._unavailable_since_ms = None
        self._on_learner_state(event, now_ms)
        if not leading:
            self.leading_since_ms = None
        elif self.leading_since_ms is None and event.phase == "BROADCAST":
            self.leading_since_ms = now_ms

    def _on_learner_state(self, event: PeerStateChanged, now_ms: int) -> None:
        """Measure how long a learner synchronises, until it accepts clients (Follower.followLeader)."""
        times = {"FOLLOWING": self.follower_sync_time_ms, "OBSERVING": self.observer_sync_time_ms}.get(event.state)
        if times is None:
            self._synchronising_since_ms = None
        elif event.phase == "SYNCHRONIZATION":
            self._synchronising_since_ms = self._synchronising_since_ms or now_ms
        elif event.phase == "BROADCAST" and self._synchronising_since_ms is not None:
            times.add(now_ms - self._synchronising_since_ms)
            self._synchronising_since_ms = None


class OnDemandCounts(msgspec.Struct):
    """Counts of the HTTP requests for snapshots and restores, with ZooKeeper's names.

    They count failed snapshots, failed restores, and connections without TLS.
    """

    snapshot_error_count: int = 0
    snapshot_rate_limited_count: int = 0
    restore_error_count: int = 0
    restore_rate_limited_count: int = 0
    insecure_admin_count: int = 0


class Readings(NamedTuple):
    """Values of all metrics at one time.

    `texts` contains the values that are not numeric. `by_namespace` and `counted_by_namespace` contain the gauges and
    counters that have a label. `detailed` contains the summaries with quantiles.
    """

    texts: dict[str, str]
    gauges: dict[str, float]
    by_namespace: dict[str, dict[str, float]]
    counters: dict[str, int]
    counted_by_namespace: dict[str, dict[str, int]]
    summaries: dict[str, Summary]
    detailed: dict[str, Summary]


class Metrics:
    """Reads a peer's metrics.

    `mode` returns the peer's current mode, and `version` is its version line.
    """

    def __init__(self, running: RunningPeer, mode: Callable[[], str], version: str) -> None:
        self.history = PeerHistory()
        self.on_demand = OnDemandCounts()
        self.unrecoverable_errors = 0
        self._config = running.config
        self._peer = running.peer
        self._service = running.service
        self._clients = running.clients
        self._storage = running.storage
        self._mode = mode
        self._version = version
        self._began_ms = _now_ms()
        self._roles = RoleCounts()

    def on_event(self, event: Event) -> None:
        """Update the metrics with a journal event."""
        self.history.on_event(event, _now_ms())
        if isinstance(event, PeerStateChanged):
            self._storage.stages.learning = event.state == "FOLLOWING"
            self._roles.settle(self._storage.txns_logged, self._service.counters.txns_applied, event.state == "LEADING")

    def reset(self) -> None:
        """Reset the resettable metrics (`srst`)."""
        self._service.counters.reset()
        self._clients.admission.counts.reset()
        for summary in (*self._summaries().values(), *self._detailed().values()):
            summary.reset()

    def read(self) -> Readings:
        """Return the current value of every metric."""
        status = self._peer.status()
        texts = {"version": self._version, "server_state": self._mode()}
        if self._config.distributed:
            texts["peer_state"] = f"{status.state.name.lower()} - {status.phase.value.lower()}"
        gauges = self._gauges(status)
        return Readings(
            texts, gauges, self._by_namespace(), self._counters(status), self._counted_by_namespace(),
            summaries=self._summaries(), detailed=self._detailed(),
        )  # fmt: skip

    def _gauges(self, status: PeerStatus) -> dict[str, float]:
        stats, admission = self._service.views.statistics(), self._clients.admission
        descriptors, descriptors_max = _descriptors()
        gauges: dict[str, float] = {
            "avg_latency": round(stats.latency_avg_ms, 4),
            "max_latency": stats.latency_max_ms,
            "min_latency": stats.latency_min_ms,
            "packets_received": stats.packets_received,
            "packets_sent": stats.packets_sent,
            "num_alive_connections": stats.connections + len(self._clients.newcomers()),
            "outstanding_requests": stats.outstanding,
            "znode_count": stats.znodes,
            "watch_count": stats.watches,
            "ephemerals_count": stats.ephemerals,
            "approximate_data_size": stats.approximate_data_size_bytes,
            "global_sessions": stats.sessions,
            "local_sessions": len(self._service.local_sessions()),
            "connection_drop_probability": admission.throttle.drop_chance,
            "outstanding_tls_handshake": self._clients.handshakes,
            "uptime": _now_ms() - self._began_ms,
            "open_file_descriptor_count": descriptors,
            "max_file_descriptor_count": descriptors_max,
            "current_epoch": status.current_epoch,
            "accepted_epoch": status.accepted_epoch,
        }
        gauges |= {name: getattr(admission.counts, name) for name in _GAUGES_OF_LIMITS}
        if self._config.distributed:
            gauges["quorum_size"] = len(self._peer.membership.voters)
        if status.state is PeerState.LEADING and self._config.distributed:
            gauges |= self._gauges_of_leader(status)
        elif status.state is PeerState.OBSERVING and status.source_id is not None:
            gauges["observer_master_id"] = status.source_id
        elif status.state is PeerState.FOLLOWING and self._config.observer_master_port:
            gauges["synced_observers"] = sum(learner.synced for learner in status.learners)
        return gauges

    def _gauges_of_leader(self, status: PeerStatus) -> dict[str, float]:
        voters = set(self._peer.membership.voters)
        followers = [learner for learner in status.learners if not learner.observer and learner.synced]
        since_ms = self.history.leading_since_ms
        last, largest, smallest = self._peer.proposal_sizes()
        return {
            "last_proposal_size": last,
            "max_proposal_size": largest,
            "min_proposal_size": smallest,
            "leader_uptime": 0 if since_ms is None else _now_ms() - since_ms,
            "learners": len(status.learners),
            "synced_followers": sum(learner.peer_id in voters for learner in followers),
            "synced_non_voting_followers": sum(learner.peer_id not in voters for learner in followers),
            "synced_observers": sum(learner.synced for learner in status.learners if learner.observer),
            "pending_syncs": status.pending_syncs,
            "outstanding_proposals": status.outstanding,
        }

    def _by_namespace(self) -> dict[str, dict[str, float]]:
        """Return each namespace's usage and limits; a namespace is a first path component (QuotaMetricsUtils)."""
        found: dict[str, dict[str, float]] = {}
        for path, quota in self._service.tree.quotas.by_path.items():
            namespace = path.split("/")[1]
            for name, value in (
                ("quota_count_usage_per_namespace", quota.count),
                ("quota_bytes_usage_per_namespace", quota.bytes),
                ("quota_count_limit_per_namespace", quota.limits.count_max),
                ("quota_bytes_limit_per_namespace", quota.limits.bytes_max),
            ):
                of_name = found.setdefault(name, {})
                of_name[namespace] = of_name.get(namespace, 0) + value
        return found

    def _counted_by_namespace(self) -> dict[str, dict[str, int]]:
        return {"quota_exceeded_error_per_namespace": self._service.counters.quota_refusals}

    def _counters(self, status: PeerStatus) -> dict[str, int]:
        limits: dict[str, int] = msgspec.structs.asdict(self._clients.admission.counts)
        leading = status.state is PeerState.LEADING
        self._roles.settle(self._storage.txns_logged, self._service.counters.txns_applied, leading)
        snaps, diffs = self._peer.syncs_sent
        asked: dict[str, int] = msgspec.structs.asdict(self.on_demand)
        named: dict[str, int] = msgspec.structs.asdict(self._service.ensemble_auth)
        return (
            {name: count for name, count in limits.items() if name not in _GAUGES_OF_LIMITS}
            | asked
            | named
            | {
                "snap_count": snaps,
                "diff_count": diffs,
                "bytes_received_count": self._clients.bytes_received,
                "response_bytes": self._clients.bytes_sent,
                "proposal_count": self._roles.proposals[True],
                "commit_count": self._roles.commits[True],
                "learner_proposal_received_count": self._roles.proposals[False],
                "learner_commit_received_count": self._roles.commits[False],
                "looking_count": self.history.looking_count,
                "stale_sessions_expired": self.history.sessions_expired,
                "digest_mismatches_count": self._service.counters.digest_mismatches,
                "sync_processor_request_queued": self._storage.txns_logged,
                "watch_bytes": self._service.counters.watch_bytes,
                "stale_requests": self._service.counters.stale_requests,
                "stale_replies": self._service.counters.stale_replies,
                "cnxn_closed_without_zk_server_running": self._service.counters.closed_without_service,
                "quit_leading_due_to_disloyal_voter": self._peer.quits_over_voters,
                "revalidate_count": self._service.counters.revalidations,
                "unrecoverable_error_count": self.unrecoverable_errors,
            }
        )

    def _summaries(self) -> dict[str, Summary]:
        history, stages, admission = self.history, self._storage.stages, self._clients.admission
        return {
            "election_time": history.election_time_ms,
            "unavailable_time": history.unavailable_time_ms,
            "leader_unavailable_time": history.leader_unavailable_time_ms,
            "fsynctime": self._storage.fsync_time_ms,
            "snapshottime": history.snapshot_time_ms,
            "follower_sync_time": history.follower_sync_time_ms,
            "observer_sync_time": history.observer_sync_time_ms,
            "dbinittime": history.load_time_ms,
            "startup_txns_loaded": history.txns_loaded,
            **{FIRED_AS[event]: summary for event, summary in self._service.counters.watches_fired.items()},
            "sync_processor_batch_size": self._storage.batch_sizes,
            "sync_processor_queue_size": stages.queue_sizes,
            "sync_process_time": stages.process_ms,
            "startup_snap_load_time": history.snapshot_load_time_ms,
            "startup_txns_load_time": history.txns_load_time_ms,
            "connection_token_deficit": admission.token_deficit,
        }

    def _detailed(self) -> dict[str, Summary]:
        service, stages = self._service, self._storage.stages
        return {
            "readlatency": service.counters.read_latency_ms,
            "updatelatency": service.counters.update_latency_ms,
            "propagation_latency": service.counters.propagation_latency_ms,
            "commit_propagation_latency": service.counters.commit_propagation_latency_ms,
            "quorum_ack_latency": service.counters.quorum_ack_latency_ms,
            "proposal_latency": stages.proposed_ms,
            "proposal_ack_creation_latency": stages.acknowledged_ms,
            "sync_processor_queue_time_ms": stages.queue_ms,
            "sync_processor_queue_flush_time_ms": self._storage.fsync_time_ms,
            "sync_processor_queue_and_flush_time_ms": stages.whole_ms,
            "request_throttle_queue_time_ms": self._clients.admission.throttled_ms,
        }


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _descriptors() -> tuple[int, int]:
    """Return the number of open file descriptors of this process, and their limit; -1 for an unknown value."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        return len(os.listdir("/proc/self/fd")), most  # noqa: PTH208 (entries only)
    except OSError:
        return -1, most
