"""The reason why a transactional id changed, for its journal event."""

from __future__ import annotations

from typing import NamedTuple

from zabka.journal.cause import Cause, election_cause, request_cause, timer_cause
from zabka.journal.events import TopicPartition


class Reason(NamedTuple):
    """The reason for a change of a transactional id: a text for `TransactionChanged.after`, and the causing event."""

    after: str
    caused_by: Cause


STARTED = Reason("producer started", request_cause("InitProducerId"))
FENCED = Reason("fenced", request_cause("InitProducerId"))
ADDED = Reason("partitions added", request_cause("AddPartitionsToTxn"))
ADDED_OFFSETS = Reason("partitions added", request_cause("AddOffsetsToTxn"))
ENDED = Reason("ended by its producer", request_cause("EndTxn"))
TIMED_OUT = Reason("timed out", timer_cause("transaction-abort"))
EXPIRED = Reason("expired", timer_cause("transactionalId-expiration"))


def markers_written(decided: Cause) -> Reason:
    """Return the reason why a transaction is complete.

    `decided` refers to the event that recorded the decision to commit or abort.
    """
    return Reason("markers written", decided)


def loaded(partition: TopicPartition, coordinator_epoch: int) -> Reason:
    """Return the reason for an unfinished transaction that a new coordinator has loaded.

    The reason's cause is the leader election of the `__transaction_state` partition.
    """
    return Reason("loaded", election_cause(partition, coordinator_epoch))
