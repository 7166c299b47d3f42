"""Clients held to their quotas: bytes a second that they may produce and fetch (Kafka's ClientQuotaManager, KIP-13).

A client over its quota is answered, told for how long it is throttled, and not heard until then (KIP-219).  Which quota
holds for a client, in this order: users/U/clients/C, users/U/clients/<default>, users/U, users/<default>/clients/C,
users/<default>/clients/<default>, users/<default>, clients/C, clients/<default>.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from broker_sim.configs.entity_configs import DEFAULT_ENTITY
from broker_sim.quotas.sampled_rate import SampledAmount, rate, rate_window_ms
from broker_sim.wire.data_messages import FetchResponse, ProduceResponse
from broker_sim.wire.kafka_schema import NO_TIME, milliseconds
from controller.ports import KafkaMessage
from ensemble.ports import Runtime

USER = "ANONYMOUS"
"""Who everybody is that comes by a listener without authentication."""
PRODUCER_RATE = "producer_byte_rate"
CONSUMER_RATE = "consumer_byte_rate"
METERS_MAX = 10_000
"""Clients that are measured at a time; the one that was silent longest goes first."""
SILENT_MS_MAX = 3_600_000
"""A client that was silent that long is measured no more (ClientQuotaManager.InactiveSensorExpirationTimeSeconds)."""
THROTTLE_MS_MAX = 2**31 - 1
_ABSENT = ""
_CLIENT, _USER, _USER_AND_CLIENT = 1, 2, 4
"""At which levels quotas were ever set: with one level alone a client's key is simple."""

_Key = tuple[str, str]
"""(user, client id): a name as it stands under /config, `<default>`, or "" where there is no such part."""


class _Meter:
    __slots__ = ("amount", "heard_ms")

    def __init__(self, windows: int, window_ms: int, now_ms: int) -> None:
        self.amount = SampledAmount(windows, window_ms)
        self.heard_ms = now_ms


class ClientQuota:
    """One kind of quota."""

    __slots__ = ("_levels", "_limits", "_meters", "_runtime", "_window_ms", "_windows")

    def __init__(self, runtime: Runtime, windows: int, window_seconds: int) -> None:
        self._runtime = runtime
        self._windows = windows
        self._window_ms = window_seconds * 1000
        self._levels = 0
        self._limits: dict[_Key, float] = {}
        self._meters: dict[_Key, _Meter] = {}

    @property
    def is_used(self) -> bool:
        """Was any such quota set since this broker started?"""
        return self._levels != 0

    def limit(self, user: str, client: str, bytes_per_second: float | None) -> None:
        """Set one quota, or remove it; names as in `_Key`, a client's as it calls itself."""
        key = user, client
        if bytes_per_second is None:
            self._limits.pop(key, None)
            return
        self._levels |= _USER_AND_CLIENT if user and client else _USER if user else _CLIENT
        self._limits[key] = bytes_per_second

    def _measured_as(self, client: str) -> _Key:
        """Who shares a meter with this client: those for whom the same quota holds and nothing finer."""
        if self._levels == _CLIENT:
            return _ABSENT, client
        if self._levels == _USER:
            return USER, _ABSENT
        if self._levels == _USER_AND_CLIENT:
            return USER, client
        for user in (USER, DEFAULT_ENTITY):
            if (user, client) in self._limits or (user, DEFAULT_ENTITY) in self._limits:
                return USER, client
            if (user, _ABSENT) in self._limits:
                return USER, _ABSENT
        return _ABSENT, client

    def _limit_of(self, key: _Key) -> float | None:
        user, client = key
        users = (user, DEFAULT_ENTITY) if user else (_ABSENT,)
        clients = (client, DEFAULT_ENTITY) if client else (_ABSENT,)
        for each in users:
            for other in clients:
                found = self._limits.get((each, other))
                if found is not None:
                    return found
        return None

    def most_at_once(self, client: str) -> float | None:
        """What a client may take at once without being throttled in any case; None where it has no quota."""
        limit = self._limit_of(self._measured_as(client)) if self.is_used else None
        return None if limit is None else limit * (self._windows - 1) * self._window_ms / 1000

    def note(self, client: str, size: int) -> int:
        """A client sent or got so many bytes; for how many milliseconds it is throttled."""
        if not self.is_used:
            return 0
        now_ms = self._runtime.now().mono_ms
        key = self._measured_as(client)
        meter = self._meter(key, now_ms)
        meter.amount.add(size, now_ms)
        limit = self._limit_of(key)
        if limit is None:
            return 0
        excess = rate(meter.amount, now_ms) - limit
        if excess <= 0:
            return 0
        window_ms = rate_window_ms(meter.amount, now_ms)
        return THROTTLE_MS_MAX if limit <= 0 else min(round(excess / limit * window_ms), THROTTLE_MS_MAX)

    def take_back(self, client: str, size: int) -> None:
        """What was noted last has not been sent after all."""
        now_ms = self._runtime.now().mono_ms
        self._meter(self._measured_as(client), now_ms).amount.add(-size, now_ms)

    def _meter(self, key: _Key, now_ms: int) -> _Meter:
        meter = self._meters.pop(key, None)
        if meter is None:
            meter = _Meter(self._windows, self._window_ms, now_ms)
            while self._meters and self._has_too_many(now_ms):
                del self._meters[next(iter(self._meters))]
        self._meters[key] = meter
        meter.heard_ms = now_ms
        return meter

    def _has_too_many(self, now_ms: int) -> bool:
        silent_longest = next(iter(self._meters.values()))
        return len(self._meters) >= METERS_MAX or now_ms - silent_longest.heard_ms > SILENT_MS_MAX


class ClientThrottles:
    """A broker's quotas of clients."""

    def __init__(self, runtime: Runtime, windows: int, window_seconds: int) -> None:
        self.produce = ClientQuota(runtime, windows, window_seconds)
        self.fetch = ClientQuota(runtime, windows, window_seconds)

    def take_over(self, entity: str, overrides: Mapping[str, str]) -> None:
        """What /config holds of "users/U", "users/U/clients/C" or "clients/C" became that."""
        parts = dict(zip(*[iter(entity.split("/"))] * 2, strict=True))
        user, client = parts.get("users", _ABSENT), parts.get("clients", _ABSENT)
        client = client if client == DEFAULT_ENTITY else unquote(client)
        for key, quota in ((PRODUCER_RATE, self.produce), (CONSUMER_RATE, self.fetch)):
            quota.limit(user, client, _number(overrides.get(key)))


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def muted_ms(response: KafkaMessage) -> int:
    """For how long nothing more is heard from a client that gets this answer."""
    if isinstance(response, ProduceResponse | FetchResponse) and response.throttle_time is not NO_TIME:
        return milliseconds(response.throttle_time)
    return 0
