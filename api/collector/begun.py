"""The start of a node's journal, and the numbering after a node's journal has restarted.

A node numbers its lines from 1 (`node_seq`). After its disk was emptied or replaced, it starts again at 1, and its new
lines would be mistaken for lines that were collected long ago. So the collector numbers the lines of the new journal
after the known ones. The pair (node, node_seq) then identifies one event for the fold, for causes and for storage, and
no other code has to distinguish the two journals.
"""

from __future__ import annotations

import msgspec

from zabka.agent.protocol import FirstLine
from zabka.journal.cause import event_cause
from zabka.journal.events import Entry


class Begun(msgspec.Struct, frozen=True):
    """The journal that a node writes now.

    `base` is added to the node's own numbers; it is 0 for the node's first journal. `first` is line 1 of the journal,
    if the collector has seen it.
    """

    base: int = 0
    first: FirstLine | None = None

    def numbered_on(self, entry: Entry) -> Entry:
        """Return the entry with `base` added to its number.

        `base` is also added to the number of the entry's cause if the cause is an event of the same node.
        """
        if not self.base:
            return entry
        event = entry.event
        node, _, number = getattr(event, "caused_by", "").partition("#")
        if node == entry.node and number.isdecimal():
            event = msgspec.structs.replace(event, caused_by=event_cause(node, int(number) + self.base))
        return msgspec.structs.replace(entry, node_seq=entry.node_seq + self.base, event=event)

    def seen(self, entry: Entry) -> Begun:
        """Return this journal updated with one of its lines, which `numbered_on` has already numbered."""
        if self.first is None and entry.node_seq == self.base + 1:
            return Begun(self.base, first_line(entry))
        return self


def first_line(entry: Entry) -> FirstLine:
    """Return the clock readings of a line."""
    return FirstLine(entry.wall_us, entry.mono_us)
