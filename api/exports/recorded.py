"""A run to export: its description, events and messages, and which part of it to export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from zabka.api.runs.run_models import Run
from zabka.journal.cluster_state import ClusterState
from zabka.journal.events import Entry
from zabka.journal.fold import apply
from zabka.journal.messages import Message


class NothingToExport(Exception):
    """There are no events in the requested time range. The message is the reason."""


class Recorded(NamedTuple):
    """A run to export. Only the events from `about.first_seq` to `about.last_seq` are exported.

    `history` also contains earlier and later events, because they can be causes. Its entries have ascending numbers.
    Messages are ordered by their sending time, which is measured by the same clock as `wall_us`. `before` is the folded
    state before the first exported event; None if that is the first event of the run.
    """

    about: Run
    history: Sequence[Entry]
    messages: Sequence[Message] = ()
    before: ClusterState | None = None

    @property
    def entries(self) -> list[Entry]:
        """The entries to export."""
        first, last = self.about.first_seq, self.about.last_seq
        return [entry for entry in self.history if first <= entry.seq <= last]

    def part(self, from_us: int | None, to_us: int | None) -> Recorded:
        """Return the part of the run from one wall clock time to another (inclusive). Raises NothingToExport.

        A history merged from several clocks is not sorted by time. The part begins with the first event that is not
        earlier than `from_us`, and ends with the last event that is not later than `to_us`.
        """
        if from_us is None and to_us is None:
            return self
        entries = self.entries
        first = next((place for place, each in enumerate(entries) if from_us is None or each.wall_us >= from_us), None)
        last = next(
            (place for place in range(len(entries) - 1, -1, -1) if to_us is None or entries[place].wall_us <= to_us), -1
        )
        if first is None or last < first:
            raise NothingToExport("no event of the run is in that time")
        state = self.before
        if first:
            state = copied(state)
            for entry in entries[:first]:
                apply(state, entry)
        begun, ended = entries[first], entries[last]
        about = self.about.model_copy(
            update={
                "first_seq": begun.seq, "last_seq": ended.seq, "events": last + 1 - first,
                "first_us": begun.wall_us, "last_us": max(each.wall_us for each in entries[first : last + 1]),
            }
        )  # fmt: skip
        messages = [
            each for each in self.messages
            if each.sent_us <= about.last_us and (each.arrived_us or each.sent_us) >= about.first_us
        ]  # fmt: skip
        return Recorded(about, self.history, messages, state)


def copied(state: ClusterState | None) -> ClusterState:
    """Return a copy of the state that a fold can modify, or an empty state for None."""
    return ClusterState() if state is None else msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=ClusterState)
