"""Fencing of requests by epoch, and the old rules that did not fence.

The rules are selected once, when a broker is created. `zabka.controller.historical` lists the name of each old rule and
the version that ended it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.controller.historical import Historical

_UNSAID = -1


class Fences(NamedTuple):
    """The epoch comparisons of a broker."""

    fetch_epoch_error: Callable[[int, int], int]
    """Maps (leader epoch of the fetcher, leader epoch of the leader) to an error code."""
    is_for_earlier_process: Callable[[int, int], bool]
    """Compares (broker epoch in a controller's request, this broker's).

    Returns whether the request is for an earlier process of this broker.
    """


def _fenced_by_epoch(believed: int, known: int) -> int:
    """Compare according to KIP-320. A fetcher sends -1 if it does not know its epoch."""
    if believed in (_UNSAID, known):
        return ErrorCode.none
    return ErrorCode.fenced_leader_epoch if believed < known else ErrorCode.unknown_leader_epoch


def _never_fenced(believed: int, known: int) -> int:
    return ErrorCode.none


def _precedes(sent: int, own: int) -> bool:
    """Compare according to KIP-380. A controller sends -1 if it does not know the epoch.

    A later epoch than the broker's own is accepted: the request may arrive before this broker learns of its own
    registration (KAFKA-9839).
    """
    return 0 <= sent < own


def _never(sent: int, own: int) -> bool:
    return False


def fences(historical: frozenset[Historical]) -> Fences:
    """Return the fences under these old behaviours."""
    return Fences(
        fetch_epoch_error=_never_fenced if Historical.NO_LEADER_EPOCH_IN_FETCH in historical else _fenced_by_epoch,
        is_for_earlier_process=_never if Historical.NO_BROKER_EPOCH in historical else _precedes,
    )
