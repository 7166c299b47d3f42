"""Where a node's journal starts, and how its entries are numbered after the journal has restarted.

A node numbers its journal entries from 1 (`node_seq`). After its disk was emptied or replaced, the node starts again at
1, and its new entries would be mistaken for entries that were collected long ago. So the collector adds an offset to
the numbers of the new journal, so that they follow those of the old one. The pair (node, node_seq) then identifies one
event for the fold, for causes and for storage, and no other code has to distinguish the two journals.
"""

from __future__ import annotations

import msgspec

from zabka.agent.protocol import FirstLine
from zabka.journal.cause import event_cause
from zabka.journal.events import Entry


class Begun(msgspec.Struct, frozen=True):
    """The journal that a node currently writes; it replaces an earlier one if the node's disk was emptied.

    `base` is added to the node's own entry numbers; it is 0 for the node's first journal. `first` is entry 1 of the
    journal, if the collector has received it.
    """

    base: int = 0
    first: FirstLine | None = None

    def numbered_on(self, entry: Entry) -> Entry:
        """Return the entry with `base` added to its `node_seq`.

        If the entry's cause is an event of the same node, `base` is also added to the number of the cause.
        """
        if not self.base:
            return entry
        event = entry.event
        node, _, number = getattr(event, "caused_by", "").partition("#")
        if node == entry.node and number.isdecimal():
            event = msgspec.structs.replace(event, caused_by=event_cause(node, int(number) + self.base))
        return msgspec.structs.replace(entry, node_seq=entry.node_seq + self.base, event=event)

    def seen(self, entry: Entry) -> Begun:
        """Return this journal updated with one of its entries, which `numbered_on` has already renumbered."""
        if self.first is None and entry.node_seq == self.base + 1:
            return Begun(self.base, first_line(entry))
        return self


def first_line(entry: Entry) -> FirstLine:
    """Return the clock readings of an entry. They identify the first entry of a journal."""
    return FirstLine(entry.wall_us, entry.mono_us)
