"""How often a run came to the places where logs are cut, repaired and given up, and where roles change."""

from __future__ import annotations

from collections import Counter

from zabka.journal import events as e
from zabka.journal.events import Entry

TAIL_CUT = "damaged tail cut at a start"
LOST = "records lost with the power"
DIVERGED = "log cut for a new leader"
GIVEN_UP = "log directory given up"
ISR_CHANGED = "ISR changed"
ELECTED = "controller elected"
FENCED = "stale request refused"
PLACES = (TAIL_CUT, LOST, DIVERGED, GIVEN_UP, ISR_CHANGED, ELECTED, FENCED)


class ClusterReached:
    """Counts them, from the record."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(PLACES, 0))

    def see(self, entry: Entry) -> None:
        """An event of the world."""
        place = _place_of(entry)
        if place is not None:
            self.counts[place] += 1


def _place_of(entry: Entry) -> str | None:
    event = entry.event
    if isinstance(event, e.LogDamageFound):
        if entry.node.startswith("peer-"):
            return None
        return GIVEN_UP if event.action == "taken offline" else TAIL_CUT
    if isinstance(event, e.RecordsLost):
        return LOST if event.cause == "missing_at_start" else None
    return _BY_TYPE.get(type(event))


_BY_TYPE: dict[type[e.Event], str] = {
    e.LogTruncated: DIVERGED,
    e.IsrChanged: ISR_CHANGED,
    e.ControllerElected: ELECTED,
    e.RequestFenced: FENCED,
}
