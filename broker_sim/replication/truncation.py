"""How a new follower makes its log agree with its leader's: as Kafka does, and the two ways it had before.

Truncating to the high watermark loses committed records when two leaders fail one after the other, and lets logs part
silently (KAFKA-1211).  Asking once for the end of one's last epoch (KIP-101) still lets them part after two unclean
elections (KAFKA-6361).  Today every fetch says the epoch of the last record, and the leader answers with where to cut.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from zabka.broker_sim.logs.epoch_cache import UNDEFINED_EPOCH, UNDEFINED_OFFSET
from zabka.broker_sim.replication.following import TO_HIGH_WATERMARK, truncate
from zabka.broker_sim.replication.partition import Partition
from zabka.controller.historical import Historical


class EpochEnd(NamedTuple):
    """A leader's answer to OffsetForLeaderEpoch: the largest epoch not above the one asked for, and where it ends."""

    epoch: int
    end_offset: int


class Truncation(Protocol):
    """One way in which a follower finds where its log and its leader's part (see the module)."""

    def needs_epoch_end(self, partition: Partition) -> bool:
        """The partition follows a leader, or a leader of a new epoch: must that be asked for an epoch's end first?"""
        ...

    def cut(self, partition: Partition, answer: EpochEnd) -> None:
        """The leader answered."""
        ...

    def last_fetched_epoch(self, partition: Partition) -> int:
        """What a fetch says of the log's last record; -1 says nothing."""
        ...


class TruncateOnFetch:
    """Kafka 2.7 and later (KIP-595)."""

    def needs_epoch_end(self, partition: Partition) -> bool:
        """Nothing: the first fetch shows whether the logs agree."""
        return False

    def cut(self, partition: Partition, answer: EpochEnd) -> None:
        """Never asked."""
        raise AssertionError("no epoch's end was asked for")

    def last_fetched_epoch(self, partition: Partition) -> int:
        """The epoch of the last record."""
        return partition.log.epochs.latest


class TruncateToHighWatermark:
    """Before Kafka 0.11."""

    def needs_epoch_end(self, partition: Partition) -> bool:
        """Drop what is not known to be committed."""
        truncate(partition, partition.log.high_watermark, TO_HIGH_WATERMARK)
        return False

    def cut(self, partition: Partition, answer: EpochEnd) -> None:
        """Never asked."""
        raise AssertionError("no epoch's end was asked for")

    def last_fetched_epoch(self, partition: Partition) -> int:
        """Fetches said nothing then."""
        return UNDEFINED_EPOCH


class TruncateToEpochEnd:
    """Kafka 0.11 to 1.1 (KIP-101, before KIP-279)."""

    def needs_epoch_end(self, partition: Partition) -> bool:
        """Ask where the log's last epoch ends; a log without epochs goes by its high watermark."""
        if partition.log.epochs.latest == UNDEFINED_EPOCH:
            truncate(partition, partition.log.high_watermark, TO_HIGH_WATERMARK)
            return False
        return True

    def cut(self, partition: Partition, answer: EpochEnd) -> None:
        """Cut where the leader says, without a look at which epoch it is speaking of."""
        if answer.end_offset == UNDEFINED_OFFSET:
            truncate(partition, partition.log.high_watermark, TO_HIGH_WATERMARK)
        elif answer.end_offset < partition.log.end_offset:
            truncate(partition, answer.end_offset, "leader_epoch")

    def last_fetched_epoch(self, partition: Partition) -> int:
        """Fetches said nothing then."""
        return UNDEFINED_EPOCH


def truncation(historical: frozenset[Historical]) -> Truncation:
    """The way under these old behaviours; the older one where both are switched on."""
    if Historical.TRUNCATE_TO_HIGH_WATERMARK in historical:
        return TruncateToHighWatermark()
    if Historical.TRUNCATE_KIP_101 in historical:
        return TruncateToEpochEnd()
    return TruncateOnFetch()
