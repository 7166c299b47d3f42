"""Comparisons of epochs that fence requests, and the historical rules that did not fence.

The rules are selected once, when a broker is created. `zabka.controller.historical` lists the name of each historical
rule and the Kafka version that ended it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.controller.historical import Historical

_UNSAID = -1


class Fences(NamedTuple):
    """The epoch comparisons that a broker uses."""

    fetch_epoch_error: Callable[[int, int], int]
    """Returns an error code for (leader epoch of the fetcher, leader epoch of the leader)."""
    is_for_earlier_process: Callable[[int, int], bool]
    """Returns whether a controller's request is for an earlier process of this broker.

    The arguments are (broker epoch in the request, this broker's epoch).
    """


def _fenced_by_epoch(believed: int, known: int) -> int:
    """Compare leader epochs as in KIP-320, and return an error code.

    A fetcher that does not know the leader epoch sends -1, which is accepted.
    """
    if believed in (_UNSAID, known):
        return ErrorCode.none
    return ErrorCode.fenced_leader_epoch if believed < known else ErrorCode.unknown_leader_epoch


def _never_fenced(believed: int, known: int) -> int:
    return ErrorCode.none


def _precedes(sent: int, own: int) -> bool:
    """Return whether a controller's request has an earlier broker epoch than this broker's (KIP-380).

    A controller that does not know the epoch sends -1, which is accepted. A later epoch than the broker's own is also
    accepted: the request may arrive before this broker learns of its own registration (KAFKA-9839).
    """
    return 0 <= sent < own


def _never(sent: int, own: int) -> bool:
    return False


def fences(historical: frozenset[Historical]) -> Fences:
    """Return the epoch comparisons that apply when these historical behaviours are enabled."""
    return Fences(
        fetch_epoch_error=_never_fenced if Historical.NO_LEADER_EPOCH_IN_FETCH in historical else _fenced_by_epoch,
        is_for_earlier_process=_never if Historical.NO_BROKER_EPOCH in historical else _precedes,
    )
