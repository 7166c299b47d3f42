"""The reason why a transactional id changed, for its journal event."""

from __future__ import annotations

from typing import NamedTuple

from zabka.journal.cause import Cause, election_cause, request_cause, timer_cause
from zabka.journal.events import TopicPartition


class Reason(NamedTuple):
    """The reason for a change, in words (`TransactionChanged.after`), and its cause."""

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
    """Return the reason for a completion: the event of the decision that the markers carried out."""
    return Reason("markers written", decided)


def loaded(partition: TopicPartition, coordinator_epoch: int) -> Reason:
    """Return the reason for an unfinished transaction at a new coordinator: its partition's leader election."""
    return Reason("loaded", election_cause(partition, coordinator_epoch))
