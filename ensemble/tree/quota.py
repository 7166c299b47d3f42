"""Quotas: usage and limits of the znodes and bytes in a subtree (Quotas, StatsTrack, DataTree.updateQuotaStat).

A quota on /a consists of two znodes that a client creates: /zookeeper/quota/a/zookeeper_limits contains the limits, and
/zookeeper/quota/a/zookeeper_stats contains the usage, which every server updates without separate transactions. Both
are in StatsTrack's format: `count=5,bytes=-1=;byteHardLimit=100;countHardLimit=-1`, where -1 means no limit.

Quotas are rarely nested (`setquota` rejects it). If they are, each quota counts the usage of its whole subtree.
ZooKeeper counts a change only for the innermost quota until it restarts, and then counts the whole subtree too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from zabka.ensemble.tree.nodes import Nodes
from zabka.ensemble.tree.paths import QUOTA, ZOOKEEPER, join, parent_of
from zabka.ensemble.tree.znode import HEAD_BYTES

LIMITS_NODE = "zookeeper_limits"
STATS_NODE = "zookeeper_stats"
QUOTA_PREFIX = QUOTA + "/"
NO_LIMIT = -1


class CountedTree(Protocol):
    """Interface of the tree whose usage the quotas count."""

    @property
    def nodes(self) -> Nodes:
        """All znodes, keyed by path."""
        ...

    def rewrite(self, path: str, data: bytes) -> None:
        """Replace the data of a zookeeper_stats znode, if it exists, without a transaction."""
        ...


class Limits(msgspec.Struct, frozen=True):
    """Limits in a zookeeper_limits znode; NO_LIMIT means no limit.

    A hard limit takes precedence over the soft limit.
    """

    count: int = NO_LIMIT
    bytes: int = NO_LIMIT
    count_hard: int = NO_LIMIT
    bytes_hard: int = NO_LIMIT

    @property
    def count_max(self) -> int:
        """Limit on the number of znodes: the hard limit if set, otherwise the soft limit."""
        return self.count_hard if self.count_hard != NO_LIMIT else self.count

    @property
    def bytes_max(self) -> int:
        """Limit on the number of data bytes: the hard limit if set, otherwise the soft limit."""
        return self.bytes_hard if self.bytes_hard != NO_LIMIT else self.bytes


def parse_limits(data: bytes | None) -> Limits:
    """Parse a string in StatsTrack's format; an invalid string means no limit."""
    values: dict[str, int] = {}
    for pair in (data or b"").decode("utf-8", "replace").replace(";", ",").split(","):
        key, _, value = pair.rstrip("=").partition("=")
        digits = value.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) < 20:
            values[key] = max(int(value), NO_LIMIT)
    return Limits(
        values.get("count", NO_LIMIT),
        values.get("bytes", NO_LIMIT),
        values.get("countHardLimit", NO_LIMIT),
        values.get("byteHardLimit", NO_LIMIT),
    )


def usage_text(count: int, size: int) -> bytes:
    """Return the content of a zookeeper_stats znode."""
    return b"count=%d,bytes=%d" % (count, size)


class Quota:
    """One quota: its subtree, limits and usage."""

    __slots__ = ("bytes", "count", "limits", "path", "stats_path")

    def __init__(self, path: str, limits: Limits, count: int, size: int) -> None:
        self.path = path
        self.stats_path = f"{QUOTA}{path}/{STATS_NODE}"
        self.limits = limits
        self.count = count
        self.bytes = size

    def exceeds(self) -> bool:
        """Whether the usage exceeds the effective limit on znodes or on bytes."""
        return 0 <= self.limits.count_max < self.count or 0 <= self.limits.bytes_max < self.bytes


class Quotas:
    """All quotas of a tree, keyed by path. They must be notified of every change of the tree, in order.

    `passed` contains the quotas that exceeded a limit after a change; the code that reads the list empties it.
    """

    __slots__ = ("by_path", "passed")

    def __init__(self) -> None:
        self.by_path: dict[str, Quota] = {}
        self.passed: list[Quota] = []

    def load(self, tree: CountedTree) -> None:
        """Find every quota in a loaded tree, and count the usage of each."""
        self.by_path.clear()
        below = [QUOTA]
        while below:
            path = below.pop()
            for name in tree.nodes[path].children:
                child = join(path, name)
                if name == LIMITS_NODE:
                    self._limits_set(tree, child)
                else:
                    below.append(child)

    def innermost(self, path: str) -> Quota | None:
        """Return the innermost quota that applies to this path, or None."""
        return next(self.enclosing(path), None)

    def enclosing(self, path: str) -> Iterator[Quota]:
        """Yield every quota that applies to this path, the innermost first."""
        by_path = self.by_path
        while path:
            if path in by_path:
                yield by_path[path]
            path = path[: path.rfind("/")]

    def created(self, tree: CountedTree, path: str, data: bytes | None) -> None:
        """Add a new znode to the usage of the quotas that apply to it."""
        if self.by_path:
            self._count(tree, path, 1, len(data) if data else 0)
        if path.startswith(QUOTA_PREFIX):
            name = path[path.rfind("/") + 1 :]
            if name == LIMITS_NODE:
                self._limits_set(tree, path)
            elif name == STATS_NODE:
                self._stats_made(tree, path)

    def deleted(self, tree: CountedTree, path: str, data: bytes | None) -> None:
        """Subtract a deleted znode from the usage of the quotas that apply to it."""
        if path.startswith(QUOTA_PREFIX) and path.endswith("/" + LIMITS_NODE):
            self.by_path.pop(_subject(path), None)
        if self.by_path:
            self._count(tree, path, -1, -len(data) if data else 0)

    def resized(self, tree: CountedTree, path: str, before: bytes | None, after: bytes | None) -> None:
        """Update the usage after a change of a znode's data."""
        if path.startswith(QUOTA_PREFIX) and path.endswith("/" + LIMITS_NODE):
            quota = self.by_path.get(_subject(path))
            if quota is not None:
                quota.limits = parse_limits(after)
        self._count(tree, path, 0, (len(after) if after else 0) - (len(before) if before else 0))

    def _limits_set(self, tree: CountedTree, path: str) -> None:
        """Add or update the quota whose limits were set in the znode at `path`.

        A quota on the root or on the znodes of ZooKeeper itself is ignored: each update of its usage would count as
        another change.
        """
        subject = _subject(path)
        if subject and subject != ZOOKEEPER and not subject.startswith(ZOOKEEPER + "/"):
            count, size = usage_of(tree, subject)
            quota = self.by_path[subject] = Quota(subject, parse_limits(tree.nodes[path].data), count, size)
            tree.rewrite(quota.stats_path, usage_text(count, size))

    def _stats_made(self, tree: CountedTree, path: str) -> None:
        subject = _subject(path)
        if subject:
            tree.rewrite(path, usage_text(*usage_of(tree, subject)))

    def _count(self, tree: CountedTree, path: str, count: int, size: int) -> None:
        for quota in self.enclosing(path):
            exceeded = quota.exceeds()
            quota.count += count
            quota.bytes += size
            if not exceeded and quota.exceeds():
                self.passed.append(quota)
            tree.rewrite(quota.stats_path, usage_text(quota.count, quota.bytes))


def _subject(path: str) -> str:
    """Return the path that a quota applies to, given its limits or stats znode; "" for the root."""
    return parent_of(path)[len(QUOTA) :]


def usage_of(tree: CountedTree, path: str) -> tuple[int, int]:
    """Return the number of znodes, and of their data bytes, at and below a path."""
    own = tree.nodes.value(path)
    if own is None:
        return 0, 0
    count, size = 1, len(own)
    for siblings in tree.nodes.subtree(path):
        count += len(siblings)
        size += sum(map(len, siblings.values()))
    return count, size - count * HEAD_BYTES
