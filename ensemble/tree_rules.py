"""What zoo.cfg says of the tree: which kinds of znodes there may be, when they go, whether quotas are enforced."""

from __future__ import annotations

import msgspec


class TreeRules(msgspec.Struct, frozen=True):
    """`extendedTypesEnabled` (nodes may have a time to live), `znode.container.*` and `enforceQuota`.  Times are in
    milliseconds; a container that never had a child stays for ever where `container_never_used_max_ms` is 0."""

    extended_types: bool = False
    container_check_interval_ms: int = 60_000
    container_deletes_per_minute: int = 10_000
    container_never_used_max_ms: int = 0
    enforce_quota: bool = False


DEFAULT_RULES = TreeRules()
