"""The keys of zoo.cfg about containers, times to live and quotas; ZooKeeper takes them as system properties."""

from __future__ import annotations

from zabka.ensemble.server.config.config_values import INT_MAX, LONG_MAX, LONG_MIN, ConfigError, Values
from zabka.ensemble.tree_rules import TreeRules

_ID_MAX_EXTENDED = 254


def read_tree_rules(values: Values, my_id: int) -> TreeRules:
    """The tree's rules.  Raises ConfigError: also where `extendedTypesEnabled` meets a server id whose sessions would
    look like times to live (EphemeralType.validateServerId)."""
    rules = TreeRules(
        extended_types=values.property_flag("extendedTypesEnabled", False),
        # A Timer of Java's takes no other period.
        container_check_interval_ms=values.usable_number("znode.container.checkIntervalMs", 60_000, 1),
        container_deletes_per_minute=_deletes_per_minute(values, "znode.container.maxPerMinute"),
        container_never_used_max_ms=values.property_number(
            "znode.container.maxNeverUsedIntervalMs", 0, LONG_MIN, LONG_MAX
        ),
        enforce_quota=values.property_flag("enforceQuota", False),
    )
    if rules.extended_types and my_id > _ID_MAX_EXTENDED:
        raise ConfigError(f"extendedTypesEnabled=true needs a server id of at most {_ID_MAX_EXTENDED}, not {my_id}")
    return rules


def _deletes_per_minute(values: Values, key: str) -> int:
    """ZooKeeper divides a minute by this number: 0 fails each time and deletes none, below 0 there is no wait."""
    found = values.property_number(key, 10_000)
    if found == 0:
        values.warn(f"{key}=0: no container and no znode with a time to live is deleted")
    return found if found >= 0 else INT_MAX
