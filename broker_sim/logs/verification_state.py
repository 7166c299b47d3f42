"""Producers whose transactions a partition leader is verifying (Kafka's VerificationStateEntry, KIP-890)."""

from __future__ import annotations


class VerificationState:
    """A producer whose next transaction is being verified. The object itself is the guard of that verification.

    If the transaction ends before the coordinator's response arrives, this object is discarded. An append that uses it
    is then rejected, because the response may be about an earlier transaction.
    """

    __slots__ = ("epoch", "lowest_sequence", "timestamp_ms")

    def __init__(self, timestamp_ms: int, sequence: int, epoch: int) -> None:
        self.timestamp_ms = timestamp_ms
        self.lowest_sequence = sequence
        self.epoch = epoch

    def note(self, sequence: int, epoch: int) -> None:
        """Record another batch: keep the latest epoch, and the lowest sequence number in this epoch.

        The batch with that sequence number must be appended first.
        """
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class Unverified:
    """The guard of an append without verification: its transaction is already open, or verification is disabled."""

    __slots__ = ("may_begin",)

    def __init__(self, may_begin: bool) -> None:
        self.may_begin = may_begin
        """Whether the append may begin a transaction although the transaction was not verified."""


NOT_REQUIRED, IN_TRANSACTION = Unverified(may_begin=True), Unverified(may_begin=False)
"""Guards of appends without verification: verification is disabled, or the transaction is already open.

Source: VerificationGuard.SENTINEL.
"""
Guard = VerificationState | Unverified
