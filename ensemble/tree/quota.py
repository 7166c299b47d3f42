"""Quotas: how many znodes and bytes a subtree holds, and may hold (Quotas, StatsTrack, DataTree.updateQuotaStat).

A quota on /a lives in two znodes that a client makes: /zookeeper/quota/a/zookeeper_limits says what is allowed, and
/zookeeper/quota/a/zookeeper_stats is kept up to date by every server, without transactions of its own.  Both hold
StatsTrack's text: `count=5,bytes=-1=;byteHardLimit=100;countHardLimit=-1`, where -1 is no limit.

Quotas hardly nest (`setquota` refuses it); where they do, the usage of each is that of its whole subtree.  ZooKeeper
counts a change for the innermost alone until it restarts, and then counts anew as here.
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
    """What quotas need of the tree whose znodes they count."""

    @property
    def nodes(self) -> Nodes:
        """Every znode by its path."""
        ...

    def rewrite(self, path: str, data: bytes) -> None:
        """Replace the data of a zookeeper_stats znode, where there is one, without a transaction."""
        ...


class Limits(msgspec.Struct, frozen=True):
    """What a zookeeper_limits znode says; NO_LIMIT is none.  A hard limit stands in for the soft one beside it."""

    count: int = NO_LIMIT
    bytes: int = NO_LIMIT
    count_hard: int = NO_LIMIT
    bytes_hard: int = NO_LIMIT

    @property
    def count_max(self) -> int:
        """The limit on znodes that counts, hard or soft."""
        return self.count_hard if self.count_hard != NO_LIMIT else self.count

    @property
    def bytes_max(self) -> int:
        """The limit on bytes that counts, hard or soft."""
        return self.bytes_hard if self.bytes_hard != NO_LIMIT else self.bytes


def parse_limits(data: bytes | None) -> Limits:
    """Read StatsTrack's text; what cannot be read is no limit."""
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
    """What a zookeeper_stats znode holds."""
    return b"count=%d,bytes=%d" % (count, size)


class Quota:
    """A quota: on which subtree, with which limits, and how much is used of them."""

    __slots__ = ("bytes", "count", "limits", "path", "stats_path")

    def __init__(self, path: str, limits: Limits, count: int, size: int) -> None:
        self.path = path
        self.stats_path = f"{QUOTA}{path}/{STATS_NODE}"
        self.limits = limits
        self.count = count
        self.bytes = size

    def exceeds(self) -> bool:
        """Whether more is used than either limit, hard or soft, allows."""
        return 0 <= self.limits.count_max < self.count or 0 <= self.limits.bytes_max < self.bytes


class Quotas:
    """The quotas of a tree, by the path they are on.  Changes of the tree must be told, in order.

    `passed` are quotas whose usage went beyond a limit by a change; whoever takes note of them empties the list.
    """

    __slots__ = ("by_path", "passed")

    def __init__(self) -> None:
        self.by_path: dict[str, Quota] = {}
        self.passed: list[Quota] = []

    def load(self, tree: CountedTree) -> None:
        """Find every quota in a tree that came as a whole, and count what each holds."""
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
        """The quota that a znode at this path falls under, None where there is none."""
        return next(self.enclosing(path), None)

    def enclosing(self, path: str) -> Iterator[Quota]:
        """Every quota that a znode at this path counts for, the innermost first."""
        by_path = self.by_path
        while path:
            if path in by_path:
                yield by_path[path]
            path = path[: path.rfind("/")]

    def created(self, tree: CountedTree, path: str, data: bytes | None) -> None:
        """A znode was made."""
        if self.by_path:
            self._count(tree, path, 1, len(data) if data else 0)
        if path.startswith(QUOTA_PREFIX):
            name = path[path.rfind("/") + 1 :]
            if name == LIMITS_NODE:
                self._limits_set(tree, path)
            elif name == STATS_NODE:
                self._stats_made(tree, path)

    def deleted(self, tree: CountedTree, path: str, data: bytes | None) -> None:
        """A znode is gone."""
        if path.startswith(QUOTA_PREFIX) and path.endswith("/" + LIMITS_NODE):
            self.by_path.pop(_subject(path), None)
        if self.by_path:
            self._count(tree, path, -1, -len(data) if data else 0)

    def resized(self, tree: CountedTree, path: str, before: bytes | None, after: bytes | None) -> None:
        """A znode's data changed."""
        if path.startswith(QUOTA_PREFIX) and path.endswith("/" + LIMITS_NODE):
            quota = self.by_path.get(_subject(path))
            if quota is not None:
                quota.limits = parse_limits(after)
        self._count(tree, path, 0, (len(after) if after else 0) - (len(before) if before else 0))

    def _limits_set(self, tree: CountedTree, path: str) -> None:
        """There is a quota now.  None is kept on the root, nor on ZooKeeper's own znodes, which it would change."""
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
    """What the quota is on whose limits or statistics are in this znode; empty for the root."""
    return parent_of(path)[len(QUOTA) :]


def usage_of(tree: CountedTree, path: str) -> tuple[int, int]:
    """How many znodes and bytes of data there are at a path and below it."""
    own = tree.nodes.value(path)
    if own is None:
        return 0, 0
    count, size = 1, len(own)
    for siblings in tree.nodes.subtree(path):
        count += len(siblings)
        size += sum(map(len, siblings.values()))
    return count, size - count * HEAD_BYTES
