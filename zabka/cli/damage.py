"""Figures of the damage in a simulated run after a given moment.

Each figure is shown with the root cause of its largest part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from zabka.journal.cluster_state import ControllerTermView
from zabka.journal.events import Entry
from zabka.journal.fold import fold
from zabka.journal.incidents import Incident, incidents
from zabka.journal.losses import committed_records_lost
from zabka.journal.sentences import Sentences
from zabka.pipeline.campaign.lives import Lives
from zabka.pipeline.campaign.partition_times import PartitionClock, Window
from zabka.pipeline.campaign.record_losses import RecordLosses
from zabka.simulation.run import ForkedRun
from zabka.simulation.settings import WorldSettings

MIN_ISR = "min.insync.replicas"


class Figure(NamedTuple):
    """A measured value of a run, and the root cause of its largest part.

    `cause` is empty if nothing caused the value.
    """

    title: str
    value: str
    cause: str = ""


class Course(NamedTuple):
    """The effects of a run on its partitions and on its controller after a given moment.

    Times are in microseconds on the world's clock.
    """

    unwritable_us: dict[str, int]
    """Time during which each partition rejected records that clients sent with their acks setting.

    Partitions that could always accept such records are not included.
    """
    writable_since_us: int | None
    """First time, from the given moment on, at which every partition can accept writes; None if there is none."""
    without_controller_us: int
    controller_since_us: int | None
    """Earliest time, from the observed moment on, at which a controller makes decisions; None if there is none."""
    acknowledged_lost: int


def seconds(us: int) -> str:
    """Return a time of the simulated world as text."""
    return f"{us / 1_000_000:.3f} s"


def on_world_clock(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries numbered from 1, with the world's time in place of the nodes' wall clocks."""
    return [msgspec.structs.replace(entry, wall_us=entry.mono_us, seq=seq) for seq, entry in enumerate(entries, 1)]


def course(entries: Sequence[Entry], at_us: int, settings: WorldSettings) -> Course:
    """Return the effects of a run on its partitions and its controller, from the time `at_us` on.

    The times of `entries` are on the world's clock.
    """
    end_us, lives, losses = max(entries[-1].mono_us, at_us), Lives(), RecordLosses()
    min_isr = int(settings.broker_keys.get(MIN_ISR, "1"))
    clock = PartitionClock(Window(at_us, end_us), lives, min_isr, settings.workload.acks)
    unwritable, since_us = True, None
    for entry in entries:
        # The state at the moment includes the change itself, which comes first.
        if since_us is None and entry.mono_us > at_us and not unwritable:
            since_us = at_us
        clock.before(entry)
        lives.see(entry)
        clock.see(entry)
        losses.see(entry)
        if since_us is None:
            unwritable = bool(clock.unwritable())
            if entry.mono_us > at_us and not unwritable:
                since_us = entry.mono_us
    times = {each.partition: each.window_us - each.writable_us for each in clock.close(end_us)}
    active = [(max(begin, at_us), end) for begin, end in _active(fold(entries).controller_terms, end_us) if end > at_us]
    return Course(
        unwritable_us={name: us for name, us in times.items() if us},
        writable_since_us=since_us,
        without_controller_us=end_us - at_us - sum(end - begin for begin, end in active),
        controller_since_us=min((begin for begin, _ in active), default=None),
        acknowledged_lost=sum(losses.lost().values()),
    )


def _active(terms: Sequence[ControllerTermView], end_us: int) -> Iterator[tuple[int, int]]:
    """Yield the periods in which a controller makes decisions; they do not overlap."""
    done_us = 0
    for term in terms:
        if term.ready_us is not None:
            ends = [end for end in (term.until_us, term.holder_lost_us, end_us) if end is not None]
            begin, done_us = max(term.ready_us, done_us), max(min(ends), done_us)
            if done_us > begin:
                yield begin, done_us


def figures(run: ForkedRun, at_us: int, settings: WorldSettings, sentences: Sentences) -> list[Figure]:
    """Return the figures that describe a run from the given moment to its end."""
    entries = on_world_clock(run.entries)
    found, known = course(entries, at_us, settings), incidents(entries)

    def cause(size: Callable[[Incident], int]) -> str:
        worst = max(known, key=size, default=None)
        if worst is None or size(worst) <= 0:
            return ""
        by = worst.cause
        return f"{seconds(by.mono_us)} {sentences.sentence(by.node, by.event)} ({by.node}#{by.node_seq})"

    losses = [loss for loss in fold(entries).losses if loss.at_us >= at_us]
    lost = cause(lambda each: sum(loss.count for loss in each.losses if loss.at_us >= at_us))
    committed, unwritable = committed_records_lost(losses), found.unwritable_us
    return [
        Figure("writes to the ensemble", f"{run.outcome.acknowledged_writes:,}"),
        Figure("records acknowledged", f"{run.outcome.acknowledged_records:,}"),
        Figure("acknowledged records lost", f"{found.acknowledged_lost:,}", lost if found.acknowledged_lost else ""),
        Figure("committed records lost, at least", f"{committed:,}", lost if committed else ""),
        Figure(
            "time without a controller",
            seconds(found.without_controller_us),
            cause(lambda each: _gap_us(each, at_us)) if found.without_controller_us else "",
        ),
        Figure("partitions not writable for a time", f"{len(unwritable)}"),
        Figure(
            "their times not writable, in all",
            seconds(sum(unwritable.values())),
            cause(lambda each: _outage_us(each, at_us, entries[-1].mono_us)) if unwritable else "",
        ),
        Figure("recovery after the last fault", seconds(run.outcome.recovery_ms * 1000)),
        Figure("violations", f"{len(run.outcome.problems)}", "; ".join(run.outcome.problems[:1])),
    ]


def _gap_us(incident: Incident, at_us: int) -> int:
    return sum(each.gap_us or 0 for each in incident.failovers if each.at_us >= at_us)


def _outage_us(incident: Incident, at_us: int, end_us: int) -> int:
    """Return for how long the incident kept partitions without a leader, or without a replica in their ISR."""
    spans = [(each.from_us, each.to_us or end_us) for each in incident.outages]
    spans += [(each.from_us, each.to_us or end_us) for each in incident.removals]
    return sum(max(0, to_us - max(from_us, at_us)) for from_us, to_us in spans)
