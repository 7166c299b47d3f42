"""When a campaign has its answer: a rule that may look several times and is wrong no more often for it.

At every look each setting is compared with the baseline.  It is *different* where the paired sign-flip test's p-value
is at most (1 - confidence) / (looks x comparisons): by Bonferroni's inequality the chance that any comparison is called
different at any look though none is stays below 1 - confidence, whatever was seen before.  It is *equal* where the
whole interval of the difference, at that same level, lies within what the file calls no difference, and there were so
many seeds that what strikes one in ten of them would have been seen: an interval knows nothing of what did not happen,
and differences that were nought in eight seeds have one of no width.  When all comparisons are one or the other, no
further seed can tell more, and the campaign ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from zabka.pipeline.campaign.statistics import Difference, difference, paired_p, seeds_to_be_equal

STRUCK = 0.1
"""The share of seeds that a rare misfortune strikes, which equality does not overlook."""


class Verdict(StrEnum):
    """What is known of a comparison."""

    DIFFERENT = "different"
    EQUAL = "equal"
    OPEN = "not told apart"


class Comparison(msgspec.Struct, frozen=True):
    """One setting beside the baseline, at the level that the rule asks for."""

    point: int
    difference: Difference
    verdict: Verdict


def level_of(confidence: float, looks: int, points: int) -> float:
    """The p-value at which a comparison is called different, one of those of so many points at so many looks."""
    return (1 - confidence) / (looks * max(1, points - 1))


def compare(
    by_point: Mapping[int, Mapping[int, float]], *, confidence: float, looks: int, equal_within: float
) -> list[Comparison]:
    """Every point beside point 0; the values of each by seed."""
    level = level_of(confidence, looks, len(by_point))
    found = []
    for point, values in by_point.items():
        if point == 0:
            continue
        seen = difference(values, by_point[0], 1 - level)
        found.append(Comparison(point, seen, _verdict(seen, level, equal_within)))
    return found


def rivals(by_point: Mapping[int, Mapping[int, float]], best: int, *, confidence: float, looks: int) -> list[int]:
    """The points that cannot be told from the best one, point 0 apart.

    Which is best was seen in these same runs.  So the level is that of one among all pairs of points: whichever of
    them had come out best, and at whichever look, the chance of telling any two equals apart stays below it.
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
    is_within = -equal_within <= seen.low and seen.high <= equal_within and equal_within > 0
    if is_within and seen.seeds >= seeds_to_be_equal(level, STRUCK):
        return Verdict.EQUAL
    return Verdict.OPEN


def is_clear(comparisons: list[Comparison]) -> bool:
    """Is nothing open?"""
    return bool(comparisons) and all(each.verdict is not Verdict.OPEN for each in comparisons)
