"""Enforcement of client quotas (Kafka's ClientQuotaManager).

There are three kinds: bytes per second that a client can produce and fetch (KIP-13), the share of a thread's time that
its requests can take (KIP-124), and partitions per second that it can create and delete (KIP-599,
`controller_mutations`).

If a client exceeds its quota, its response contains the throttle time, and its connection is muted for that time
(KIP-219).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from math import isnan, nan
from typing import Any
from urllib.parse import unquote

import msgspec

from zabka.broker_sim.configs.broker_config import KafkaConfig
from zabka.broker_sim.quotas.client_meters import ANONYMOUS_USER, THROTTLE_MS_MAX, ClientMeters
from zabka.broker_sim.quotas.controller_mutations import MutationQuota
from zabka.broker_sim.quotas.sampled_rate import SampledAmount, rate, rate_window_ms
from zabka.broker_sim.request_context import RequestContext
from zabka.ensemble.ports import Runtime
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of, as_time
from zabka.kafka.zk.znodes import DEFAULT_ENTITY

PRODUCER_RATE = "producer_byte_rate"
CONSUMER_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
MUTATION_RATE = "controller_mutation_rate"
_PERCENT_A_NANOSECOND = 100.0 / 1_000_000_000
_EXEMPT = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
    }
)
"""Requests between brokers, which are never throttled."""
_BY_THEMSELVES = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
"""Requests whose handlers charge the request's time themselves, together with its bytes."""


class ClientQuota(ClientMeters[SampledAmount]):
    """One kind of client quota: an amount per second, averaged over a few time windows."""

    __slots__ = ("_throttle_ms_max", "_window_ms", "_windows")

    def __init__(
        self, runtime: Runtime, windows: int, window_seconds: int, throttle_ms_max: int = THROTTLE_MS_MAX
    ) -> None:
        window_ms = window_seconds * 1000
        super().__init__(runtime, lambda _: SampledAmount(windows, window_ms))
        self._windows = windows
        self._window_ms = window_ms
        self._throttle_ms_max = throttle_ms_max

    def most_at_once(self, client: str, user: str = ANONYMOUS_USER) -> float | None:
        """Return the largest amount that can be charged at once without causing throttling, or None without a quota."""
        limit = self.limit_of(self.measured_as(client, user)) if self.is_used else None
        return None if limit is None else limit * (self._windows - 1) * self._window_ms / 1000

    def note(self, client: str, size: float, user: str = ANONYMOUS_USER) -> int:
        """Charge an amount to a client. Return the time for which to throttle the client, in milliseconds."""
        if not self.is_used:
            return 0
        now_ms = self._runtime.now().mono_ms
        key = self.measured_as(client, user)
        amount = self.meter(key, now_ms)
        amount.add(size, now_ms)
        limit = self.limit_of(key)
        if limit is None:
            return 0
        excess = rate(amount, now_ms) - limit
        if excess <= 0:
            return 0
        if limit <= 0:
            return self._throttle_ms_max
        return round(min(excess / limit * rate_window_ms(amount, now_ms), self._throttle_ms_max))

    def add(self, client: str, size: float, user: str = ANONYMOUS_USER) -> None:
        """Charge an additional amount to a client. The charge can cause throttling only at the next request."""
        now_ms = self._runtime.now().mono_ms
        self.meter(self.measured_as(client, user), now_ms).add(size, now_ms)

    def take_back(self, client: str, size: float, user: str = ANONYMOUS_USER) -> None:
        """Credit an amount that was just charged, because the data were not sent."""
        self.add(client, -size, user)


class RequestTime:
    """The share of a thread's time that each client's requests take; 100 is the whole time of one thread.

    A zabka broker has one thread, which runs its event loop, where Kafka has num.io.threads and num.network.threads.
    The context of a request measures the time that the request takes.
    """

    def __init__(self, runtime: Runtime, windows: int, window_seconds: int) -> None:
        self.quota = ClientQuota(runtime, windows, window_seconds, throttle_ms_max=window_seconds * 1000)

    @property
    def is_used(self) -> bool:
        """Whether any request quota has been set since this broker started."""
        return self.quota.is_used

    def note(self, context: RequestContext) -> int:
        """Charge the time of a request before its response is sent. Return its client's throttle time in
        milliseconds.
        """
        spent = context.clock.spent_ns() * _PERCENT_A_NANOSECOND
        return self.quota.note(context.client_id, spent, context.principal.name)

    def add(self, client: str, spent_ns: int, user: str = ANONYMOUS_USER) -> None:
        """Charge the time of writing a response to its client."""
        self.quota.add(client, spent_ns * _PERCENT_A_NANOSECOND, user)


class ClientThrottles:
    """The client quotas of a broker, of all kinds."""

    def __init__(
        self, runtime: Runtime, windows: int, window_seconds: int, mutation_windows: int = 11, mutation_seconds: int = 1
    ) -> None:
        self.produce = ClientQuota(runtime, windows, window_seconds)
        self.fetch = ClientQuota(runtime, windows, window_seconds)
        self.request = RequestTime(runtime, windows, window_seconds)
        self.mutations = MutationQuota(runtime, mutation_windows, mutation_seconds)

    def take_over(self, entity: str, overrides: Mapping[str, str]) -> None:
        """Apply the overrides of "users/U", "users/U/clients/C" or "clients/C"."""
        parts = dict(zip(*[iter(entity.split("/"))] * 2, strict=True))
        user, client = parts.get("users", ""), parts.get("clients", "")
        client = client if client == DEFAULT_ENTITY else unquote(client)
        self.produce.limit(user, client, number(overrides.get(PRODUCER_RATE)))
        self.fetch.limit(user, client, number(overrides.get(CONSUMER_RATE)))
        self.request.quota.limit(user, client, number(overrides.get(REQUEST_PERCENTAGE)))
        self.mutations.limit(user, client, number(overrides.get(MUTATION_RATE)))

    def hold_to_request_time(self, response: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Charge a request's time to its client.

        Return the response, with the throttle time if the client exceeds its quota.
        """
        api_key = api_key_of(response)
        if api_key in _EXEMPT or api_key in _BY_THEMSELVES:
            return response
        throttle_ms = self.request.note(context)
        if throttle_ms <= context.muted_ms:
            return response
        context.muted_ms = throttle_ms
        return with_throttle_time(response, throttle_ms)


def with_throttle_time(response: KafkaMessage, throttle_ms: int) -> KafkaMessage:
    """Return the response with this throttle time, if the response's version has the field."""
    if not hasattr(response, "throttle_time"):
        return response
    message: Any = response
    replace: Any = msgspec.structs.replace if isinstance(response, msgspec.Struct) else dataclasses.replace
    throttled: KafkaMessage = replace(message, throttle_time=as_time(throttle_ms))
    return throttled


def number(text: str | None) -> float | None:
    """Parse a quota from a znode. A string that is not a number counts as no quota.

    Kafka's tools can set NaN, which throttles no client, because Math.round converts it to 0.
    """
    try:
        limit = nan if text is None else float(text)
    except ValueError:
        return None
    return None if isnan(limit) else limit


def client_throttles(config: KafkaConfig, runtime: Runtime) -> ClientThrottles:
    """Return a broker's client quotas, without any limits yet."""
    return ClientThrottles(
        runtime,
        config.number("quota.window.num"),
        config.number("quota.window.size.seconds"),
        config.number("controller.quota.window.num"),
        config.number("controller.quota.window.size.seconds"),
    )
