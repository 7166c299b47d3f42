"""Counts and latencies of the requests that one server processes (ServerStats, ServerMetrics)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from zabka.ensemble.ids import Zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import WRITES, EventType
from zabka.ensemble.summary import Summary
from zabka.ensemble.tree.connections import Connection, Waiting
from zabka.ensemble.txn import Txn

FIRED_AS = {
    EventType.CREATED: "node_created_watch_count",
    EventType.DELETED: "node_deleted_watch_count",
    EventType.DATA_CHANGED: "node_changed_watch_count",
    EventType.CHILDREN_CHANGED: "node_children_watch_count",
}
"""Names of the metrics that count notified connections, keyed by event type."""
WATCH_EVENT_BYTES = 28
"""Size of a watch event's frame without the path: header, type, state and path length."""
DIGESTS_EVERY = 128
DIGESTS_KEPT = 1024
"""Number of remembered digests, as in ZooKeeper (DataTree.DIGEST_LOG_INTERVAL and DIGEST_LOG_LIMIT)."""


class Counters:
    """Counts since the server started, some of which `reset` sets to zero; latencies are in milliseconds.

    `digests` contains the tree's digest after every 128th transaction, keyed by zxid. `quota_refusals` counts writes
    rejected by a hard quota, keyed by the first component of the path; only a leader counts them.
    """

    def __init__(self) -> None:
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
        self.quota_refusals: dict[str, int] = {}
        self.reset()

    def reset(self) -> None:
        """Reset the counts of packets and the latencies (`srst`)."""
        self.packets_received = 0
        self.packets_sent = 0
        self.answers = 0
        self.latency_min_ms = -1
        self.latency_max_ms = 0
        self.latency_total_ms = 0
        self.quota_refusals.update(dict.fromkeys(self.quota_refusals, 0))
        latencies = (
            self.read_latency_ms, self.update_latency_ms, self.propagation_latency_ms,
            self.commit_propagation_latency_ms, self.quorum_ack_latency_ms,
        )  # fmt: skip
        for summary in (*latencies, *self.watches_fired.values()):
            summary.reset()

    def count_applied(self, now: Instant, txns: Sequence[Txn], *, leads: bool) -> None:
        """Count transactions applied while the server accepts clients; measure the latency of the last one."""
        self.txns_applied += len(txns)
        took_ms = now.wall_ms - txns[-1].time_ms
        took_ms = took_ms if took_ms > 0 else 0
        self.propagation_latency_ms.add(took_ms, len(txns))
        # The time since the transaction's creation is the commit latency, because the current turn began with the
        # quorum's last acknowledgement on a leader, and with the COMMIT on a learner.
        committed = self.quorum_ack_latency_ms if leads else self.commit_propagation_latency_ms
        committed.add(took_ms, len(txns))

    def count_answers_at_once(self, now: Instant, count: int, client: Connection, xid: int, zxid: int, op: int) -> None:
        """Count requests that were replied to on arrival; `xid`, `zxid` and `op` are of the last one."""
        self.packets_sent += count
        self.answers += count
        self.latency_min_ms = 0
        self.read_latency_ms.add(0, count)
        client.sent += count - 1
        client.answered(now.mono_ms, 0, xid, zxid, op)

    def count_answers(self, now: Instant, client: Connection, answered: Sequence[Waiting], zxid: int) -> None:
        """Count requests of one connection whose replies are sent together."""
        now_ms = now.mono_ms
        self.packets_sent += len(answered)
        self.answers += len(answered)
        for waiting in answered:
            latency_ms = now_ms - waiting.since_ms
            self.latency_total_ms += latency_ms
            if latency_ms > self.latency_max_ms:
                self.latency_max_ms = latency_ms
            if latency_ms < self.latency_min_ms or self.latency_min_ms < 0:
                self.latency_min_ms = latency_ms
            (self.update_latency_ms if waiting.op in WRITES else self.read_latency_ms).add(latency_ms)
            client.answered(now_ms, latency_ms, waiting.cxid, zxid, waiting.op)

    def count_write(self, now_ms: int, client: Connection, written: Waiting, zxid: int) -> None:
        """Count a write whose reply is not sent together with other replies."""
        latency_ms = now_ms - written.since_ms
        self.packets_sent += 1
        self.answers += 1
        self.latency_total_ms += latency_ms
        if latency_ms > self.latency_max_ms:
            self.latency_max_ms = latency_ms
        if latency_ms < self.latency_min_ms or self.latency_min_ms < 0:
            self.latency_min_ms = latency_ms
        self.update_latency_ms.add(latency_ms)
        client.answered(now_ms, latency_ms, written.cxid, zxid, written.op)

    def count_writes(self, now: Instant, client: Connection, answered: Sequence[Waiting], zxid: int) -> None:
        """Count writes of one connection whose replies are sent together."""
        count, last, now_ms = len(answered), answered[-1], now.mono_ms
        latencies_ms = [now_ms - waiting.since_ms for waiting in answered]
        low, high, total = min(latencies_ms), max(latencies_ms), sum(latencies_ms)
        self.packets_sent += count
        self.answers += count
        self.latency_total_ms += total
        self.latency_max_ms = max(self.latency_max_ms, high)
        if low < self.latency_min_ms or self.latency_min_ms < 0:
            self.latency_min_ms = low
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
