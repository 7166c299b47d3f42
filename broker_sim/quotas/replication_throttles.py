"""How fast replicas may be copied: from broker to broker (KIP-73) and between directories (ReplicationQuotaManager).

Only replicas that a topic lists are held back, and none that is in sync.
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
    """Bytes a second, together, of all that it is asked about."""

    __slots__ = ("_amount", "_bytes_per_second", "_runtime", "is_limited")

    def __init__(self, runtime: Runtime, windows: int, window_seconds: int) -> None:
        self.is_limited = False
        """Is there a rate at all?  Where not nothing is counted."""
        self._bytes_per_second = UNLIMITED
        self._runtime = runtime
        self._amount = SampledAmount(windows, window_seconds * 1000)

    def limit(self, bytes_per_second: int) -> None:
        """The rate from now on."""
        self._bytes_per_second = bytes_per_second
        self.is_limited = bytes_per_second != UNLIMITED

    def note(self, size: int) -> None:
        """So many bytes were copied."""
        if self.is_limited:
            self._amount.add(size, self._runtime.now().mono_ms)

    @property
    def is_exceeded(self) -> bool:
        """Was more copied of late than the rate allows?"""
        return self.is_limited and simple_rate(self._amount, self._runtime.now().mono_ms) > self._bytes_per_second


class ReplicationThrottles:
    """A broker's three quotas: as leader, as follower, and between its log directories."""

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
        """Take over what /config/brokers says of the three; a value that is no number counts as not there."""
        for key, quota in ((LEADER_RATE, self.leader), (FOLLOWER_RATE, self.follower), (MOVES_RATE, self.moves)):
            text = overrides.get(key, "").strip()
            quota.limit(int(text) if text.isascii() and text.isdigit() else UNLIMITED)
