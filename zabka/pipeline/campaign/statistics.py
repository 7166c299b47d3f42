"""Statistics of a figure over several runs: means with confidence intervals, and differences on the same seeds.

The statistical unit is always a seed.

A difference is tested by flipping signs: if a setting made no difference, each seed's difference could as well have had
the other sign. The share of all sign patterns whose mean is as far from zero as the observed mean is an exact p-value
(Fisher's randomisation test). The interval contains all differences that the same test does not reject, so p-value and
interval agree. A sign pattern splits the seeds into two groups, and does not reject a difference between the means of
these groups (Hartigan, "Using subsample values as typical values", 1969). So the ends of the interval are quantiles of
group means. For more than EXACT_SEEDS seeds, a sample of the patterns is used.

The interval of a mean is computed by bootstrap-t (Efron) from BOOTSTRAP_SEEDS seeds on, and by Student's t below that,
because percentile bootstraps of skewed figures contain the true mean too rarely. If most seeds have one and the same
value, and few have another one, no interval of the mean is reliable. In that case the interval of the share of these
few seeds is computed (Clopper and Pearson, 1934).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

import msgspec
import numpy as np
from scipy import stats

RESAMPLES, RESAMPLES_MAX = 2_000, 200_000
IN_A_TAIL = 10
"""Minimum number of samples in each tail, outside a confidence interval.

With fewer, the estimated bounds are too close to the centre, and the interval is too narrow.
"""
BOOTSTRAP_SEEDS = 20
RARE_SEEDS = 10
"""Minimum number of seeds whose value differs from the most frequent value.

With fewer such seeds, the mean has no confidence interval.
"""
FLIPS, ROUNDS_MAX = 9_999, 11
FINEST_P = 1 / (1 + FLIPS * ROUNDS_MAX)
"""Smallest p-value that sampling can yield."""
EXACT_SEEDS = 13
POWER = 0.8
"""Probability with which a real difference of the size `detectable` is found."""


class Share(msgspec.Struct, frozen=True):
    """The seeds that do not have the usual value: their number, and the confidence interval of their share."""

    usual: float
    seeds: int
    low: float
    high: float


class Estimate(msgspec.Struct, frozen=True):
    """A mean over seeds with its confidence interval. All fields are None if no run had the figure.

    The interval is None if there is only one seed, or if few seeds or none differ from the usual value. `rare` is then
    the share of the seeds that differ.
    """

    seeds: int
    mean: float | None
    low: float | None
    high: float | None
    rare: Share | None = None


class Difference(msgspec.Struct, frozen=True):
    """Difference of a setting's figure from the baseline's figure, on the seeds that have both.

    The interval is None if there are too few seeds for any p-value to be as low as the significance level.
    """

    seeds: int
    mean: float | None
    low: float | None
    high: float | None
    p: float
    detectable: float = math.inf
    """Smallest difference that these seeds, with this spread, would show with a probability of 80 % (POWER)."""


def estimate(values: Sequence[float], confidence: float) -> Estimate:
    """Return the mean of one value per seed, with its confidence interval."""
    count = len(values)
    if not count:
        return Estimate(0, None, None, None)
    mean = float(np.mean(values))
    usual, as_usual = Counter(values).most_common(1)[0]
    if count == 1:
        return Estimate(1, mean, None, None)
    if as_usual > count / 2 and count - as_usual < RARE_SEEDS:
        low, high = share_interval(count - as_usual, count, confidence)
        return Estimate(count, mean, None, None, Share(usual, count - as_usual, low, high))
    interval = bootstrap_t if count >= BOOTSTRAP_SEEDS else student_t
    return Estimate(count, mean, *interval(np.asarray(values, float), confidence))


def share_interval(seeds: int, of: int, confidence: float) -> tuple[float, float]:
    """Return the confidence interval of a share of seeds (Clopper and Pearson)."""
    found = stats.binomtest(seeds, of).proportion_ci(confidence, method="exact")
    return float(found.low), float(found.high)


def student_t(values: np.ndarray, confidence: float) -> tuple[float, float]:
    """Return the confidence interval of a mean, computed with Student's t-distribution."""
    half = stats.t.ppf((1 + confidence) / 2, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def bootstrap_t(values: np.ndarray, confidence: float) -> tuple[float, float]:
    """Return the confidence interval of a mean by bootstrap-t: resampling estimates the distribution of t."""
    tail = (1 - confidence) / 2
    draw, count = np.random.default_rng(len(values)), len(values)
    rounds = math.ceil(min(max(RESAMPLES, IN_A_TAIL / tail), RESAMPLES_MAX) / RESAMPLES)
    centred = values - values.mean()
    found = [_ts(centred[draw.integers(0, count, (RESAMPLES, count))]) for _ in range(rounds)]
    low, high = np.quantile(np.concatenate(found), [tail, 1 - tail])
    error = values.std(ddof=1) / math.sqrt(count)
    return float(values.mean() - high * error), float(values.mean() - low * error)


def _ts(samples: np.ndarray) -> np.ndarray:
    means, squares = samples.mean(axis=1), (samples**2).mean(axis=1)
    variances = (squares - means**2) / (samples.shape[1] - 1)
    # Ignore resamples with a single distinct value, which have no t. Because of the rule for rare events, they are too
    # few to matter.
    kept = variances > 1e-12 * squares
    found: np.ndarray = means[kept] / np.sqrt(variances[kept])
    return found


def difference(of: Mapping[int, float], baseline: Mapping[int, float], confidence: float) -> Difference:
    """Return the paired difference between two settings, whose values are keyed by seed."""
    values = _paired(of, baseline)
    if not len(values):
        return Difference(0, None, None, None, 1.0)
    p, low, high = _sign_flips(values, 1 - confidence)
    bounded = math.isfinite(low)
    return Difference(
        len(values), float(values.mean()), low if bounded else None, high if bounded else None, p,
        _detectable(values, 1 - confidence),
    )  # fmt: skip


def paired_p(of: Mapping[int, float], other: Mapping[int, float]) -> float:
    """Return the p-value of "no difference" between two settings; 1 if no seed has both.

    `of` and `other` map seeds to the values of the settings.
    """
    return sign_flip_p(_paired(of, other))


def _paired(of: Mapping[int, float], other: Mapping[int, float]) -> np.ndarray:
    return np.asarray([of[seed] - other[seed] for seed in of if seed in other], float)


def sign_flip_p(values: np.ndarray) -> float:
    """Return the two-sided p-value of "no difference" for paired differences."""
    return _sign_flips(values, 1.0)[0] if len(values) else 1.0


def _sign_flips(values: np.ndarray, level: float) -> tuple[float, float, float]:
    """Return the p-value, and both ends of the interval of all differences whose p-value is above `level`."""
    if values.mean() < 0:
        p, low, high = _sign_flips(-values, level)
        return p, -high, -low
    # Two means that differ only by rounding are equal.
    near = 1e-12 * np.abs(values).max()
    lows, highs = _ends(values, level, near)
    p = float(np.mean(lows <= near))
    rejected = int(level * len(lows) * (1 + 1e-12))
    if rejected >= len(lows):
        return p, float(values.mean()), float(values.mean())
    low = float(np.partition(lows, rejected)[rejected])
    high = -float(np.partition(-highs, rejected)[rejected])
    return p, 0.0 if abs(low) <= near else low, high


def _ends(values: np.ndarray, level: float, near: float) -> tuple[np.ndarray, np.ndarray]:
    """For each sign pattern, return the smaller and the larger mean of the two groups of seeds that it forms.

    With many seeds, only a sample of the sign patterns is used.
    """
    count = len(values)
    if count <= EXACT_SEEDS:
        return _group_means(values, _patterns(count))
    draw = np.random.default_rng(count)
    # Count the observed sign pattern as well, so that no p-value is 0.
    found = [_group_means(values, np.ones((1, count)))]
    rounds = min(math.ceil(IN_A_TAIL / level / FLIPS), ROUNDS_MAX)
    while len(found) <= rounds or (len(found) <= ROUNDS_MAX and not any((each[0] <= near).any() for each in found[1:])):
        found.append(_group_means(values, draw.integers(0, 2, (FLIPS, count), np.int8).astype(float)))
    return np.concatenate([low for low, _ in found]), np.concatenate([high for _, high in found])


@cache
def _patterns(count: int) -> np.ndarray:
    return ((np.arange(2**count)[:, None] >> np.arange(count)) & 1).astype(float)


def _group_means(values: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    sizes, sums = chosen.sum(axis=1), chosen @ values
    one_group = (sizes == 0) | (sizes == len(values))
    # If all seeds are in one group, no difference is rejected. The group size must not be 0.
    of, others = np.where(one_group, 1, sizes), np.where(one_group, 1, len(values) - sizes)
    first, second = sums / of, (values.sum() - sums) / others
    low, high = np.minimum(first, second), np.maximum(first, second)
    return np.where(one_group, -np.inf, low), np.where(one_group, np.inf, high)


def _detectable(values: np.ndarray, level: float) -> float:
    """Return the difference that a paired t-test at that level finds with a probability of POWER."""
    count = len(values)
    if count < max(2, seeds_to_differ(level)):
        return math.inf
    freedom = count - 1
    reach = stats.t.ppf(1 - level / 2, freedom) + stats.t.ppf(POWER, freedom)
    return float(reach * values.std(ddof=1) / math.sqrt(count))


def seeds_to_differ(level: float) -> int:
    """Return the minimum number of seeds with which a p-value can be as low as `level`.

    With n seeds, the lowest possible p-value is 2 / 2^n, because two of the 2^n sign patterns are the farthest from
    zero.
    """
    return 1 + math.ceil(math.log2(1 / level))


def unseen_share(seeds: int, confidence: float) -> float:
    """Return the largest share of affected seeds that is plausible if none of `seeds` seeds is affected.

    `confidence` is the confidence level.
    """
    return 1 - float((1 - confidence) ** (1 / seeds))


def seeds_to_be_equal(level: float, affected: float) -> int:
    """Return how many seeds are needed to see an effect that occurs in the share `affected` of all seeds.

    The probability that the effect occurs in none of that many seeds is at most `level`.
    """
    return math.ceil(math.log(level) / math.log(1 - affected))
