"""Periods in which a cluster had no active controller, and the parts of each period.

Such a gap begins when the last controller dies or is paused, and ends with the first decision of the next controller.
If a controller resigns in an orderly way, the gap begins when it resigns. The parts are contiguous:

| part | from | to |
|---|---|---|
| detection | the death or pause of the last controller | the end of the session that owned /controller |
| election | the end of that session | the election of the controller that makes the next decision |
| loading | that election | the first decision: the controller has read the state and sent its decisions |

If a controller dies before its first decision, its term is part of the election. If no journal reports a death or
pause, for example because the controller is partitioned from the ensemble, the gap begins when its session ends.
`api/web/gaps.js` does the same in the dashboard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zabka.journal.cluster_state import ControllerTermView
from zabka.journal.event import Event
from zabka.journal.events import ControllerElected, ControllerPropagated, ControllerReady

SUPERSEDED = "superseded"
"""Value of `ended_by` for a controller term whose end is not in any journal."""


class ControllerGap(NamedTuple):
    """The time without an active controller before a controller's first decision, in microseconds.

    `detection_us` is None if no journal reports the end of the previous session; `election_us` then includes that time.
    """

    from_us: int
    to_us: int
    detection_us: int | None
    election_us: int
    loading_us: int

    @property
    def total_us(self) -> int:
        """Length of the whole gap, in microseconds."""
        return self.to_us - self.from_us


def gap_before(terms: Sequence[ControllerTermView], place: int) -> ControllerGap | None:
    """Return the time without an active controller before the term at index `place` of `terms`.

    Return None for the first controller, for a controller that has made no decision yet, and if no journal reports when
    the gap began.
    """
    following = terms[place]
    if following.ready_us is None or place == 0:
        return None
    last = next((term for term in reversed(terms[:place]) if term.ready_us is not None), terms[place - 1])
    session_end_us = None if last.ended_by == SUPERSEDED else last.until_us
    from_us = session_end_us if last.holder_lost_us is None else last.holder_lost_us
    if from_us is None:
        return None
    detected_us = from_us if session_end_us is None else max(from_us, session_end_us)
    elected_us = max(detected_us, following.since_us)
    # Use the new controller's clock for both times, because that clock may differ from the clocks used above.
    loading_us = max(0, following.ready_us - following.since_us)
    return ControllerGap(
        from_us=from_us,
        to_us=elected_us + loading_us,
        detection_us=None if session_end_us is None else detected_us - from_us,
        election_us=elected_us - detected_us,
        loading_us=loading_us,
    )


def gap_ended_by(terms: Sequence[ControllerTermView], event: Event) -> ControllerGap | None:
    """Return the gap that this event ended; None if it ended no gap.

    The election of a controller or its first decision can end a gap.
    """
    if not isinstance(event, ControllerElected | ControllerReady | ControllerPropagated):
        return None
    for place, term in enumerate(terms):
        if term.controller_epoch == event.controller_epoch:
            return gap_before(terms, place)
    return None


def gap_milliseconds(gap: ControllerGap) -> dict[str, float | None]:
    """Return the length of a gap and of each of its parts in milliseconds, by name."""
    return {
        "gap_before_ms": gap.total_us / 1000,
        "detection_ms": None if gap.detection_us is None else gap.detection_us / 1000,
        "election_ms": gap.election_us / 1000,
        "loading_ms": gap.loading_us / 1000,
    }


def gap_text(gap: ControllerGap) -> str:
    """Return a phrase with the length of a gap and of its parts."""
    parts = [("election", gap.election_us), ("loading", gap.loading_us)]
    if gap.detection_us is not None:
        parts.insert(0, ("detection", gap.detection_us))
    phrases = ", ".join(f"{name} {us / 1000:,.1f} ms" for name, us in parts)
    return f"no controller for {gap.total_us / 1000:,.1f} ms: {phrases}"
