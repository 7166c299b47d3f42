"""How a node's journal began, and how one that began anew is numbered on.

A node counts its lines from 1 (`node_seq`).  Where its disk was emptied or replaced it begins with 1 again, and what it
says then would be taken for what was collected long ago.  So the lines of the new journal are numbered behind those
known: (node, node_seq) stays one event for the fold, for causes and for whoever keeps it, and nothing else has to know
that there were two journals.
"""

from __future__ import annotations

import msgspec

from zabka.agent.protocol import FirstLine
from zabka.journal.cause import event_cause
from zabka.journal.events import Entry


class Begun(msgspec.Struct, frozen=True):
    """The journal that a node writes now: `base` is what is added to its own numbers, 0 for the first journal;
    `first` its line 1, where that was seen."""

    base: int = 0
    first: FirstLine | None = None

    def numbered_on(self, entry: Entry) -> Entry:
        """The entry with its number, and that of the node's own line that it names as its cause, behind those known."""
        if not self.base:
            return entry
        event = entry.event
        node, _, number = getattr(event, "caused_by", "").partition("#")
        if node == entry.node and number.isdecimal():
            event = msgspec.structs.replace(event, caused_by=event_cause(node, int(number) + self.base))
        return msgspec.structs.replace(entry, node_seq=entry.node_seq + self.base, event=event)

    def seen(self, entry: Entry) -> Begun:
        """The same after one of its lines, which has its number behind those known."""
        if self.first is None and entry.node_seq == self.base + 1:
            return Begun(self.base, first_line(entry))
        return self


def first_line(entry: Entry) -> FirstLine:
    """The clocks of a line."""
    return FirstLine(entry.wall_us, entry.mono_us)
