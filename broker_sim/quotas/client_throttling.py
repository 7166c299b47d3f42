"""Clients held to their quotas (Kafka's ClientQuotaManager): bytes a second that they may produce and fetch (KIP-13),
the share of a thread's time that their requests may take (KIP-124), and partitions a second that they may have made
and deleted (KIP-599, `controller_mutations`).

A client over its quota is answered, told for how long it is throttled, and not heard until then (KIP-219).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from math import isnan, nan
from typing import Any
from urllib.parse import unquote

import msgspec

from zabka.broker_sim.configs.broker_config import KafkaConfig
from zabka.broker_sim.quotas.client_meters import THROTTLE_MS_MAX, ClientMeters
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
"""What brokers ask of each other is never held back."""
_BY_THEMSELVES = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
"""Requests whose handlers look at their time, with their bytes."""


class ClientQuota(ClientMeters[SampledAmount]):
    """One kind of quota: so much a second of something, on the average of a few windows of time."""

    __slots__ = ("_throttle_ms_max", "_window_ms", "_windows")

    def __init__(
        self, runtime: Runtime, windows: int, window_seconds: int, throttle_ms_max: int = THROTTLE_MS_MAX
    ) -> None:
        window_ms = window_seconds * 1000
        super().__init__(runtime, lambda _: SampledAmount(windows, window_ms))
        self._windows = windows
        self._window_ms = window_ms
        self._throttle_ms_max = throttle_ms_max

    def most_at_once(self, client: str) -> float | None:
        """What a client may take at once without being throttled in any case; None where it has no quota."""
        limit = self.limit_of(self.measured_as(client)) if self.is_used else None
        return None if limit is None else limit * (self._windows - 1) * self._window_ms / 1000

    def note(self, client: str, size: float) -> int:
        """A client took so much; for how many milliseconds it is throttled."""
        if not self.is_used:
            return 0
        now_ms = self._runtime.now().mono_ms
        key = self.measured_as(client)
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

    def add(self, client: str, size: float) -> None:
        """A client took so much more; whether that is too much is seen at its next request."""
        now_ms = self._runtime.now().mono_ms
        self.meter(self.measured_as(client), now_ms).add(size, now_ms)

    def take_back(self, client: str, size: float) -> None:
        """What was noted last has not been sent after all."""
        self.add(client, -size)


class RequestTime:
    """How much of a thread's time each client's requests take; 100 is one thread, all the time.

    A broker here has one thread, the one of its event loop, where Kafka's has num.io.threads and num.network.threads.
    What a request took is told by its context.
    """

    def __init__(self, runtime: Runtime, windows: int, window_seconds: int) -> None:
        self.quota = ClientQuota(runtime, windows, window_seconds, throttle_ms_max=window_seconds * 1000)

    @property
    def is_used(self) -> bool:
        """Was any such quota set since this broker started?"""
        return self.quota.is_used

    def note(self, context: RequestContext) -> int:
        """A request is about to be answered; for how many milliseconds its client is throttled."""
        return self.quota.note(context.client_id, context.clock.spent_ns() * _PERCENT_A_NANOSECOND)

    def add(self, client: str, spent_ns: int) -> None:
        """Writing the answer took that much more."""
        self.quota.add(client, spent_ns * _PERCENT_A_NANOSECOND)


class ClientThrottles:
    """A broker's quotas of clients."""

    def __init__(
        self, runtime: Runtime, windows: int, window_seconds: int, mutation_windows: int = 11, mutation_seconds: int = 1
    ) -> None:
        self.produce = ClientQuota(runtime, windows, window_seconds)
        self.fetch = ClientQuota(runtime, windows, window_seconds)
        self.request = RequestTime(runtime, windows, window_seconds)
        self.mutations = MutationQuota(runtime, mutation_windows, mutation_seconds)

    def take_over(self, entity: str, overrides: Mapping[str, str]) -> None:
        """What /config holds of "users/U", "users/U/clients/C" or "clients/C" became that."""
        parts = dict(zip(*[iter(entity.split("/"))] * 2, strict=True))
        user, client = parts.get("users", ""), parts.get("clients", "")
        client = client if client == DEFAULT_ENTITY else unquote(client)
        self.produce.limit(user, client, number(overrides.get(PRODUCER_RATE)))
        self.fetch.limit(user, client, number(overrides.get(CONSUMER_RATE)))
        self.request.quota.limit(user, client, number(overrides.get(REQUEST_PERCENTAGE)))
        self.mutations.limit(user, client, number(overrides.get(MUTATION_RATE)))

    def hold_to_request_time(self, response: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """An answer as it leaves: where its client's requests took too much time it says for how long that is
        throttled."""
        api_key = api_key_of(response)
        if api_key in _EXEMPT or api_key in _BY_THEMSELVES:
            return response
        throttle_ms = self.request.note(context)
        if throttle_ms <= context.muted_ms:
            return response
        context.muted_ms = throttle_ms
        return told_throttled(response, throttle_ms)


def told_throttled(response: KafkaMessage, throttle_ms: int) -> KafkaMessage:
    """The answer with that time in it, where its version has a place for it."""
    if not hasattr(response, "throttle_time"):
        return response
    message: Any = response
    replace: Any = msgspec.structs.replace if isinstance(response, msgspec.Struct) else dataclasses.replace
    told: KafkaMessage = replace(message, throttle_time=as_time(throttle_ms))
    return told


def number(text: str | None) -> float | None:
    """A quota out of a znode; what is no number counts as not there.

    Kafka's tools may set NaN, and nobody is throttled by it: Math.round makes 0 of it.
    """
    try:
        limit = nan if text is None else float(text)
    except ValueError:
        return None
    return None if isnan(limit) else limit


def client_throttles(config: KafkaConfig, runtime: Runtime) -> ClientThrottles:
    """A broker's quotas of clients, none of them set yet."""
    return ClientThrottles(
        runtime,
        config.number("quota.window.num"),
        config.number("quota.window.size.seconds"),
        config.number("controller.quota.window.num"),
        config.number("controller.quota.window.size.seconds"),
    )
