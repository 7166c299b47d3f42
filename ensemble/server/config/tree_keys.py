"""The keys of zoo.cfg about containers, times to live and quotas; ZooKeeper takes them as system properties."""

from __future__ import annotations

from ensemble.server.config.config_values import ConfigError, Values
from ensemble.tree_rules import TreeRules

_LONG_MAX = 2**63 - 1
_ID_MAX_EXTENDED = 254


def read_tree_rules(values: Values, my_id: int) -> TreeRules:
    """The tree's rules.  Raises ConfigError: also where `extendedTypesEnabled` meets a server id whose sessions would
    look like times to live (EphemeralType.validateServerId)."""
    rules = TreeRules(
        extended_types=values.flag("extendedTypesEnabled", False),
        container_check_interval_ms=values.number("znode.container.checkIntervalMs", 60_000, 1),
        container_deletes_per_minute=values.number("znode.container.maxPerMinute", 10_000, 1),
        container_never_used_max_ms=values.number("znode.container.maxNeverUsedIntervalMs", 0, 0, _LONG_MAX),
        enforce_quota=values.flag("enforceQuota", False),
    )
    if rules.extended_types and my_id > _ID_MAX_EXTENDED:
        raise ConfigError(f"extendedTypesEnabled=true needs a server id of at most {_ID_MAX_EXTENDED}, not {my_id}")
    return rules
