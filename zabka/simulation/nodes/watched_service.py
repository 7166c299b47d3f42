"""A peer's service, which keeps what it has applied until its journal says that it is committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zabka.ensemble.ports import Instant
from zabka.ensemble.tree.service import Service
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.effects import Effect


class WatchedService(Service):
    """Whoever hears of a transaction's commit takes it out of `applied`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.applied: dict[int, Txn] = {}

    def apply(self, now: Instant, txns: Sequence[Txn]) -> list[Effect]:
        """Apply them, and keep them."""
        applied = self.applied
        for txn in txns:
            applied[txn.zxid] = txn
        return super().apply(now, txns)
