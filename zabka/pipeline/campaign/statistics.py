"""Statistics of a figure over some runs: means with intervals, and differences on the same seeds.

Intervals are percentile bootstraps over seeds (Efron): the unit of resampling is a seed, and its runs under all
settings stay together.  A difference is tested by flipping signs: if a setting made no difference, each seed's
difference could as well have had the other sign.  The share of all sign patterns whose mean is as far from zero as the
observed mean is an exact p-value (Fisher's randomisation test).  Beyond EXACT_SEEDS seeds it is sampled, and sampled
again, more finely, while no sample is as far from zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

RESAMPLES, RESAMPLES_MAX = 2_000, 200_000
IN_A_TAIL = 10
"""The number of means beyond each end of an interval: with fewer, the end would be too near the middle."""
FLIPS, ROUNDS_MAX = 9_999, 11
FINEST_P = 1 / (1 + FLIPS * ROUNDS_MAX)
"""The smallest p-value that sampling can give."""
EXACT_SEEDS = 13


class Estimate(msgspec.Struct, frozen=True):
    """A mean over seeds with its interval; all None if no run had the figure."""

    seeds: int
    mean: float | None
    low: float | None
    high: float | None


class Difference(msgspec.Struct, frozen=True):
    """A setting's figure minus the baseline's, on the seeds that have both."""

    seeds: int
    mean: float | None
    low: float | None
    high: float | None
    p: float


def estimate(values: Sequence[float], confidence: float) -> Estimate:
    """Return the mean of one value per seed, with its bootstrap interval."""
    if not values:
        return Estimate(0, None, None, None)
    low, high = _interval(np.asarray(values, float), confidence)
    return Estimate(len(values), float(np.mean(values)), low, high)


def difference(of: Mapping[int, float], baseline: Mapping[int, float], confidence: float) -> Difference:
    """Return the paired difference of two settings, both by seed."""
    values = _paired(of, baseline)
    if not len(values):
        return Difference(0, None, None, None, 1.0)
    low, high = _interval(values, confidence)
    return Difference(len(values), float(values.mean()), low, high, sign_flip_p(values))


def paired_p(of: Mapping[int, float], other: Mapping[int, float]) -> float:
    """Return the p-value of "no difference" for two settings, both by seed; 1 if no seed has both."""
    return sign_flip_p(_paired(of, other))


def _paired(of: Mapping[int, float], other: Mapping[int, float]) -> np.ndarray:
    return np.asarray([of[seed] - other[seed] for seed in of if seed in other], float)


def _interval(values: np.ndarray, confidence: float) -> tuple[float, float]:
    tail = (1 - confidence) / 2
    draw, count = np.random.default_rng(len(values)), len(values)
    rounds = math.ceil(min(max(RESAMPLES, IN_A_TAIL / tail), RESAMPLES_MAX) / RESAMPLES)
    means = [values[draw.integers(0, count, (RESAMPLES, count))].mean(axis=1) for _ in range(rounds)]
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return float(low), float(high)


def sign_flip_p(values: np.ndarray) -> float:
    """Return the two-sided p-value of "no difference" for paired differences."""
    values = values[values != 0]
    count = len(values)
    if count == 0:
        return 1.0
    seen = abs(values.sum()) * (1 - 1e-12)
    if count <= EXACT_SEEDS:
        patterns = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        return float(np.mean(np.abs((2 * patterns - 1) @ values) >= seen))
    draw = np.random.default_rng(count)
    as_far, flips = 0, 0
    while not as_far and flips < FLIPS * ROUNDS_MAX:
        signs = draw.integers(0, 2, (FLIPS, count)) * 2 - 1
        as_far += int(np.count_nonzero(np.abs(signs @ values) >= seen))
        flips += FLIPS
    return (1 + as_far) / (1 + flips)


def seeds_to_differ(level: float) -> int:
    """Return the fewest seeds for which a p-value can reach that level.

    Two of the 2^n sign patterns of n seeds are the farthest from zero.
    """
    return 1 + math.ceil(math.log2(1 / level))


def unseen_share(seeds: int, confidence: float) -> float:
    """Return the largest share of all seeds that can be affected while, at that level, none of `seeds` is affected."""
    return 1 - float((1 - confidence) ** (1 / seeds))


def seeds_to_be_equal(level: float, affected: float) -> int:
    """Return after how many seeds a fault that affects such a share of all would have shown once, at that level."""
    return math.ceil(math.log(level) / math.log(1 - affected))
