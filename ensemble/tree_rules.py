"""zoo.cfg settings of the tree: allowed kinds of znodes, when they are deleted, whether quotas are enforced."""

from __future__ import annotations

import msgspec


class TreeRules(msgspec.Struct, frozen=True):
    """Values of `extendedTypesEnabled` (znodes can have a time to live), `znode.container.*` and `enforceQuota`.

    Times are in milliseconds. If `container_never_used_max_ms` is 0, a container that never had a child is never
    deleted.
    """

    extended_types: bool = False
    container_check_interval_ms: int = 60_000
    container_deletes_per_minute: int = 10_000
    container_never_used_max_ms: int = 0
    enforce_quota: bool = False


DEFAULT_RULES = TreeRules()
