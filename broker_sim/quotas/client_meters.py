"""Finds the quota that applies to a client, and the meter that the client shares (Kafka's ClientQuotaManager).

The first of these quotas that is set applies: users/U/clients/C, users/U/clients/<default>, users/U,
users/<default>/clients/C, users/<default>/clients/<default>, users/<default>, clients/C, clients/<default>.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Generic, TypeVar

from zabka.broker_sim.configs.entity_znodes import node_name
from zabka.broker_sim.principals import ANONYMOUS
from zabka.ensemble.ports import Runtime
from zabka.kafka.zk.znodes import DEFAULT_ENTITY

M = TypeVar("M")

ANONYMOUS_USER = ANONYMOUS.name
"""The user of every client on a listener without authentication."""
METERS_MAX = 10_000
"""Maximum number of meters. The meter that has been idle longest is dropped first."""
SILENT_MS_MAX = 3_600_000
"""Idle time after which a client's meter is dropped (ClientQuotaManager.InactiveSensorExpirationTimeSeconds)."""
THROTTLE_MS_MAX = 2**31 - 1
_ABSENT = ""
_CLIENT, _USER, _USER_AND_CLIENT = 1, 2, 4
"""Bits for the levels at which a quota was ever set. If there is only one level, the key of a client's meter is found
quickly.
"""

_node = lru_cache(1_000)(node_name)

Key = tuple[str, str]
"""(user, client id). Each is the znode name under /config, `<default>`, or "" if the quota does not depend on it."""


class _Meter(Generic[M]):
    __slots__ = ("last_used_ms", "measured")

    def __init__(self, measured: M, now_ms: int) -> None:
        self.measured = measured
        self.last_used_ms = now_ms


class ClientMeters(Generic[M]):
    """One kind of client quota: its limits, and the meters of the clients. `new_meter(now_ms)` creates a meter."""

    __slots__ = ("_levels", "_limits", "_meters", "_new_meter", "_runtime")

    def __init__(self, runtime: Runtime, new_meter: Callable[[int], M]) -> None:
        self._runtime = runtime
        self._new_meter = new_meter
        self._levels = 0
        self._limits: dict[Key, float] = {}
        self._meters: dict[Key, _Meter[M]] = {}

    @property
    def is_used(self) -> bool:
        """Whether any quota of this kind has been set since this broker started."""
        return self._levels != 0

    def limit(self, user: str, client: str, per_second: float | None) -> None:
        """Set one quota, or remove it if `per_second` is None.

        `user` and `client` have the form of the names in `Key`, except that `client` can be a client id.
        """
        key = user, client
        if per_second is None:
            self._limits.pop(key, None)
            return
        self._levels |= _USER_AND_CLIENT if user and client else _USER if user else _CLIENT
        self._limits[key] = per_second

    def measured_as(self, client: str, user: str = ANONYMOUS_USER) -> Key:
        """Return the key of a client's meter. All clients without a more specific quota share a meter.

        `user` is the name of the client's principal.
        """
        if self._levels == _CLIENT:
            return _ABSENT, client
        node = _node(user)
        if self._levels == _USER:
            return node, _ABSENT
        if self._levels == _USER_AND_CLIENT:
            return node, client
        for each in (node, DEFAULT_ENTITY):
            if (each, client) in self._limits or (each, DEFAULT_ENTITY) in self._limits:
                return node, client
            if (each, _ABSENT) in self._limits:
                return node, _ABSENT
        return _ABSENT, client

    def limit_of(self, key: Key) -> float | None:
        """Return the quota for a meter's key, or None if there is none."""
        user, client = key
        users = (user, DEFAULT_ENTITY) if user else (_ABSENT,)
        clients = (client, DEFAULT_ENTITY) if client else (_ABSENT,)
        for each in users:
            for other in clients:
                found = self._limits.get((each, other))
                if found is not None:
                    return found
        return None

    def meter(self, key: Key, now_ms: int) -> M:
        """Return the meter for a key. Create it if necessary."""
        meter = self._meters.pop(key, None)
        if meter is None:
            meter = _Meter(self._new_meter(now_ms), now_ms)
            while self._meters and self._has_too_many(now_ms):
                del self._meters[next(iter(self._meters))]
        self._meters[key] = meter
        meter.last_used_ms = now_ms
        return meter.measured

    def _has_too_many(self, now_ms: int) -> bool:
        silent_longest = next(iter(self._meters.values()))
        return len(self._meters) >= METERS_MAX or now_ms - silent_longest.last_used_ms > SILENT_MS_MAX
