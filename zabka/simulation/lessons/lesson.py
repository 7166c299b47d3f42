"""What a lesson is, and how a play answers its question.

No answer is written down as the right one.  Each says when it is right, of a play's history, and `Lesson.right` looks.
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
"""The partition that every lesson about Kafka looks at."""


class NoMoment(Exception):
    """A play in which the lesson's moment does not come, or in which not exactly one of its answers is right; why."""


class Moment(NamedTuple):
    """The first event of that type of which all of these fields hold; `with_bug` tells in which of the two plays."""

    type: str
    fields: Mapping[str, Any] = {}
    with_bug: bool = False

    def is_at(self, event: Event) -> bool:
        """Whether an event is the one that is meant."""
        return type_name(event) == self.type and all(getattr(event, k) == value for k, value in self.fields.items())


class Scene:
    """A play's whole history, and the moment in it that a lesson looks at."""

    def __init__(self, entries: Sequence[Entry], moment: Moment) -> None:
        """Raises NoMoment where the moment does not come."""
        self.entries = entries
        found = next((place for place, entry in enumerate(entries) if moment.is_at(entry.event)), None)
        if found is None:
            fields = ", ".join(f"{key}={value}" for key, value in moment.fields.items())
            raise NoMoment(f"no {moment.type} with {fields or 'anything'} is in this play")
        self.place = found

    @property
    def entry(self) -> Entry:
        """The event that is looked at."""
        return self.entries[self.place]

    @property
    def event(self) -> Any:
        """Its body."""
        return self.entry.event

    @cached_property
    def state(self) -> ClusterState:
        """What is true at that moment."""
        return fold(self.entries[: self.place + 1])

    @cached_property
    def final_state(self) -> ClusterState:
        """What is true when the play is over."""
        return fold(self.entries)

    @property
    def partition(self) -> PartitionView:
        """The partition, at that moment."""
        return self.state.partitions[PARTITION]

    def earlier(self, kind: type[E]) -> list[E]:
        """The events of that type before the moment, in order."""
        return [entry.event for entry in self.entries[: self.place] if isinstance(entry.event, kind)]

    def later(self, kind: type[E]) -> list[E]:
        """Those behind it."""
        return [entry.event for entry in self.entries[self.place + 1 :] if isinstance(entry.event, kind)]

    @cached_property
    def causes(self) -> Causes:
        """What leads to what in this play."""
        causes = Causes()
        for entry in self.entries:
            causes.see(entry)
        return causes

    @property
    def chain(self) -> Chain:
        """From the moment's event back to where the written causes end."""
        return self.causes.chain(self.entry)

    @property
    def beginning(self) -> Entry | None:
        """The fault or the request where the chain ends; None where it ends otherwise."""
        last = self.chain.steps[-1]
        return last if isinstance(last.event, e.AdminRequested | e.FaultInjected) else None


class Answer(NamedTuple):
    """Something to predict, and when it is right."""

    text: str
    holds: Callable[[Scene], bool]


class Lesson(NamedTuple):
    """A question about an outage of the library, to be answered before it is played.

    `scenario` is the script; `moment` is where to look; `look_at` says at what, in one sentence; `explanation` is one
    paragraph.
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
        """The lesson's moment in a play, which is the one with the bug where `moment.with_bug` says so.
        Raises NoMoment."""
        return Scene(entries, self.moment)

    def right(self, scene: Scene) -> int:
        """Which answer is right, counted from 0, by what came to pass.  Raises NoMoment where that is not one."""
        found = [number for number, answer in enumerate(self.answers) if answer.holds(scene)]
        if len(found) != 1:
            raise NoMoment(f"{len(found)} of the answers of {self.name} are right in this play")
        return found[0]
