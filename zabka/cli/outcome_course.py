"""Shows how likely an outcome was at each moment of a run (`zabka what-if --futures N --every 1s`).

From each of several moments, N futures continue the run with other random numbers. The share of futures that lose
acknowledged records rises from moment to moment, until the loss is certain. Moments after the run's first loss are left
out. The run can be a fork: from a moment before one of its changes, the futures do not have that change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

import msgspec

from zabka.cli.damage import on_world_clock, seconds
from zabka.cli.forked_pair import Asked, BadChange, play_fork
from zabka.cli.futures import Future, History, PlayFutures, hash_before, numbered, share, wilson
from zabka.journal.fold import fold
from zabka.simulation.fork import Change
from zabka.simulation.run import ForkedRun

MOMENTS_MAX = 1_000
BAR = 20
"""Length of the bar of a certain outcome, in characters."""
NEVER = "never"


class Moment(NamedTuple):
    """A moment of a run, and the futures that begin at it."""

    at_us: int
    futures: Sequence[Future]

    @property
    def losing(self) -> int:
        """Return the number of futures that lose acknowledged records."""
        return sum(each.acknowledged_lost > 0 for each in self.futures)

    @property
    def is_certain(self) -> bool:
        """Return whether all futures lose acknowledged records."""
        return self.losing == len(self.futures)


def first_loss_us(run: ForkedRun) -> int | None:
    """Return the time of the run's first loss of committed records, or None if there is no loss."""
    return min((loss.at_us for loss in fold(on_world_clock(run.entries)).losses), default=None)


def moments_of(run: ForkedRun, loss_us: int | None, at_us: int, every_us: int) -> range:
    """Return the moments from `at_us` to the run's first loss, or else to its end.  Raises BadChange."""
    end_us = run.entries[-1].mono_us if loss_us is None else loss_us
    if at_us >= end_us:
        what = "the run ends" if loss_us is None else "the first records are lost"
        raise BadChange(f"--at {seconds(at_us)}: {what} at {seconds(end_us)}")
    found = range(at_us, end_us, every_us)
    if len(found) > MOMENTS_MAX:
        raise BadChange(
            f"--every {seconds(every_us)}: that is {len(found):,} moments; at most {MOMENTS_MAX:,} are played"
        )
    return found


def certain_from(moments: Iterable[Moment]) -> int | None:
    """Return the first moment from which on every future of every moment loses records, or None if there is none."""
    found = None
    for moment in moments:
        found = (moment.at_us if found is None else found) if moment.is_certain else None
    return found


def line(moment: Moment) -> str:
    """Return the table's line of a moment."""
    writable_us = _writable_us(moment)
    writable = NEVER if writable_us is None else seconds(writable_us)
    bar = "#" * round(BAR * moment.losing / len(moment.futures))
    counted = share([each.acknowledged_lost > 0 for each in moment.futures])
    return f"{seconds(moment.at_us):>10}  {bar:{BAR}}  {counted:24}  {writable}"


class Course(NamedTuple):
    """How likely an outcome was over the time of a run, as far as its moments have been played."""

    loss_us: int | None
    """Time of the run's first loss of committed records."""
    moments: range
    played: Sequence[Moment]

    @property
    def has_ended(self) -> bool:
        """Return whether all moments have been played."""
        return len(self.played) == len(self.moments)


class Point(msgspec.Struct, frozen=True):
    """A moment of the plot: how many futures lose acknowledged records, with the interval of their share."""

    at_us: int
    losing: int
    low: float
    high: float
    writable_us: int | None
    """Median time until all partitions are writable."""


class Plot(msgspec.Struct, frozen=True):
    """The plot of an outcome over the time of a run, as JSON for other programs. Times are in the world's time."""

    futures: int
    """Number of futures of each moment."""
    moments: int
    points: list[Point]
    loss_us: int | None
    certain_us: int | None
    """Moment from which on all futures lose acknowledged records, if all moments have been played."""


def _writable_us(moment: Moment) -> int | None:
    known = [each.writable_us for each in moment.futures if each.writable_us is not None]
    return int(median(known)) if known else None


def courses(asked: Asked, every_us: int, count: int, play: PlayFutures) -> Iterator[Course]:
    """Yield the course before the first moment is played, and again after each moment.  Raises BadChange.

    The futures of a fork have its changes up to the moment at which they begin, and no later one.
    """
    at_us = asked.changes[0].at_us or 0
    run, made = play_fork(asked)
    loss_us = first_loss_us(run)
    course = Course(loss_us, moments_of(run, loss_us, at_us, every_us), ())
    yield course
    history = History(asked.seed, asked.scenario, asked.settings, run.seed.drawn)
    for moment_us in course.moments:
        changes = (*(each for each in made if each.at_us <= moment_us), Change(moment_us))
        found = Moment(moment_us, play(history, numbered(changes, count)))
        before = hash_before(run, moment_us)
        assert all(future.before == before for future in found.futures), "please report this"
        course = course._replace(played=(*course.played, found))
        yield course


def plot(course: Course, count: int) -> Plot:
    """Return the data of the plot of a course. Each moment has `count` futures."""
    points = [
        Point(moment.at_us, moment.losing, *wilson(moment.losing, len(moment.futures)), _writable_us(moment))
        for moment in course.played
    ]
    certain_us = certain_from(course.played) if course.has_ended else None
    return Plot(count, len(course.moments), points, course.loss_us, certain_us)


def outcome_course(asked: Asked, every_us: int, count: int, play: PlayFutures) -> Iterator[str]:
    """Yield the lines of the report, each as soon as its futures have been played.  Raises BadChange."""
    for course in courses(asked, every_us, count, play):
        if course.played:
            yield line(course.played[-1])
        else:
            moments = f"{len(course.moments):,} moments"
            yield f"seed {asked.seed} of {asked.scenario}: {count} futures from each of {moments}"
            writable = "median time until all partitions are writable"
            yield f"{'moment':>10}  {'lose acknowledged records':{BAR + 26}}  {writable}"
    certain_us = certain_from(course.played)
    yield (
        "the run itself loses no committed records"
        if course.loss_us is None
        else f"the run itself loses committed records at {seconds(course.loss_us)}"
    )
    if certain_us is not None:
        yield f"from {seconds(certain_us)} on, each of these futures loses acknowledged records"


def plots(asked: Asked, every_us: int, count: int, play: PlayFutures) -> Iterator[str]:
    """Yield the data of the plot as a line of JSON, before the first moment and after each.  Raises BadChange."""
    for course in courses(asked, every_us, count, play):
        yield msgspec.json.encode(plot(course, count)).decode()
