"""Limits on client requests, with ZooKeeper's defaults, and counts of how often each limit was reached."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

HANDSHAKES_MAX = 1000


class ThrottleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The zookeeper.connection_throttle_… keys, which limit how fast sessions begin.

    At most `tokens` sessions can begin in a burst; `fill_count` tokens are added every `fill_time_ms`. `tokens` 0 turns
    the throttle off; `freeze_time_ms` -1 turns the random drops (BLUE) off.
    """

    tokens: int = 0
    fill_time_ms: int = 1
    fill_count: int = 1
    freeze_time_ms: int = -1
    drop_increase: float = 0.02
    drop_decrease: float = 0.002
    decrease_ratio: float = 0.0
    new_session_weight: int = 1
    renewed_session_weight: int = 1


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on client requests in zoo.cfg.

    Keys: maxClientCnxns, maxCnxns, jute.maxbuffer, globalOutstandingLimit, largeRequest…, request_throttle_…,
    connection_throttle_…; the value 0 disables a limit (for large_request_threshold: -1). `sessionless_timeout_ms`
    (nio.sessionlessCnxnTimeout) is how long a connection may stay open without a session request. `extra_bytes`
    (jute.maxbuffer.extrasize) is the number of bytes by which stored values may exceed `frame_bytes`; the default is
    `frame_bytes`.
    """

    per_host: int = 60
    connections: int = 0
    frame_bytes: int = 0xFFFFF
    extra_bytes: int | None = None
    outstanding: int = 1000
    large_request_bytes: int = 100 * 1024 * 1024
    large_request_threshold: int = -1
    in_process: int = 0
    throttled_op_wait_ms: int = 0
    handshakes: int = HANDSHAKES_MAX
    sessionless_timeout_ms: int = 10_000
    throttle: ThrottleSettings = ThrottleSettings()


class LimitCounts(msgspec.Struct, kw_only=True):
    """Counts of how often each limit was reached, named like ZooKeeper's metrics (ServerMetrics, ServerStats)."""

    connection_rejected: int = 0
    connection_request_count: int = 0
    connection_revalidate_count: int = 0
    large_requests_rejected: int = 0
    request_throttle_wait_count: int = 0
    stale_requests_dropped: int = 0
    throttled_ops: int = 0
    unsuccessful_handshake: int = 0
    tls_handshake_exceeded: int = 0
    sessionless_connections_expired: int = 0
    connection_drop_count: int = 0
    auth_failed_count: int = 0
    non_mtls_remote_conn_count: int = 0
    non_mtls_local_conn_count: int = 0

    def reset(self) -> None:
        """Set all counts to 0."""
        for name in self.__struct_fields__:
            setattr(self, name, 0)


class ConnectionThrottle:
    """Token bucket that limits how fast sessions begin (BlueThrottle). `draw` returns a random number from 0 to 1."""

    def __init__(self, settings: ThrottleSettings, draw: Callable[[], float], now_ms: int) -> None:
        self._settings = settings
        self._draw = draw
        self._tokens = settings.tokens
        self._filled_ms = now_ms
        self._frozen_ms = now_ms
        self.drop_chance = 0.0

    @property
    def deficit(self) -> int:
        """Number of tokens that are missing until the bucket is full."""
        return self._settings.tokens - self._tokens

    def admits(self, now_ms: int, *, renews: bool) -> bool:
        """Take the tokens for a new session, or with `renews` for a renewed session; return False if there are not
        enough.
        """
        settings = self._settings
        if not settings.tokens:
            return True
        passed_ms = now_ms - self._filled_ms
        if passed_ms > settings.fill_time_ms:
            refill = passed_ms * settings.fill_count // settings.fill_time_ms
            self._tokens = min(self._tokens + refill, settings.tokens)
            self._filled_ms = now_ms
        if settings.freeze_time_ms != -1 and self._drops(now_ms):
            return False
        needed = settings.renewed_session_weight if renews else settings.new_session_weight
        if self._tokens < needed:
            return False
        self._tokens -= needed
        return True

    def _drops(self, now_ms: int) -> bool:
        settings = self._settings
        if now_ms - self._frozen_ms > settings.freeze_time_ms:
            if self.deficit == settings.tokens and self.drop_chance < 1:
                self.drop_chance = min(self.drop_chance + settings.drop_increase, 1.0)
            elif self.deficit <= round(settings.tokens * settings.decrease_ratio) and self.drop_chance > 0:
                self.drop_chance = max(self.drop_chance - settings.drop_decrease, 0.0)
            self._frozen_ms = now_ms
        return self._draw() < self.drop_chance
