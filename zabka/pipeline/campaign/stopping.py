"""Decides when a campaign ends, by a sequential rule whose error rate does not grow with the number of looks.

A look is an interim analysis. At every look each setting is compared with the baseline. It is *different* if the paired
sign-flip test's p-value is at most (1 - confidence) / (looks x comparisons). By Bonferroni's inequality the chance of a
false "different", in any comparison and at any look, stays below 1 - confidence.

A setting's cost in each figure of `also` is tested in the same way. The result reports the costs of only one setting,
so the significance level for costs is (1 - confidence) / (looks x figures).

A setting is *equal* if the whole interval of the difference, at that same level, is within `equal_within`, and there
were enough seeds to see an effect on one in ten of them. An interval does not cover unseen cases: if all differences in
eight seeds are 0, its width is 0.

The verdict is *no difference seen* if these seeds would have shown a difference of the size `equal_within` with a
probability of 80 %, and did not. If the file defines no such size, no number of seeds is sufficient for that verdict.
The verdict is then *not enough seeds to tell*.

When no comparison of any named figure lacks seeds, the campaign ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from zabka.pipeline.campaign.statistics import Difference, difference, paired_p, seeds_to_be_equal

AFFECTED = 0.1
"""Share of the seeds that a rare effect is assumed to affect.

A setting is called equal only after enough seeds to observe such an effect.
"""


class Verdict(StrEnum):
    """Verdict of a comparison."""

    DIFFERENT = "different"
    EQUAL = "equal"
    NOT_SEEN = "no difference seen"
    OPEN = "not enough seeds to tell"


class Comparison(msgspec.Struct, frozen=True):
    """Comparison of one setting with the baseline.

    Its confidence interval has the level that the stopping rule requires.
    """

    point: int
    difference: Difference
    verdict: Verdict


def level_of(confidence: float, looks: int, points: int) -> float:
    """Return the significance level at which a setting counts as different.

    A difference counts if its p-value is at most this level. The level depends on the number of interim analyses
    (`looks`) and the number of points (`points`).
    """
    return (1 - confidence) / (looks * max(1, points - 1))


def cost_level(confidence: float, looks: int, figures: int) -> float:
    """Return the significance level at which a setting's cost counts as different in one figure.

    A difference counts if its p-value is at most this level. The level is divided by the number of interim analyses
    (`looks`) and the number of figures.
    """
    return (1 - confidence) / (looks * max(1, figures))


def compare(by_point: Mapping[int, Mapping[int, float]], *, level: float, equal_within: float) -> list[Comparison]:
    """Compare every point with point 0. `by_point` contains the values of each point, by seed."""
    found = []
    for point, values in by_point.items():
        if point == 0:
            continue
        seen = difference(values, by_point[0], 1 - level)
        found.append(Comparison(point, seen, _verdict(seen, level, equal_within)))
    return found


def rivals(by_point: Mapping[int, Mapping[int, float]], best: int, *, confidence: float, looks: int) -> list[int]:
    """Return the points, except point 0, that cannot be distinguished from the best point.

    The best point was chosen from these same runs. The significance level is therefore divided by the number of pairs
    of points and by `looks`, the number of times that the runs are evaluated. The probability that any two equal points
    are ever called different thus stays below the level, whichever point is best.
    """
    pairs = math.comb(len(by_point), 2)
    level = (1 - confidence) / (looks * max(1, pairs))
    others = [point for point in by_point if point not in (0, best)]
    return [point for point in others if paired_p(by_point[point], by_point[best]) > level]


def _verdict(seen: Difference, level: float, equal_within: float) -> Verdict:
    if seen.low is None or seen.high is None or seen.seeds < 2:
        return Verdict.OPEN
    if seen.p <= level:
        return Verdict.DIFFERENT
    if not equal_within or seen.seeds < seeds_to_be_equal(level, AFFECTED):
        return Verdict.OPEN
    if -equal_within <= seen.low and seen.high <= equal_within:
        return Verdict.EQUAL
    return Verdict.NOT_SEEN if seen.detectable <= equal_within else Verdict.OPEN


def is_clear(comparisons: list[Comparison]) -> bool:
    """Return whether every comparison has enough seeds for a verdict."""
    return bool(comparisons) and all(each.verdict is not Verdict.OPEN for each in comparisons)
