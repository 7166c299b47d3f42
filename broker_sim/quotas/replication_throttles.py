"""Throttles for replication between brokers (KIP-73) and copying between log directories (ReplicationQuotaManager).

The throttles apply only to replicas that a topic lists as throttled and that are not in sync.
"""

from __future__ import annotations

from collections.abc import Mapping

from zabka.broker_sim.configs.replica_config import ReplicaConfig
from zabka.broker_sim.quotas.sampled_rate import SampledAmount, simple_rate
from zabka.ensemble.ports import Runtime

UNLIMITED = 2**63 - 1
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
MOVES_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


class ReplicationQuota:
    """Rate limit for all throttled replicas of a broker together, for one kind of copying.

    The kinds are replication to followers, replication from leaders, and moves between log directories.
    """

    __slots__ = ("_amount", "_bytes_per_second", "_runtime", "is_limited")

    def __init__(self, runtime: Runtime, windows: int, window_seconds: int) -> None:
        self.is_limited = False
        """Whether a rate is set. If not, copied bytes are not counted."""
        self._bytes_per_second = UNLIMITED
        self._runtime = runtime
        self._amount = SampledAmount(windows, window_seconds * 1000)

    def limit(self, bytes_per_second: int) -> None:
        """Set the rate in bytes per second."""
        self._bytes_per_second = bytes_per_second
        self.is_limited = bytes_per_second != UNLIMITED

    def note(self, size: int) -> None:
        """Add the size of copied data to the measured rate, if a limit is set."""
        if self.is_limited:
            self._amount.add(size, self._runtime.now().mono_ms)

    @property
    def is_exceeded(self) -> bool:
        """Whether the measured rate exceeds the limit."""
        return self.is_limited and simple_rate(self._amount, self._runtime.now().mono_ms) > self._bytes_per_second


class ReplicationThrottles:
    """A broker's three replication throttles: as leader, as follower, and between its log directories."""

    def __init__(self, config: ReplicaConfig, runtime: Runtime) -> None:
        windows, seconds = config.replication_quota_window_num, config.replication_quota_window_size_seconds
        self.leader = ReplicationQuota(runtime, windows, seconds)
        self.follower = ReplicationQuota(runtime, windows, seconds)
        self.moves = ReplicationQuota(
            runtime,
            config.alter_log_dirs_replication_quota_window_num,
            config.alter_log_dirs_replication_quota_window_size_seconds,
        )

    def set_rates(self, overrides: Mapping[str, str]) -> None:
        """Apply the three rates in /config/brokers. A value that is not a number is ignored."""
        for key, quota in ((LEADER_RATE, self.leader), (FOLLOWER_RATE, self.follower), (MOVES_RATE, self.moves)):
            text = overrides.get(key, "").strip()
            quota.limit(int(text) if text.isascii() and text.isdigit() else UNLIMITED)
