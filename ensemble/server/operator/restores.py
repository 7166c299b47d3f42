"""Restore of a snapshot received over HTTP, which replaces all data of this server (RestoreCommand).

ZooKeeper replaces only the tree in memory and continues; after the next start it uses the data on its disk again. This
server writes the snapshot to the disk and restarts from it, in an epoch later than the ensemble's (see `restoring`).
After the restart it wins the election that follows, and sends the snapshot to all other servers. (A ZooKeeper leader
does not resign: in a mixed ensemble, restore the snapshot on a quorum of servers.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from zabka.ensemble.ids import Zxid
from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.runtime.workers import THREADS, Workers
from zabka.ensemble.server.operator.http_body import Body, BodyRefused
from zabka.ensemble.server.operator.metrics import OnDemandCounts
from zabka.ensemble.server.operator.on_demand_snapshots import Refusal
from zabka.ensemble.txnlog.files import unlink
from zabka.ensemble.txnlog.restoring import ARRIVING_NAME, keep_received, read_received
from zabka.ensemble.txnlog.snapshots import SnapshotDamaged


class Restores:
    """Receives snapshots to restore, at most one per `interval_ms`; none if `interval_ms` is None.

    `zxid_after` returns the server's zxid after it has started from a snapshot with the given zxid.
    """

    def __init__(
        self,
        directory: Path,
        zxid_after: Callable[[Zxid], Zxid],
        interval_ms: int | None,
        counts: OnDemandCounts,
        *,
        files: Files = HOST,
        workers: Workers = THREADS,
    ) -> None:
        self._counts = counts
        self._files = files
        self._workers = workers
        self._directory = directory
        self._zxid_after = zxid_after
        self._interval_ms = interval_ms
        self._last_ms: int | None = None
        self._under_way = False

    async def receive(self, body: Body | None) -> Zxid | Refusal:
        """Receive a snapshot, check it and write it to the disk; return its zxid.

        The server uses the snapshot after its next start.
        """
        if self._interval_ms is None:
            return Refusal(503, "Restore command is disabled; admin.restore.enabled=true allows it")
        if body is None or not body.length:
            return Refusal(400, "a snapshot has to be sent, by POST and with its Content-Length")
        limited = self._last_ms is not None and _now_ms() - self._last_ms < self._interval_ms
        if limited or self._under_way:
            self._counts.restore_rate_limited_count += 1
            return Refusal(429, "Restore request was rate limited; see admin.rateLimiterIntervalInMS")
        self._last_ms, self._under_way = _now_ms(), True
        try:
            return await self._receive(body)
        except (BodyRefused, SnapshotDamaged) as bad:
            self._counts.restore_error_count += 1
            return Refusal(400, f"what was sent is no whole snapshot: {bad}")
        except OSError as bad:
            self._counts.restore_error_count += 1
            return Refusal(500, f"the snapshot cannot be written down: {bad.strerror or bad}")
        finally:
            self._under_way = False

    async def _receive(self, body: Body) -> Zxid:
        arriving = self._directory / ARRIVING_NAME
        try:
            await body.save(arriving, self._files, self._workers)
            snapshot = await self._workers.call(read_received, arriving, self._files)
            await self._workers.call(keep_received, self._directory, self._files)
            return self._zxid_after(snapshot.zxid)
        finally:
            unlink(arriving, self._files)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
