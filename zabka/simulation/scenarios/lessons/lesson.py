"""The parts of a lesson, and how the right answer is computed from a run of its script.

The right answer is not stored. Each possible answer has a predicate on the events of a run, and `Lesson.right`
evaluates the predicates.
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
    """A run lacks the lesson's decisive event, or does not have exactly one right answer; the message says which."""


class Moment(NamedTuple):
    """The first event of a type whose fields have the given values. If `with_bug`, the event is in the run with the
    bug.
    """

    type: str
    fields: Mapping[str, Any] = {}
    with_bug: bool = False

    def is_at(self, event: Event) -> bool:
        """Return whether an event has this type and these field values."""
        return type_name(event) == self.type and all(getattr(event, k) == value for k, value in self.fields.items())


class Scene:
    """All events of a run, and the lesson's decisive event among them."""

    def __init__(self, entries: Sequence[Entry], moment: Moment) -> None:
        """Raise NoMoment if no event matches the lesson's moment."""
        self.entries = entries
        found = next((place for place, entry in enumerate(entries) if moment.is_at(entry.event)), None)
        if found is None:
            fields = ", ".join(f"{key}={value}" for key, value in moment.fields.items())
            raise NoMoment(f"no {moment.type} with {fields or 'anything'} is in this play")
        self.place = found

    @property
    def entry(self) -> Entry:
        """Journal entry of the decisive event."""
        return self.entries[self.place]

    @property
    def event(self) -> Any:
        """The decisive event."""
        return self.entry.event

    @cached_property
    def state(self) -> ClusterState:
        """Cluster state at the decisive event."""
        return fold(self.entries[: self.place + 1])

    @cached_property
    def final_state(self) -> ClusterState:
        """Cluster state at the end of the run."""
        return fold(self.entries)

    @property
    def partition(self) -> PartitionView:
        """State of the lesson's partition at the decisive event."""
        return self.state.partitions[PARTITION]

    def earlier(self, kind: type[E]) -> list[E]:
        """Return the events of that type before the decisive event, in order."""
        return [entry.event for entry in self.entries[: self.place] if isinstance(entry.event, kind)]

    def later(self, kind: type[E]) -> list[E]:
        """Return the events of that type after the decisive event, in order."""
        return [entry.event for entry in self.entries[self.place + 1 :] if isinstance(entry.event, kind)]

    @cached_property
    def causes(self) -> Causes:
        """Causes and effects among the events of this run."""
        causes = Causes()
        for entry in self.entries:
            causes.see(entry)
        return causes

    @property
    def chain(self) -> Chain:
        """The causal chain from the decisive event back to its first recorded cause."""
        return self.causes.chain(self.entry)

    @property
    def beginning(self) -> Entry | None:
        """The fault or operator's request that begins the causal chain, or None if another event begins it."""
        last = self.chain.steps[-1]
        return last if isinstance(last.event, e.AdminRequested | e.FaultInjected) else None


class Answer(NamedTuple):
    """A possible answer, and a predicate that determines whether it is right."""

    text: str
    holds: Callable[[Scene], bool]


class Lesson(NamedTuple):
    """A question about an outage of the library. The reader answers it before seeing the run.

    `scenario` is the script's name, `moment` the decisive event, `look_at` a sentence that tells the reader what to
    look at, and `explanation` a paragraph that explains the answer.
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
        """Find the lesson's decisive event in a run (the run with the bug if `moment.with_bug`). Raises NoMoment."""
        return Scene(entries, self.moment)

    def right(self, scene: Scene) -> int:
        """Return the index of the right answer for this run. Raises NoMoment unless exactly one answer is right."""
        found = [number for number, answer in enumerate(self.answers) if answer.holds(scene)]
        if len(found) != 1:
            raise NoMoment(f"{len(found)} of the answers of {self.name} are right in this play")
        return found[0]
