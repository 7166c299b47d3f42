"""Snapshots requested by an operator over HTTP.

The request must authenticate as a client that can read everything (SnapshotCommand).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from zabka.ensemble.auth.addresses import canonical_address
from zabka.ensemble.auth.names import subject_of
from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.records import Permission
from zabka.ensemble.server.config.zoo_cfg import ZooConfig
from zabka.ensemble.server.operator.http_port import HttpRequest
from zabka.ensemble.server.operator.metrics import OnDemandCounts
from zabka.ensemble.tree.acl import allows
from zabka.ensemble.tree.service import Service
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txnlog.storage import Storage
from zabka.journal.events import SnapshotTaken

_PERMISSIONS = (Permission.READ, Permission.WRITE, Permission.CREATE, Permission.DELETE, Permission.ADMIN)


class Refusal(NamedTuple):
    """Reason why a request is rejected, and the HTTP status of the response."""

    status: int
    reason: str


class OnDemandSnapshots:
    """Snapshots on request: calls `take` at most once per `interval_ms`, or never if `interval_ms` is None.

    `wanted` contains the futures of requests that wait for a durable snapshot. The operator view resolves these
    futures.
    """

    def __init__(
        self,
        config: ZooConfig,
        service: Service,
        storage: Storage,
        wanted: list[asyncio.Future[SnapshotTaken]],
        interval_ms: int | None,
        counts: OnDemandCounts,
        *,
        take: Callable[[TreeSnapshot], None],
    ) -> None:
        self._config = config
        self._service = service
        self._storage = storage
        self._wanted = wanted
        self._interval_ms = interval_ms
        self._counts = counts
        self._take = take
        self._last_ms: int | None = None

    def newest(self) -> tuple[int, int]:
        """Return the newest snapshot's zxid and its time in seconds; -1 and -1 if there is none."""
        try:
            directories = self._storage.directories
            zxid, path = directories.snapshots()[-1]
            return zxid, int(directories.files.stat(path).st_mtime)
        except (IndexError, OSError):
            return -1, -1

    def unproved(self, request: HttpRequest) -> Refusal | None:
        """Check a request's Authorization header, which contains a scheme and credentials.

        Return why it does not allow a snapshot, or None if it does.
        """
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        if not scheme:
            return Refusal(401, "Auth info is missing for the command")
        policy = self._config.auth
        try:
            subject = subject_of(request.certificate) if request.certificate is not None else None
        except MalformedRecord:
            subject = None
        # An address or a certificate is proved by the connection, not by the Authorization header.
        present = policy.identities_of(canonical_address(request.remote), subject)
        identities = policy.authenticate(scheme, credentials.encode() if credentials else None, present)
        if not identities:
            return Refusal(401, "Not authenticated")
        root = self._service.tree.nodes["/"]
        # A snapshot contains all data, so require every permission on the root; ZooKeeper requires only one.
        allowed = all(allows(root.acl, bit, self._config.auth.rights_of(identities)) for bit in _PERMISSIONS)
        return None if allowed else Refusal(403, "Not authorized")

    def refusal(self, request: HttpRequest) -> Refusal | None:
        """Return why a request for a snapshot is rejected now, or None if it is accepted."""
        if self._interval_ms is None:
            return Refusal(403, "Snapshot command is disabled; admin.snapshot.enabled=true allows it")
        if (unproved := self.unproved(request)) is not None:
            return unproved
        if self._last_ms is not None and _now_ms() - self._last_ms < self._interval_ms:
            self._counts.snapshot_rate_limited_count += 1
            return Refusal(429, "Snapshot request was rate limited; see admin.rateLimiterIntervalInMS")
        return None

    async def take_snapshot(self) -> SnapshotTaken:
        """Write a snapshot of the current tree; if one is being written, wait for it. Return the durable snapshot."""
        self._last_ms = _now_ms()
        future: asyncio.Future[SnapshotTaken] = asyncio.get_running_loop().create_future()
        self._wanted.append(future)
        self._take(self._service.snapshot())
        return await future

    def file_of(self, taken: SnapshotTaken) -> Path:
        """Return the file of a snapshot that was just taken."""
        return next(path for zxid, path in reversed(self._storage.directories.snapshots()) if zxid == taken.zxid)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
