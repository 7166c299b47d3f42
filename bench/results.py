"""Measurements, their medians and ratios, and the tables that show them.

Every benchmark yields measurements of the same kind: a workload, the side that ran it, and figures by name.  The result
of several rounds of a workload on one side is their median.  Sides are compared by the ratio of the medians, or pair by
pair if both were measured at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Literal, NamedTuple

import msgspec
from rich.table import Table

Side = Literal["ours", "zookeeper", "kafka", "base"]
"""The sides of a comparison; `base` is an earlier commit of zabka."""
TITLES: dict[Side, str] = {"ours": "zabka", "zookeeper": "ZooKeeper", "kafka": "Kafka", "base": "base"}
EVEN = 0.02
"""A ratio that differs from 1 by at most this much counts as equal."""
SEEN = 0.05
"""Smallest change that a paired comparison reports. The change must also be statistically certain (see DOUBT)."""
DOUBT = 0.05
"""Maximum probability that the true ratio is outside the displayed range."""


class Figure(NamedTuple):
    """A column of a results table.

    It contains the figure's key, heading and format, whether a higher or a lower value is better, and how rounds are
    combined.
    """

    key: str
    heading: str
    style: str = ",.1f"
    better: Literal["less", "more", ""] = "less"
    combine: Callable[[Iterable[float]], float] = median


class Measurement(msgspec.Struct, frozen=True):
    """Result of one workload on one side.  `problems` are broken guarantees, such as lost writes or error replies."""

    work: str
    side: Side
    figures: dict[str, float]
    problems: list[str] = []

    def text(self, figures: Sequence[Figure]) -> str:
        """Return the measurement as one line of text, which is printed while the benchmark runs."""
        shown = [f for f in figures if f.combine is median and f.key in self.figures]
        parts = [f"{figure.heading} {self.figures[figure.key]:{figure.style}}" for figure in shown]
        return f"{self.work}, {TITLES[self.side]}: " + ", ".join([*parts, *self.problems])


def grouped(measurements: Iterable[Measurement]) -> dict[str, dict[Side, list[Measurement]]]:
    """Group measurements by workload and side, in the order of the first measurement of each workload."""
    found: dict[str, dict[Side, list[Measurement]]] = {}
    for each in measurements:
        found.setdefault(each.work, {}).setdefault(each.side, []).append(each)
    return found


def combined(measurements: Sequence[Measurement], figure: Figure) -> float | None:
    """Combine the values of a figure from several rounds; return None if no round has the figure."""
    values = [each.figures[figure.key] for each in measurements if figure.key in each.figures]
    return figure.combine(values) if values else None


def comparison_table(title: str, measurements: Iterable[Measurement], figures: Sequence[Figure]) -> Table:
    """Return a table that compares zabka's figures with Apache's.

    It has one line for each workload and side, and a line with the ratio: zabka's figure divided by Apache's.
    """
    caption = "÷ is zabka divided by Apache: green is better."
    by_work = grouped(measurements)
    compared = any("ours" in sides and len(sides) > 1 for sides in by_work.values())
    table = Table(title=title, caption=caption if compared else None, caption_justify="left")
    table.add_column("work")
    table.add_column("")
    for figure in figures:
        table.add_column(figure.heading, justify="right")
    for work, sides in by_work.items():
        rows = {side: [combined(sides[side], figure) for figure in figures] for side in TITLES if side in sides}
        for number, (side, values) in enumerate(rows.items()):
            cells = ["" if v is None else format(v, figure.style) for figure, v in zip(figures, values, strict=True)]
            table.add_row("" if number else work, TITLES[side], *cells)
        if len(rows) == 2:
            pairs = zip(figures, *rows.values(), strict=True)
            table.add_row("", "÷", *(_ratio_text(figure, ours, theirs) for figure, ours, theirs in pairs))
            table.add_section()
    return table


def _ratio_text(figure: Figure, ours: float | None, theirs: float | None) -> str:
    if ours is None or theirs is None or not figure.better:
        return ""
    if not theirs:  # CPU time is counted in ticks of 10 ms.
        return "n/a"
    ratio = ours / theirs
    better = ratio > 1 if figure.better == "more" else ratio < 1
    colour = "default" if abs(ratio - 1) <= EVEN else "green" if better else "red"
    return f"[{colour}]{ratio:.2f}[/]"


class Ratio(NamedTuple):
    """Median of the pairs' ratios, and the range that contains the true median with 95 % probability."""

    median: float
    low: float
    high: float

    def grew(self) -> bool:
        """Whether the figure grew by 5 % or more compared with the base, with statistical certainty (DOUBT)."""
        return self.low > 1 and self.median >= 1 + SEEN

    def shrank(self) -> bool:
        """Whether the figure shrank by 5 % or more compared with the base, with statistical certainty (DOUBT)."""
        return self.high < 1 and self.median <= 1 - SEEN

    def text(self, better: str) -> str:
        """Return the ratio, in red if the figure got worse and in green if it got better."""
        worse, improved = (self.shrank(), self.grew()) if better == "more" else (self.grew(), self.shrank())
        colour = "red" if worse else "green" if improved else "default"
        return f"[{colour}]{self.median:.3f}[/] ({self.low:.2f} to {self.high:.2f})"


def ratio_of(ratios: Sequence[float]) -> Ratio:
    """Return the median ratio and its confidence interval, from order statistics (sign test).

    The sign test makes no assumption about the distribution.
    """
    if not ratios:
        return Ratio(math.nan, math.nan, math.nan)
    ordered, count = sorted(ratios), len(ratios)
    outside = 0
    while 2 * sum(math.comb(count, k) for k in range(outside + 1)) <= DOUBT * 2**count:
        outside += 1
    # With five pairs or fewer, even the interval from the lowest to the highest ratio has a lower confidence than
    # required.
    if not outside:
        return Ratio(median(ordered), 0.0, math.inf)
    return Ratio(median(ordered), ordered[outside - 1], ordered[count - outside])


def paired_ratios(measurements: Iterable[Measurement], figures: Sequence[Figure]) -> dict[str, list[Ratio]]:
    """Return the ratios of the current code's figures to those of the base commit, by workload and figure.

    The n-th measurements of both sides are a pair.
    """
    return {
        work: [
            ratio_of([
                now.figures[figure.key] / then.figures[figure.key]
                for then, now in zip(sides.get("base", ()), sides.get("ours", ()), strict=False)
                if then.figures[figure.key]
            ])
            for figure in figures
        ]
        for work, sides in grouped(measurements).items()
    }  # fmt: skip


def worse(measurements: Iterable[Measurement], figures: Sequence[Figure]) -> list[str]:
    """Return a line for each figure that is at least 5 % worse than the base, with certainty (DOUBT)."""
    return [
        f"{work}: {figure.heading} is worse, {ratio.median:.3f} times the base"
        for work, ratios in paired_ratios(measurements, figures).items()
        for figure, ratio in zip(figures, ratios, strict=True)
        if (ratio.shrank() if figure.better == "more" else ratio.grew())
    ]


def paired_table(title: str, measurements: Iterable[Measurement], figures: Sequence[Figure]) -> Table:
    """Return a table with one line for each workload: the current code's figures divided by the base commit's."""
    caption = "Median of the pairs, and its range with 95 % certainty; red is worse by 5 % beyond doubt."
    table = Table(title=title, caption=caption, caption_justify="left")
    table.add_column("work")
    for figure in figures:
        table.add_column(figure.heading, justify="right")
    for work, ratios in paired_ratios(measurements, figures).items():
        table.add_row(work, *(ratio.text(figure.better) for figure, ratio in zip(figures, ratios, strict=True)))
    return table
