"""The parts of a lesson, and how a play determines the right answer.

The right answer is not stored. Each answer has a predicate on the history of a play, and `Lesson.right` evaluates these
predicates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from zabka.journal import events as e
from zabka.journal.causes import Causes, Chain
from zabka.journal.cluster_state import ClusterState, PartitionView
from zabka.journal.events import Entry, Event, type_name
from zabka.journal.fold import fold

E = TypeVar("E", bound=Event)
PARTITION = "orders-0"
"""The partition that all Kafka lessons use."""


class NoMoment(Exception):
    """The play lacks the lesson's moment, or not exactly one answer is right; the message gives the reason."""


class Moment(NamedTuple):
    """The first event of that type with all these field values. With `with_bug`, it is in the play with the bug."""

    type: str
    fields: Mapping[str, Any] = {}
    with_bug: bool = False

    def is_at(self, event: Event) -> bool:
        """Whether an event matches the type and fields."""
        return type_name(event) == self.type and all(getattr(event, k) == value for k, value in self.fields.items())


class Scene:
    """The whole history of a play, and the lesson's moment in it."""

    def __init__(self, entries: Sequence[Entry], moment: Moment) -> None:
        """Raise NoMoment if the history lacks the moment."""
        self.entries = entries
        found = next((place for place, entry in enumerate(entries) if moment.is_at(entry.event)), None)
        if found is None:
            fields = ", ".join(f"{key}={value}" for key, value in moment.fields.items())
            raise NoMoment(f"no {moment.type} with {fields or 'anything'} is in this play")
        self.place = found

    @property
    def entry(self) -> Entry:
        """The journal entry at the moment."""
        return self.entries[self.place]

    @property
    def event(self) -> Any:
        """The event at the moment."""
        return self.entry.event

    @cached_property
    def state(self) -> ClusterState:
        """The cluster state at the moment."""
        return fold(self.entries[: self.place + 1])

    @cached_property
    def final_state(self) -> ClusterState:
        """The cluster state at the end of the play."""
        return fold(self.entries)

    @property
    def partition(self) -> PartitionView:
        """The partition's state at the moment."""
        return self.state.partitions[PARTITION]

    def earlier(self, kind: type[E]) -> list[E]:
        """Return the events of that type before the moment, in order."""
        return [entry.event for entry in self.entries[: self.place] if isinstance(entry.event, kind)]

    def later(self, kind: type[E]) -> list[E]:
        """Return the events of that type after the moment, in order."""
        return [entry.event for entry in self.entries[self.place + 1 :] if isinstance(entry.event, kind)]

    @cached_property
    def causes(self) -> Causes:
        """The causes and effects in this play."""
        causes = Causes()
        for entry in self.entries:
            causes.see(entry)
        return causes

    @property
    def chain(self) -> Chain:
        """The causal chain from the moment's event back to its first recorded cause."""
        return self.causes.chain(self.entry)

    @property
    def beginning(self) -> Entry | None:
        """The fault or request at the end of the chain, or None if the chain ends with neither."""
        last = self.chain.steps[-1]
        return last if isinstance(last.event, e.AdminRequested | e.FaultInjected) else None


class Answer(NamedTuple):
    """A possible answer, and a predicate that determines whether it is right."""

    text: str
    holds: Callable[[Scene], bool]


class Lesson(NamedTuple):
    """A question about an outage of the library. The reader answers it before the outage is played.

    `scenario` is the script, `moment` the event to look at, `look_at` a sentence about what to look at, and
    `explanation` a paragraph.
    """

    name: str
    title: str
    scenario: str
    question: str
    answers: tuple[Answer, ...]
    moment: Moment
    look_at: str
    explanation: str

    def scene(self, entries: Sequence[Entry]) -> Scene:
        """Return the lesson's moment in a play (in the play with the bug if `moment.with_bug`). Raises NoMoment."""
        return Scene(entries, self.moment)

    def right(self, scene: Scene) -> int:
        """Return the index of the right answer in this play. Raises NoMoment unless exactly one answer is right."""
        found = [number for number, answer in enumerate(self.answers) if answer.holds(scene)]
        if len(found) != 1:
            raise NoMoment(f"{len(found)} of the answers of {self.name} are right in this play")
        return found[0]
