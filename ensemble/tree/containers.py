"""Znodes that the leader deletes: containers without children, and znodes whose time to live has expired.

This module decides when the leader deletes them (ContainerManager); `create_modes` defines how they are created.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from zabka.ensemble.ports import Instant
from zabka.ensemble.tree.create_modes import CONTAINER_OWNER, TTL_MAX_MS, is_ephemeral
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree_rules import TreeRules

_MINUTE_MS = 60_000


class Lasting(Protocol):
    """Interface of the znode fields, current or proposed, that determine whether a znode is due for deletion."""

    @property
    def child_count(self) -> int: ...
    @property
    def cversion(self) -> int: ...
    @property
    def ephemeral_owner(self) -> int: ...
    @property
    def mtime(self) -> int: ...


def has_lapsed(now: Instant, node: Lasting, rules: TreeRules) -> bool:
    """Return whether a znode is due for deletion: an empty container, or a znode whose time to live has expired."""
    owner = node.ephemeral_owner
    if not owner or is_ephemeral(owner) or node.child_count:
        return False
    age_ms = now.wall_ms - node.mtime
    if owner == CONTAINER_OWNER:
        # A container that never had a child (cversion 0) is not deleted before its maximum age, if there is one.
        never_used_max_ms = rules.container_never_used_max_ms
        return node.cversion > 0 or (never_used_max_ms != 0 and age_ms > never_used_max_ms)
    return rules.extended_types and age_ms > owner & TTL_MAX_MS


class ContainerCheck:
    """The leader's periodic check for empty containers and for znodes whose time to live has expired.

    The interval between checks is `container_check_interval_ms`. The owner calls `lapsed` every `period_ms`: a tick, or
    the interval if that is shorter. If many znodes have to be deleted, some of them are deleted in each period, within
    the limit per minute.
    """

    __slots__ = ("_asked_ms", "_due", "_earned", "_earned_max", "_next_ms", "_rules", "period_ms")

    def __init__(self, now: Instant, rules: TreeRules, tick_ms: int) -> None:
        self.period_ms = min(tick_ms, rules.container_check_interval_ms)
        self._rules = rules
        self._next_ms = now.mono_ms + rules.container_check_interval_ms
        self._asked_ms = now.mono_ms
        self._due: deque[str] = deque()
        # One deletion uses _MINUTE_MS units of the budget. Start with that number of units, so that the first deletion
        # can happen immediately, as in Java.
        self._earned_max = max(_MINUTE_MS, self.period_ms * rules.container_deletes_per_minute)
        self._earned = _MINUTE_MS if rules.container_deletes_per_minute else 0

    def lapsed(self, now: Instant, tree: DataTree) -> list[str]:
        """Return the paths of the znodes to delete now."""
        earned = self._earned + (now.mono_ms - self._asked_ms) * self._rules.container_deletes_per_minute
        self._earned, self._asked_ms = min(earned, self._earned_max), now.mono_ms
        if now.mono_ms >= self._next_ms:
            interval_ms = self._rules.container_check_interval_ms
            self._next_ms += interval_ms * ((now.mono_ms - self._next_ms) // interval_ms + 1)
            if not self._due:
                lapsed = (path for path in tree.lapsing if has_lapsed(now, tree.nodes[path], self._rules))
                self._due.extend(sorted(lapsed))
        paths: list[str] = []
        while self._due and self._earned >= _MINUTE_MS:
            path = self._due.popleft()
            node = tree.nodes.get(path)
            if node is not None and has_lapsed(now, node, self._rules):
                paths.append(path)
                self._earned -= _MINUTE_MS
        return paths
