"""Znodes that go by themselves: containers, once their children are gone, and nodes with a time to live.

When the leader deletes what has had its time (ContainerManager); how such znodes come to be is in `create_modes`.
"""

from __future__ import annotations

from collections import deque

from ensemble.ports import Instant
from ensemble.tree.create_modes import CONTAINER_OWNER, TTL_MAX_MS
from ensemble.tree.datatree import DataTree
from ensemble.tree.znode import Znode
from ensemble.tree_rules import TreeRules

_MINUTE_MS = 60_000


class ContainerCheck:
    """The leader's look at containers and times to live, every `container_check_interval_ms`.

    It is asked every `period_ms`, which is a tick, or the interval where that is shorter.  Where many have had their
    time, they go a few each period, no more in a minute than the rules allow.
    """

    __slots__ = ("_asked_ms", "_due", "_earned", "_earned_max", "_next_ms", "_rules", "period_ms")

    def __init__(self, now: Instant, rules: TreeRules, tick_ms: int) -> None:
        self.period_ms = min(tick_ms, rules.container_check_interval_ms)
        self._rules = rules
        self._next_ms = now.mono_ms + rules.container_check_interval_ms
        self._asked_ms = now.mono_ms
        self._due: deque[str] = deque()
        # In parts of a deletion, of which each costs a minute's worth: the first may go at once, as in Java.
        self._earned_max = max(_MINUTE_MS, self.period_ms * rules.container_deletes_per_minute)
        self._earned = _MINUTE_MS

    def lapsed(self, now: Instant, tree: DataTree) -> list[str]:
        """Paths to delete now."""
        earned = self._earned + (now.mono_ms - self._asked_ms) * self._rules.container_deletes_per_minute
        self._earned, self._asked_ms = min(earned, self._earned_max), now.mono_ms
        if now.mono_ms >= self._next_ms:
            interval_ms = self._rules.container_check_interval_ms
            self._next_ms += interval_ms * ((now.mono_ms - self._next_ms) // interval_ms + 1)
            if not self._due:
                self._due.extend(sorted(path for path in tree.lapsing if self._has_lapsed(now, tree.nodes[path])))
        paths: list[str] = []
        while self._due and self._earned >= _MINUTE_MS:
            path = self._due.popleft()
            node = tree.nodes.get(path)
            if node is not None and path in tree.lapsing and self._has_lapsed(now, node):
                paths.append(path)
                self._earned -= _MINUTE_MS
        return paths

    def _has_lapsed(self, now: Instant, node: Znode) -> bool:
        if node.child_count:
            return False
        age_ms = now.wall_ms - node.mtime
        if node.ephemeral_owner == CONTAINER_OWNER:
            # One that had no child yet is only waiting for its first.
            return node.cversion > 0 or 0 < self._rules.container_never_used_max_ms < age_ms
        return self._rules.extended_types and age_ms > node.ephemeral_owner & TTL_MAX_MS
