"""Draws charts as self-contained SVG: points with their confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 80, 24, 18, 52
ASIDE, BAR = 12, 40
"""Distance between series at the same position, and width of a bar if no other bar is drawn next to it."""
SEED, SPREAD = 2.0, 5
"""Radius of the mark for one seed, and number of side-by-side positions over which these marks are spread.

Without the spread, the marks would overlap.
"""
DOT, LETTER_WIDTH, LETTER_HEIGHT = 4.5, 7.0, 13.0
"""Radius of a mark, and approximate size of a letter at the page's font size of 12 px."""
DIGITS_MAX = 9
"""Maximum number of digits after the decimal point."""
SERIES = ("s1", "s2", "s3", "s4", "s5", "s6")
"""CSS class names of the chart series, as defined in the page's style sheet."""


class Mark(NamedTuple):
    """A value with its confidence interval, at a position on the x axis."""

    x: float
    y: float
    low: float
    high: float
    label: str
    seeds: tuple[float, ...] = ()
    """The values of the single seeds."""


class Series(NamedTuple):
    """The marks of one series. `name` is empty if there is only one series."""

    name: str
    marks: list[Mark]


class Axis(NamedTuple):
    """An axis: its title, its range, and the labels at its ticks."""

    title: str
    low: float
    high: float
    ticks: list[tuple[float, str]]

    def place(self, value: float, begin: float, end: float) -> float:
        """Return the position of a value in a drawing whose axis goes from `begin` to `end`."""
        return begin + (end - begin) * (value - self.low) / (self.high - self.low or 1.0)


def number_axis(title: str, values: Sequence[float], *, from_zero: bool = False) -> Axis:
    """Return an axis for these values, with about five ticks at round numbers."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if from_zero:
        low = min(0.0, low)
    if high <= low:
        low, high = low - 0.5 * (abs(low) or 1), high + 0.5 * (abs(high) or 1)
        low = max(0.0, low) if from_zero else low
    step = _round_step((high - low) / 5)
    first, last = math.floor(low / step), math.ceil(high / step)
    places = [number * step for number in range(first, last + 1)]
    digits = next((some for some in range(DIGITS_MAX) if math.isclose(round(step, some), step)), DIGITS_MAX)
    return Axis(title, places[0], places[-1], [(place, _written(place, digits)) for place in places])


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(float(power * factor) for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)


def format_number(value: float) -> str:
    """Format a number with as many digits as necessary, and with thousands separators.

    A value just above 0 is not rounded to 0, and a value just below 100 is not rounded to 100.
    """
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    while digits < DIGITS_MAX and (
        (value and not round(value, digits)) or (99 < value < 100 and round(value, digits) == 100)
    ):
        digits += 1
    return _written(value, digits)


def _written(value: float, digits: int) -> str:
    text = f"{round(value, digits) or 0.0:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def chart(title: str, x: Axis, y: Axis, series: Sequence[Series], *, lines: bool, bars: bool) -> str:
    """Return a chart of marks, each with its confidence interval and the values of individual seeds.

    With `lines`, a line joins the marks of a series. The x axis must then be a scale. With `bars`, each mark is at the
    end of a bar.
    """
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = _frame(title, x, y, right, bottom)
    for number, one in enumerate(series):
        kind = SERIES[number % len(SERIES)]
        # Shift the marks, so that the intervals of several series at the same position are drawn next to each other.
        aside = (number - (len(series) - 1) / 2) * ASIDE
        places = [(x.place(m.x, LEFT, right) + aside, m) for m in one.marks]
        if lines and len(places) > 1:
            path = " ".join(f"{at:.1f},{y.place(m.y, bottom, TOP):.1f}" for at, m in places)
            parts.append(f'<polyline class="line {kind}" points="{path}"/>')
        if bars:
            width = BAR if len(series) == 1 else ASIDE - 2
            parts += [_bar(at, mark, y, bottom, kind, width) for at, mark in places]
        parts += [_seeds(at, mark, y, bottom, kind) for at, mark in places]
        parts += [_mark(at, mark, y, bottom, kind) for at, mark in places]
    return "".join([*parts, "</svg>"]) + _legend(series)


def _frame(title: str, x: Axis, y: Axis, right: float, bottom: float) -> list[str]:
    return [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        *(_row(y, value, text, right, bottom) for value, text in y.ticks),
        *(_tick(x, value, text, right, bottom) for value, text in x.ticks),
        f'<text class="axis" x="{(LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x.title)}</text>',
        f'<text class="axis" x="14" y="{(TOP + bottom) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {(TOP + bottom) / 2})">{escape(y.title)}</text>',
    ]


def _row(y: Axis, value: float, text: str, right: float, bottom: float) -> str:
    at = y.place(value, bottom, TOP)
    return (
        f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>'
        f'<text class="tick" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{escape(text)}</text>'
    )


def _tick(x: Axis, value: float, text: str, right: float, bottom: float) -> str:
    at = x.place(value, LEFT, right)
    return f'<text class="tick" x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{escape(text)}</text>'


def _bar(at: float, mark: Mark, y: Axis, bottom: float, kind: str, width: float) -> str:
    zero, top = y.place(0.0, bottom, TOP), y.place(mark.y, bottom, TOP)
    return (
        f'<rect class="bar {kind}" x="{at - width / 2:.1f}" width="{width}" '
        f'y="{min(zero, top):.1f}" height="{abs(zero - top):.1f}"/>'
    )


def _seeds(at: float, mark: Mark, y: Axis, bottom: float, kind: str) -> str:
    return "".join(
        f'<circle class="seed {kind}" cx="{at + 2 * (number % SPREAD - SPREAD // 2):.1f}" '
        f'cy="{y.place(value, bottom, TOP):.1f}" r="{SEED}"/>'
        for number, value in enumerate(mark.seeds)
    )


def _mark(at: float, mark: Mark, y: Axis, bottom: float, kind: str) -> str:
    middle = y.place(mark.y, bottom, TOP)
    low, high = y.place(mark.low, bottom, TOP), y.place(mark.high, bottom, TOP)
    text = f"{mark.label}: {format_number(mark.y)} ({format_number(mark.low)} to {format_number(mark.high)})"
    return (
        f'<g class="{kind}"><title>{escape(text)}</title>'
        f'<line class="whisker" x1="{at:.1f}" x2="{at:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>'
        f'<circle cx="{at:.1f}" cy="{middle:.1f}" r="{DOT}"/></g>'
    )


def scatter(title: str, x: Axis, y: Axis, marks: Sequence[Mark], x_intervals: Sequence[tuple[float, float]]) -> str:
    """Return a chart with one named mark per setting, and with confidence intervals in both directions."""
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = _frame(title, x, y, right, bottom)
    dots = [(x.place(mark.x, LEFT, right), y.place(mark.y, bottom, TOP)) for mark in marks]
    kinds = [SERIES[number % len(SERIES)] for number in range(len(marks))]
    for mark, kind, (low, high), (at, middle) in zip(marks, kinds, x_intervals, dots, strict=True):
        ends = x.place(low, LEFT, right), x.place(high, LEFT, right)
        parts.append(
            f'<line class="whisker {kind}" x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{middle:.1f}" y2="{middle:.1f}"/>'
        )
        parts.append(_mark(at, mark, y, bottom, kind))
    for mark, kind, name in zip(marks, kinds, _names([mark.label for mark in marks], dots), strict=True):
        parts.append(f'<text class="name {kind}" x="{name.left:.1f}" y="{name.base:.1f}">{escape(mark.label)}</text>')
    return "".join([*parts, "</svg>"])


class _Box(NamedTuple):
    """Position of a label: its left end, its base line, and its width."""

    left: float
    base: float
    width: float

    def meets(self, other: _Box) -> bool:
        return (
            self.left < other.left + other.width
            and other.left < self.left + self.width
            and abs(self.base - other.base) < LETTER_HEIGHT
        )

    @property
    def is_inside(self) -> bool:
        return self.left > LEFT and self.left + self.width < WIDTH and TOP < self.base < HEIGHT - BOTTOM


def _names(labels: Sequence[str], dots: Sequence[tuple[float, float]]) -> list[_Box]:
    """Place the name of each mark as close to the mark as possible, without covering other marks or already placed
    names.
    """
    taken = [_Box(at - DOT, middle + LETTER_HEIGHT / 2, 2 * DOT) for at, middle in dots]
    found = []
    for label, (at, middle) in zip(labels, dots, strict=True):
        width = LETTER_WIDTH * len(label)
        places = [
            _Box(left, middle + below, width)
            for below in (-8, 17, -23, 32, -38, 47, -53, 62)
            for left in (at + 9, at - 9 - width)
        ]
        free = (place for place in places if place.is_inside and not any(place.meets(other) for other in taken))
        found.append(chosen := next(free, places[0]))
        taken.append(chosen)
    return found


def _legend(series: Sequence[Series]) -> str:
    if len(series) < 2:
        return ""
    items = "".join(
        f'<li class="{SERIES[number % len(SERIES)]}">{escape(one.name)}</li>' for number, one in enumerate(series)
    )
    return f'<ul class="legend">{items}</ul>'
