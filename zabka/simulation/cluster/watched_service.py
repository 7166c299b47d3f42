"""A peer's ZooKeeper service that stores applied transactions until the peer's journal reports their commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zabka.ensemble.ports import Instant
from zabka.ensemble.tree.service import Service
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.effects import Effect


class WatchedService(Service):
    """A peer's ZooKeeper service that stores applied transactions in `applied`.

    The code that reads the peer's journal removes a transaction when the journal reports its commit.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.applied: dict[int, Txn] = {}

    def apply(self, now: Instant, txns: Sequence[Txn]) -> list[Effect]:
        """Apply transactions, and store them in `applied`."""
        applied = self.applied
        for txn in txns:
            applied[txn.zxid] = txn
        return super().apply(now, txns)
