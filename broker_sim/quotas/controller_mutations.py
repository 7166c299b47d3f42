"""Quota for partitions per second that a client creates and deletes (KIP-599, Kafka's ControllerMutationQuotaManager).

A token bucket has one token per partition. It fills at the rate of the quota, and holds at most the tokens of all time
windows together. If there is at least one token, a request can take more tokens than there are. The next request must
then wait until the number of tokens is no longer negative.
"""

from __future__ import annotations

from typing import Protocol

from kio.schema.errors import ErrorCode

from zabka.broker_sim.quotas.client_meters import ANONYMOUS_USER, THROTTLE_MS_MAX, ClientMeters
from zabka.broker_sim.refusals import Refused
from zabka.ensemble.ports import Runtime

EXCEEDED = "The throttling quota has been exceeded."


class TokenBucket:
    """The token bucket of one client (org.apache.kafka.common.metrics.stats.TokenBucket). A new bucket is full."""

    __slots__ = ("_filled_ms", "_seconds", "_tokens")

    def __init__(self, seconds: int, now_ms: int) -> None:
        """The bucket contains at most `seconds` times the rate."""
        self._seconds = seconds
        self._tokens = float("inf")
        self._filled_ms = now_ms

    def tokens(self, per_second: float, now_ms: int) -> float:
        """Return the current number of tokens. It is negative if requests took more tokens than there were."""
        fresh = per_second * (now_ms - self._filled_ms) / 1000
        self._tokens = min(per_second * self._seconds, self._tokens + fresh)
        self._filled_ms = now_ms
        return self._tokens

    def take_tokens(self, count: float) -> None:
        """Take tokens from the bucket. The number of tokens can become negative."""
        self._tokens -= count


class Mutations(Protocol):
    """Charges the client's quota for the partitions that one request creates or deletes."""

    @property
    def throttle_ms(self) -> int:
        """Time for which to throttle the client from now on."""

    def record(self, partitions: int) -> None:
        """Charge partitions that are about to be created or deleted. Raises Refused if the quota rejects them."""


class Unlimited:
    """Charges nothing, because no quota is set."""

    throttle_ms = 0

    def record(self, partitions: int) -> None:
        """Do nothing, because no quota is set."""


class _Held:
    def __init__(self, quota: MutationQuota, client: str, user: str) -> None:
        self._quota = quota
        self._client = client
        self._user = user
        self._throttle_ms = 0
        self._recorded_ms = 0

    @property
    def throttle_ms(self) -> int:
        """Time for which to throttle the client from now on.

        It is the quota's throttle time minus the time that the changes have taken.
        """
        return max(0, self._throttle_ms - (self._quota.now_ms() - self._recorded_ms))

    def _throttled(self, throttle_ms: int) -> None:
        self._throttle_ms, self._recorded_ms = throttle_ms, self._quota.now_ms()


class Strict(_Held):
    """Rejects changes over the quota. Used for clients that know THROTTLING_QUOTA_EXCEEDED."""

    def record(self, partitions: int) -> None:
        """Charge the partitions. Raises Refused if the client has used up its quota."""
        owed_ms = self._quota.owed_ms(self._client, self._user)
        if owed_ms:
            self._throttled(owed_ms)
            raise Refused(ErrorCode.throttling_quota_exceeded, EXCEEDED)
        self._quota.take_tokens(self._client, partitions, self._user)


class Permissive(_Held):
    """For older clients: changes over the quota are accepted, but the client is throttled."""

    def record(self, partitions: int) -> None:
        """Charge the partitions. Never rejects them."""
        self._quota.take_tokens(self._client, partitions, self._user)
        owed_ms = self._quota.owed_ms(self._client, self._user)
        if owed_ms:
            self._throttled(owed_ms)


class MutationQuota(ClientMeters[TokenBucket]):
    """The quotas of partition changes, with a token bucket per client."""

    __slots__ = ()

    def __init__(self, runtime: Runtime, windows: int, window_seconds: int) -> None:
        super().__init__(runtime, lambda now_ms: TokenBucket(windows * window_seconds, now_ms))

    def of_request(self, client: str, version: int, strict_since: int, user: str = ANONYMOUS_USER) -> Mutations:
        """Return the object that charges a request to its client's quota.

        From version `strict_since` on, changes over the quota are rejected.
        """
        if not self.is_used:
            return Unlimited()
        return (Strict if version >= strict_since else Permissive)(self, client, user)

    def permissive(self, client: str, user: str = ANONYMOUS_USER) -> Mutations:
        """Return the object that charges automatically created topics to a client's quota."""
        return Permissive(self, client, user) if self.is_used else Unlimited()

    def now_ms(self) -> int:
        """Return the current time on the clock of the buckets."""
        return self._runtime.now().mono_ms

    def take_tokens(self, client: str, count: int, user: str = ANONYMOUS_USER) -> None:
        """Take tokens from a client's bucket."""
        now_ms, key = self.now_ms(), self.measured_as(client, user)
        limit = self.limit_of(key)
        if limit is not None:
            bucket = self.meter(key, now_ms)
            bucket.tokens(limit, now_ms)
            bucket.take_tokens(count)

    def owed_ms(self, client: str, user: str = ANONYMOUS_USER) -> int:
        """Return the time until the number of tokens in a client's bucket is no longer negative; 0 if it is not
        negative.
        """
        now_ms, key = self.now_ms(), self.measured_as(client, user)
        limit = self.limit_of(key)
        if limit is None:
            return 0
        tokens = self.meter(key, now_ms).tokens(limit, now_ms)
        if tokens >= 0:
            return 0
        return THROTTLE_MS_MAX if limit <= 0 else max(1, round(min(-tokens / limit * 1000, THROTTLE_MS_MAX)))
