"""Who is refused by the epoch that a request states, and the old rules by which nobody was.

Chosen once, where a broker is built; `zabka.controller.historical` says what each old rule is called and where it
ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.controller.historical import Historical

_UNSAID = -1


class Fences(NamedTuple):
    """What a broker compares epochs by."""

    fetch_epoch_error: Callable[[int, int], int]
    """(leader epoch the fetcher believes in, the leader's) to an error code."""
    is_for_former_life: Callable[[int, int], bool]
    """(broker epoch in a controller's request, this broker's own): is it for the process before this one?"""


def _fenced_by_epoch(believed: int, known: int) -> int:
    """KIP-320; -1 is a fetcher that does not say."""
    if believed in (_UNSAID, known):
        return ErrorCode.none
    return ErrorCode.fenced_leader_epoch if believed < known else ErrorCode.unknown_leader_epoch


def _never_fenced(believed: int, known: int) -> int:
    return ErrorCode.none


def _precedes(sent: int, own: int) -> bool:
    """KIP-380; -1 is a controller that does not say.  A later one than known passes: the request may be faster than
    this broker's own registration (KAFKA-9839)."""
    return 0 <= sent < own


def _never(sent: int, own: int) -> bool:
    return False


def fences(historical: frozenset[Historical]) -> Fences:
    """The fences under these old behaviours."""
    return Fences(
        fetch_epoch_error=_never_fenced if Historical.NO_LEADER_EPOCH_IN_FETCH in historical else _fenced_by_epoch,
        is_for_former_life=_never if Historical.NO_BROKER_EPOCH in historical else _precedes,
    )
