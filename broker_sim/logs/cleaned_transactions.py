"""Transactions whose batches and markers a compaction pass reads (Kafka's CleanedTransactionMetadata)."""

from __future__ import annotations

from collections.abc import Iterable

from zabka.broker_sim.ports import AbortedTransaction
from zabka.kafka.end_transaction_marker import read_marker
from zabka.kafka.record_batch import BatchHeader, is_transactional


class CleanedTransactions:
    """Identifies removable batches of aborted transactions, and markers whose transactions have no batch left.

    Call `pass_batch` or `pass_marker` with every batch, in the order of the log.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._coming: list[AbortedTransaction] = []
        self._aborted: dict[int, AbortedTransaction] = {}
        """The aborted transactions that are open at the current position of the pass, keyed by producer id."""
        self._has_batches: dict[int, None] = {}
        """The producers in `_aborted` that have a batch among the batches read so far in this pass."""
        self._committed: dict[int, None] = {}
        """The producers not in `_aborted` that have a batch among the batches read so far in this pass."""
        self.kept: list[AbortedTransaction] = []
        """Aborted transactions that still have a batch although the pass has already read their marker."""
        self.expect(aborted)

    def expect(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions that begin at or after the current position of the pass."""
        known = dict.fromkeys(self._coming)
        self._coming = sorted({**known, **dict.fromkeys(aborted)}, key=lambda each: each.first_offset, reverse=True)

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            transaction = self._coming.pop()
            self._aborted.setdefault(transaction.producer_id, transaction)

    def pass_batch(self, header: BatchHeader) -> bool:
        """Process a batch. Return whether it belongs to an aborted transaction, so that its records can be removed."""
        self._begin_up_to(header.last_offset)
        if not is_transactional(header):
            return False
        if header.producer_id in self._aborted:
            self._has_batches[header.producer_id] = None
            return True
        self._committed[header.producer_id] = None
        return False

    def pass_marker(self, header: BatchHeader, data: bytes) -> bool:
        """Process a marker. Return whether its transaction has no batch left, so that the marker can be removed."""
        self._begin_up_to(header.last_offset)
        marker = read_marker(data, 0, header)
        if marker is None:
            # An earlier compaction emptied this batch. It kept the empty batch only because the batch contains the
            # producer's epoch.
            return not header.record_count
        if marker.is_commit:
            return self._committed.pop(header.producer_id, self) is self
        transaction = self._aborted.pop(header.producer_id, None)
        if self._has_batches.pop(header.producer_id, self) is self or transaction is None:
            return True
        self.kept.append(transaction)
        return False
