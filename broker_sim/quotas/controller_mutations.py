"""Partitions a second that a client may have made and deleted (KIP-599, Kafka's ControllerMutationQuotaManager).

A bucket of tokens, one for each partition: it fills at the rate of the quota, up to what all windows together allow,
and a request that finds any may take more than there are.  The next one has to wait until it is paid for.
"""

from __future__ import annotations

from typing import Protocol

from kio.schema.errors import ErrorCode

from zabka.broker_sim.quotas.client_meters import THROTTLE_MS_MAX, ClientMeters
from zabka.broker_sim.refusals import Refused
from zabka.ensemble.ports import Runtime

EXCEEDED = "The throttling quota has been exceeded."


class TokenBucket:
    """Tokens of one client (org.apache.kafka.common.metrics.stats.TokenBucket).  A new one is full."""

    __slots__ = ("_filled_ms", "_seconds", "_tokens")

    def __init__(self, seconds: int, now_ms: int) -> None:
        """`seconds` of the rate are the most it holds."""
        self._seconds = seconds
        self._tokens = float("inf")
        self._filled_ms = now_ms

    def tokens(self, per_second: float, now_ms: int) -> float:
        """What is there now; less than nothing where it is in debt."""
        fresh = per_second * (now_ms - self._filled_ms) / 1000
        self._tokens = min(per_second * self._seconds, self._tokens + fresh)
        self._filled_ms = now_ms
        return self._tokens

    def take_tokens(self, count: float) -> None:
        """Take tokens, whether there are any or not."""
        self._tokens -= count


class Mutations(Protocol):
    """What one request's changes to partitions are counted by."""

    @property
    def throttle_ms(self) -> int:
        """For how long the client is throttled from now on."""

    def record(self, partitions: int) -> None:
        """So many partitions are about to be made or deleted.  Raises Refused where that may not be."""


class Unlimited:
    """Nobody has a quota, or asks for one."""

    throttle_ms = 0

    def record(self, partitions: int) -> None:
        """Let it pass."""


class _Held:
    def __init__(self, quota: MutationQuota, client: str) -> None:
        self._quota = quota
        self._client = client
        self._throttle_ms = 0
        self._recorded_ms = 0

    @property
    def throttle_ms(self) -> int:
        """For how long the client is throttled from now on: the changes themselves took some of the time."""
        return max(0, self._throttle_ms - (self._quota.now_ms() - self._recorded_ms))

    def _throttled(self, throttle_ms: int) -> None:
        self._throttle_ms, self._recorded_ms = throttle_ms, self._quota.now_ms()


class Strict(_Held):
    """A client that knows THROTTLING_QUOTA_EXCEEDED: what is over the quota is not done."""

    def record(self, partitions: int) -> None:
        """Count them, or where the client is in debt refuse.  Raises Refused."""
        owed_ms = self._quota.owed_ms(self._client)
        if owed_ms:
            self._throttled(owed_ms)
            raise Refused(ErrorCode.throttling_quota_exceeded, EXCEEDED)
        self._quota.take_tokens(self._client, partitions)


class Permissive(_Held):
    """An older client: all is done, and the client throttled for it."""

    def record(self, partitions: int) -> None:
        """Count them."""
        self._quota.take_tokens(self._client, partitions)
        owed_ms = self._quota.owed_ms(self._client)
        if owed_ms:
            self._throttled(owed_ms)


class MutationQuota(ClientMeters[TokenBucket]):
    """Every client's bucket."""

    __slots__ = ()

    def __init__(self, runtime: Runtime, windows: int, window_seconds: int) -> None:
        super().__init__(runtime, lambda now_ms: TokenBucket(windows * window_seconds, now_ms))

    def of_request(self, client: str, version: int, strict_since: int) -> Mutations:
        """What a client's request is counted by: from that version on the client is told what was not done."""
        if not self.is_used:
            return Unlimited()
        return Strict(self, client) if version >= strict_since else Permissive(self, client)

    def permissive(self, client: str) -> Mutations:
        """What is made because a client asked about it, not for it."""
        return Permissive(self, client) if self.is_used else Unlimited()

    def now_ms(self) -> int:
        """The moment by which the buckets fill."""
        return self._runtime.now().mono_ms

    def take_tokens(self, client: str, count: int) -> None:
        """Take tokens of a client."""
        now_ms, key = self.now_ms(), self.measured_as(client)
        limit = self.limit_of(key)
        if limit is not None:
            bucket = self.meter(key, now_ms)
            bucket.tokens(limit, now_ms)
            bucket.take_tokens(count)

    def owed_ms(self, client: str) -> int:
        """How long until a client's bucket holds nothing rather than less; 0 where it does."""
        now_ms, key = self.now_ms(), self.measured_as(client)
        limit = self.limit_of(key)
        if limit is None:
            return 0
        tokens = self.meter(key, now_ms).tokens(limit, now_ms)
        if tokens >= 0:
            return 0
        return THROTTLE_MS_MAX if limit <= 0 else max(1, round(min(-tokens / limit * 1000, THROTTLE_MS_MAX)))
