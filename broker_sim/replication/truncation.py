"""How a new follower reconciles its log with its leader's: Kafka's current protocol, and two earlier ones.

Truncation to the high watermark loses committed records when two leaders fail one after another, and lets logs diverge
silently (KAFKA-1211). A single request for the end of the last epoch (KIP-101) still lets them diverge after two
unclean elections (KAFKA-6361). Today every fetch contains the epoch of the last record, and the leader responds with
the truncation point.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from zabka.broker_sim.logs.epoch_cache import UNDEFINED_EPOCH, UNDEFINED_OFFSET
from zabka.broker_sim.replication.following import TO_HIGH_WATERMARK, truncate
from zabka.broker_sim.replication.partition import Partition
from zabka.controller.historical import Historical


class EpochEnd(NamedTuple):
    """A leader's response to OffsetForLeaderEpoch: the largest epoch not above the requested one, and its end
    offset.
    """

    epoch: int
    end_offset: int


class Truncation(Protocol):
    """A protocol to find where a follower's log diverges from its leader's log (see the module)."""

    def needs_epoch_end(self, partition: Partition) -> bool:
        """Return whether a follower must request the end of an epoch from a new leader before it fetches."""
        ...

    def cut(self, partition: Partition, answer: EpochEnd) -> None:
        """Truncate the log according to the leader's response."""
        ...

    def last_fetched_epoch(self, partition: Partition) -> int:
        """Return the epoch of the last record to send in fetches; -1 if this protocol's fetches do not contain it."""
        ...


class TruncateOnFetch:
    """Truncation protocol of Kafka 2.7 and later (KIP-595)."""

    def needs_epoch_end(self, partition: Partition) -> bool:
        """Return False, because the first fetch shows whether the logs agree."""
        return False

    def cut(self, partition: Partition, answer: EpochEnd) -> None:
        """Do nothing. Never called, because `needs_epoch_end` returns False."""
        raise AssertionError("no epoch's end was asked for")

    def last_fetched_epoch(self, partition: Partition) -> int:
        """Return the epoch of the last record in the log."""
        return partition.log.epochs.latest


class TruncateToHighWatermark:
    """Truncation protocol of Kafka before 0.11."""

    def needs_epoch_end(self, partition: Partition) -> bool:
        """Truncate the log to its high watermark. Return False, because no epoch's end has to be requested."""
        truncate(partition, partition.log.high_watermark, TO_HIGH_WATERMARK)
        return False

    def cut(self, partition: Partition, answer: EpochEnd) -> None:
        """Do nothing. Never called, because `needs_epoch_end` returns False."""
        raise AssertionError("no epoch's end was asked for")

    def last_fetched_epoch(self, partition: Partition) -> int:
        """Return -1, because this protocol's fetches contain no epoch."""
        return UNDEFINED_EPOCH


class TruncateToEpochEnd:
    """Truncation protocol of Kafka 0.11 to 1.1 (KIP-101, before KIP-279)."""

    def needs_epoch_end(self, partition: Partition) -> bool:
        """Return whether to request the end of the log's last epoch.

        A log without epochs is truncated to its high watermark instead.
        """
        if partition.log.epochs.latest == UNDEFINED_EPOCH:
            truncate(partition, partition.log.high_watermark, TO_HIGH_WATERMARK)
            return False
        return True

    def cut(self, partition: Partition, answer: EpochEnd) -> None:
        """Truncate to the end offset in the leader's response, without comparing the epoch in the response."""
        if answer.end_offset == UNDEFINED_OFFSET:
            truncate(partition, partition.log.high_watermark, TO_HIGH_WATERMARK)
        elif answer.end_offset < partition.log.end_offset:
            truncate(partition, answer.end_offset, "leader_epoch")

    def last_fetched_epoch(self, partition: Partition) -> int:
        """Return -1, because this protocol's fetches contain no epoch."""
        return UNDEFINED_EPOCH


def truncation(historical: frozenset[Historical]) -> Truncation:
    """Return the truncation protocol for these historical behaviours.

    If both earlier protocols are enabled, return the older one.
    """
    if Historical.TRUNCATE_TO_HIGH_WATERMARK in historical:
        return TruncateToHighWatermark()
    if Historical.TRUNCATE_KIP_101 in historical:
        return TruncateToEpochEnd()
    return TruncateOnFetch()
