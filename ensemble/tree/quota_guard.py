"""Enforces hard quotas on the leader before a write is proposed (ZooKeeperServer.checkQuota, with `enforceQuota`).

ZooKeeper compares each write only with the committed usage, so that several writes in flight can together exceed a hard
limit. Here proposed writes count too, including earlier operations of the same multi.
"""

from __future__ import annotations

from collections import deque

from zabka.ensemble.ids import Zxid
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.quota import NO_LIMIT


class _Change:
    """One proposed change: by how much it changes the usage of a quota, and the size of the data that it replaces."""

    __slots__ = ("bytes", "count", "path", "quotas", "replaced", "zxid")

    def __init__(self, zxid: Zxid, path: str, quotas: list[str], count: int, size: int) -> None:
        self.zxid = zxid
        self.path = path
        self.quotas = quotas
        self.count = count
        self.bytes = size
        self.replaced: tuple[Zxid, int] | None = None


class QuotaGuard:
    """Usage of the quotas by proposed changes that are not applied yet.

    `refusals` counts rejected writes, keyed by the first component of the path (updateQuotaExceededMetrics); the counts
    remain after the leader's term.
    """

    __slots__ = ("_log", "_pending", "_refusals", "_sizes", "_tree")

    def __init__(self, tree: DataTree, refusals: dict[str, int]) -> None:
        self._tree = tree
        self._refusals = refusals
        self._log: deque[_Change] = deque()
        # Number of znodes and bytes that proposals add, keyed by the quota's path.
        self._pending: dict[str, list[int]] = {}
        # Size of the proposed data of a znode, and the zxid of the transaction that sets it, keyed by path.
        self._sizes: dict[str, tuple[Zxid, int]] = {}

    def admits_create(self, path: str, data: bytes | None) -> bool:
        """Return whether the hard quotas allow a client to create this znode."""
        return self._admits(path, 1, len(data) if data else 0)

    def admits_data(self, path: str, data: bytes | None) -> bool:
        """Return whether the hard quotas allow this data for an existing znode."""
        return self._admits(path, 0, (len(data) if data else 0) - self._size(path))

    def created(self, zxid: Zxid, path: str, data: bytes | None) -> None:
        """Add a proposed create to the usage that is compared with the quotas."""
        size = len(data) if data else 0
        self._propose(zxid, path, 1, size, size)

    def data_set(self, zxid: Zxid, path: str, data: bytes | None) -> None:
        """Add a proposed change of a znode's data to the usage."""
        size = len(data) if data else 0
        self._propose(zxid, path, 0, size - self._size(path), size)

    def deleted(self, zxid: Zxid, path: str) -> None:
        """Subtract a proposed delete from the usage."""
        self._propose(zxid, path, -1, -self._size(path), 0)

    def applied(self, zxid: Zxid) -> None:
        """Forget the proposals up to `zxid`, which are included in the tree's own usage now."""
        log = self._log
        while log and log[0].zxid <= zxid:
            change = log.popleft()
            self._move(change, -1)
            latest = self._sizes.get(change.path)
            if latest is not None and latest[0] <= zxid:
                del self._sizes[change.path]

    def mark(self) -> int:
        """Return a mark of the current proposals, for a later `roll_back`."""
        return len(self._log)

    def roll_back(self, mark: int) -> None:
        """Remove the proposals made after `mark` was returned."""
        while len(self._log) > mark:
            change = self._log.pop()
            self._move(change, -1)
            if change.replaced is None:
                del self._sizes[change.path]
            else:
                self._sizes[change.path] = change.replaced

    def _size(self, path: str) -> int:
        proposed = self._sizes.get(path)
        if proposed is not None:
            return proposed[1]
        node = self._tree.nodes.get(path)
        return node.data_length if node is not None else 0

    def _admits(self, path: str, count: int, growth: int) -> bool:
        quota = self._tree.quotas.innermost(path)
        if quota is None or quota.stats_path not in self._tree.nodes:
            return True
        pending_count, pending_bytes = self._pending.get(quota.path, (0, 0))
        limits = quota.limits
        nodes = quota.count + pending_count + count
        used = quota.bytes + pending_bytes + growth
        too_many = count and limits.count_hard != NO_LIMIT and nodes > limits.count_hard
        if too_many or (growth and limits.bytes_hard != NO_LIMIT and used > limits.bytes_hard):
            namespace = path.split("/", 2)[1]
            self._refusals[namespace] = self._refusals.get(namespace, 0) + 1
            return False
        return True

    def _propose(self, zxid: Zxid, path: str, count: int, growth: int, size: int) -> None:
        if not self._tree.quotas.by_path:
            return
        quotas = [quota.path for quota in self._tree.quotas.enclosing(path)]
        if not quotas:
            return
        change = _Change(zxid, path, quotas, count, growth)
        change.replaced = self._sizes.get(path)
        self._sizes[path] = (zxid, size)
        self._log.append(change)
        self._move(change, 1)

    def _move(self, change: _Change, sign: int) -> None:
        for quota in change.quotas:
            pending = self._pending.setdefault(quota, [0, 0])
            pending[0] += sign * change.count
            pending[1] += sign * change.bytes
            if pending == [0, 0]:
                del self._pending[quota]
