"""When a peer writes its next ordinary snapshot: after so many transactions, or so many bytes of them.

Where `snapCount` is set it is obeyed.  Otherwise a snapshot also waits until the log since the one before is worth its
writing: until it has as many bytes as that one.  So a large tree is not written out for every few changes, and all that
snapshots write is no more than what the log does.  What a restart has to replay bounds the wait.

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
"""About how many transactions of a log a peer reads and applies in a second when it starts."""
REPLAY_S_MAX = 2
"""So much longer than with a snapshot of its last moment may a start take, for the log that is to be replayed."""
SNAP_COUNT_MAX = REPLAY_S_MAX * REPLAY_TXNS_PER_S
_NO_LIMIT_BYTES = 1 << 62


class SnapshotPace:
    """Counts what was applied since the last snapshot.

    Between half and all of each limit is drawn anew for every snapshot, so that the peers of an ensemble do not all
    write one at once.
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
        """Whether one should be taken now."""
        if self._txns >= self._txns_min and (self._txns >= self._txns_max or self._bytes >= self._tree_bytes):
            return True
        return self._bytes >= self._bytes_max

    @property
    def txns_left(self) -> int:
        """How many more transactions there are, at the least, before one is due for their number."""
        return self._txns_min - self._txns

    def count(self, txns: Sequence[Txn]) -> None:
        """These were applied."""
        self._txns += len(txns)
        for txn in txns:
            self._bytes += len(txn.raw or txn.encoded())

    def taken(self, tree_bytes: int) -> None:
        """A snapshot of so many bytes is on its way; the next one is another's turn."""
        self.replaced(tree_bytes)
        self._draw()

    def replaced(self, tree_bytes: int) -> None:
        """There is a snapshot of the tree as it is, of so many bytes."""
        self._txns = self._bytes = 0
        self._tree_bytes = tree_bytes

    def force(self) -> None:
        """Another one is wanted now."""
        self._txns = self._txns_max
