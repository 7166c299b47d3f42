"""When a campaign has its answer: a rule that may look several times and is wrong no more often for it.

At every look each setting is compared with the baseline.  It is *different* where the paired sign-flip test's p-value
is at most (1 - confidence) / (looks x comparisons): by Bonferroni's inequality the chance that any comparison is called
different at any look though none is stays below 1 - confidence, whatever was seen before.  It is *equal* where the
whole interval of the difference, at that same level, lies within what the file calls no difference.  When all
comparisons are one or the other, no further seed can tell more, and the campaign ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from pipeline.campaign.statistics import Difference, difference


class Verdict(StrEnum):
    """What is known of a comparison."""

    DIFFERENT = "different"
    EQUAL = "equal"
    OPEN = "no difference seen"


class Comparison(msgspec.Struct, frozen=True):
    """One setting beside the baseline, at the level that the rule asks for."""

    point: int
    difference: Difference
    verdict: Verdict


def compare(
    by_point: Mapping[int, Mapping[int, float]], *, confidence: float, looks: int, equal_within: float
) -> list[Comparison]:
    """Every point beside point 0; the values of each by seed."""
    comparisons = max(1, len(by_point) - 1)
    level = (1 - confidence) / (looks * comparisons)
    found = []
    for point, values in by_point.items():
        if point == 0:
            continue
        seen = difference(values, by_point[0], 1 - level)
        found.append(Comparison(point, seen, _verdict(seen, level, equal_within)))
    return found


def _verdict(seen: Difference, level: float, equal_within: float) -> Verdict:
    if seen.low is None or seen.high is None or seen.seeds < 2:
        return Verdict.OPEN
    if seen.p <= level:
        return Verdict.DIFFERENT
    if -equal_within <= seen.low and seen.high <= equal_within and equal_within > 0:
        return Verdict.EQUAL
    return Verdict.OPEN


def is_clear(comparisons: list[Comparison]) -> bool:
    """Is nothing open?"""
    return bool(comparisons) and all(each.verdict is not Verdict.OPEN for each in comparisons)
