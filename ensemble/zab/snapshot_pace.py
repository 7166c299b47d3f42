"""Decides when a peer writes its next ordinary snapshot, by the number of transactions and their size.

If `snapCount` is set, it is the limit. Otherwise a snapshot also waits until the log since the previous snapshot has as
many bytes as that snapshot. So a large tree is not written again after few changes, and snapshots write no more bytes
than the log. The wait is limited by the time to replay the log at a restart.

Source: SyncRequestProcessor.shouldSnapshot.
"""

from __future__ import annotations

from collections.abc import Sequence

from zabka.ensemble.ports import Random
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.application import EnsembleConfig

SNAP_COUNT = 100_000
"""ZooKeeper's default of `snapCount`."""
REPLAY_TXNS_PER_S = 150_000
"""Approximate number of logged transactions that a peer reads and applies per second when it starts."""
REPLAY_S_MAX = 2
"""Maximum number of seconds that replaying the log may add to a start."""
SNAP_COUNT_MAX = REPLAY_S_MAX * REPLAY_TXNS_PER_S
_NO_LIMIT_BYTES = 1 << 62


class SnapshotPace:
    """Counts the transactions applied since the last snapshot, and decides when the next one is due.

    For each snapshot it chooses a random point between half and all of each limit, so that the peers of an ensemble do
    not all write a snapshot at the same time.
    """

    __slots__ = ("_bytes", "_bytes_max", "_config", "_random", "_tree_bytes", "_txns", "_txns_max", "_txns_min")

    def __init__(self, config: EnsembleConfig, random: Random) -> None:
        self._config = config
        self._random = random
        self._txns = self._bytes = self._tree_bytes = 0
        self._txns_min = self._txns_max = self._bytes_max = 0
        self._draw()

    def _draw(self) -> None:
        count = max(2, self._config.snap_count)
        size = self._config.snap_size_limit_bytes or _NO_LIMIT_BYTES
        drawn = self._random.randrange(count // 2, count + 1)
        self._txns_min = drawn
        self._txns_max = max(drawn, self._config.snap_count_max * drawn // count)
        self._bytes_max = self._random.randrange(size // 2, size + 1)

    @property
    def is_due(self) -> bool:
        """Return whether a snapshot should be taken now."""
        if self._txns >= self._txns_min and (self._txns >= self._txns_max or self._bytes >= self._tree_bytes):
            return True
        return self._bytes >= self._bytes_max

    @property
    def txns_left(self) -> int:
        """Minimum number of further transactions until a snapshot can be due because of the transaction count."""
        return self._txns_min - self._txns

    def count(self, txns: Sequence[Txn]) -> None:
        """Add applied transactions to the counts."""
        self._txns += len(txns)
        for txn in txns:
            self._bytes += len(txn.raw or txn.encoded())

    def taken(self, tree_bytes: int) -> None:
        """Start counting for the next snapshot, because a snapshot of `tree_bytes` bytes is being written."""
        self.replaced(tree_bytes)
        self._draw()

    def replaced(self, tree_bytes: int) -> None:
        """Reset the counts, because a snapshot of the current tree exists, which has `tree_bytes` bytes."""
        self._txns = self._bytes = 0
        self._tree_bytes = tree_bytes

    def force(self) -> None:
        """Make a snapshot due now."""
        self._txns = self._txns_max
