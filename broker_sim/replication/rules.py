"""Rules of replication that Kafka changed over the years: today's, or the old ones that were switched on.

Chosen once, where a broker is built; see `controller.historical` for what each old rule is called and where it ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from controller.historical import Historical


class ReplicationRules(NamedTuple):
    """What a leader holds its followers and readers to."""

    fetch_epoch_error: Callable[[int, int], int]
    """(leader epoch the fetcher believes in, the leader's) to an error code."""
    isr_entry_offset: Callable[[int, int], int]
    """(high watermark, where the leader's epoch starts) to the log end a follower needs to join the ISR."""
    may_commit: Callable[[int, int], bool]
    """(committed ISR's size, least size for acks=all): may the high watermark advance?"""
    is_for_former_life: Callable[[int, int], bool]
    """(broker epoch in a controller's request, this broker's own): is it for the process before this one?"""
    member_epoch: Callable[[int], int]
    """The broker epoch that a follower's fetches show, as an ISR proposal says it; -1 says nothing."""


def _fenced_by_epoch(believed: int, known: int) -> int:
    """KIP-320; -1 is a fetcher that does not say."""
    if believed < 0 or believed == known:
        return ErrorCode.none
    return ErrorCode.fenced_leader_epoch if believed < known else ErrorCode.unknown_leader_epoch


def _never_fenced(believed: int, known: int) -> int:
    return ErrorCode.none


def _high_watermark_alone(high_watermark: int, epoch_start: int) -> int:
    return high_watermark


def _enough_in_sync(isr_size: int, min_isr: int) -> bool:
    return isr_size >= min_isr


def _always(isr_size: int, min_isr: int) -> bool:
    return True


def _precedes(sent: int, own: int) -> bool:
    """KIP-380; -1 is a controller that does not say.  A later one than known passes: the request may be faster than
    this broker's own registration (KAFKA-9839)."""
    return 0 <= sent < own


def _never(sent: int, own: int) -> bool:
    return False


def _as_seen(broker_epoch: int) -> int:
    return broker_epoch


def _unsaid(broker_epoch: int) -> int:
    return -1


def replication_rules(historical: frozenset[Historical]) -> ReplicationRules:
    """The rules under these old behaviours."""
    return ReplicationRules(
        fetch_epoch_error=_never_fenced if Historical.NO_LEADER_EPOCH_IN_FETCH in historical else _fenced_by_epoch,
        isr_entry_offset=_high_watermark_alone if Historical.NO_EPOCH_START_CHECK in historical else max,
        may_commit=_always if Historical.HIGH_WATERMARK_UNDER_MIN_ISR in historical else _enough_in_sync,
        is_for_former_life=_never if Historical.NO_BROKER_EPOCH in historical else _precedes,
        member_epoch=_unsaid if Historical.NO_MEMBER_EPOCHS in historical else _as_seen,
    )
