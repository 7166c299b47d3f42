"""Confidence intervals match independently calculated values.

Intervals and the stopping rule keep their nominal error rates in simulation.
"""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest

from zabka.pipeline.campaign.statistics import EXACT_SEEDS, FINEST_P, difference, estimate, seeds_to_differ, sign_flip_p
from zabka.pipeline.campaign.stopping import Verdict, compare, is_clear, level_of


def test_p_value_is_share_of_sign_patterns_at_least_as_extreme() -> None:
    values = np.array([3.0, -1.0, 4.0, 1.0, 5.0])
    patterns = [abs(sum(s * v for s, v in zip(signs, values, strict=True))) for signs in product((1, -1), repeat=5)]
    assert sign_flip_p(values) == sum(seen >= 12 for seen in patterns) / 32


def test_p_value_of_equal_signs_is_two_over_two_to_the_n() -> None:
    assert sign_flip_p(np.arange(1.0, 11.0)) == 2 / 2**10


def test_sampled_p_value_is_close_to_the_exact_p_value() -> None:
    values = np.random.default_rng(1).normal(0.6, 1.0, EXACT_SEEDS + 3)
    signs = 1 - 2 * ((np.arange(2 ** len(values))[:, None] >> np.arange(len(values))) & 1).astype(np.int8)
    exact = np.mean(np.abs(signs @ values) >= abs(values.sum()) * (1 - 1e-12))
    assert sign_flip_p(values) == pytest.approx(exact, abs=0.02)


def test_difference_over_many_seeds_survives_correction() -> None:
    # 500 settings are compared in five interim analyses, so the significance level of each comparison is 2e-5.
    assert sign_flip_p(np.full(40, 7.0)) < 0.05 / (499 * 5)


@pytest.mark.parametrize("level", [0.05, 0.05 / 4, 0.05 / 10, 0.05 / 33])
def test_no_difference_is_significant_below_the_minimum_seeds(level: float) -> None:
    seeds = seeds_to_differ(level)
    assert sign_flip_p(np.full(seeds, 1.0)) <= level < sign_flip_p(np.full(seeds - 1, 1.0))


def test_sampled_p_value_is_at_least_its_resolution() -> None:
    assert sign_flip_p(np.full(60, 7.0)) == FINEST_P


def test_differences_of_zero_are_not_significant() -> None:
    seen = difference({1: 5.0, 2: 6.0}, {1: 5.0, 2: 6.0, 3: 9.0}, 0.95)
    assert (seen.seeds, seen.mean, seen.low, seen.high, seen.p) == (2, 0.0, None, None, 1.0)


def test_difference_uses_only_seeds_run_with_both_settings() -> None:
    assert difference({1: 5.0, 4: 100.0}, {1: 4.0, 2: -50.0}, 0.95).mean == 1.0
    assert difference({4: 100.0}, {1: 4.0}, 0.95).mean is None


@pytest.mark.parametrize("count", [7, 12, 25])
@pytest.mark.parametrize("kind", ["continuous", "integers with ties"])
def test_interval_excludes_zero_exactly_if_p_is_below_5_percent(count: int, kind: str) -> None:
    draw = np.random.default_rng(count)
    seen = set()
    for _ in range(60):
        values = draw.normal(0.8, 1.5, count)
        if kind != "continuous":
            values = np.round(values)
        found = difference(dict(enumerate(values)), dict.fromkeys(range(count), 0.0), 0.95)
        assert found.low is not None and found.high is not None
        assert (found.p <= 0.05) == (found.low > 0 or found.high < 0)
        seen.add(found.p <= 0.05)
    assert seen == {True, False}


@pytest.mark.parametrize("count", [9, 11, 13])
def test_interval_ends_where_the_p_value_crosses_the_level(count: int) -> None:
    values = np.random.default_rng(count).exponential(5.0, count)
    found = difference(dict(enumerate(values)), dict.fromkeys(range(count), 0.0), 0.9)
    assert found.low is not None and found.high is not None
    for end, inwards in ((found.low, 1e-6), (found.high, -1e-6)):
        assert sign_flip_p(values - end - inwards) > 0.1 >= sign_flip_p(values - end + inwards)


def test_interval_and_significant_p_need_equally_many_seeds() -> None:
    # With five differences in the same direction, p = 2 / 2^5; with six, p = 2 / 2^6.
    five, six = ({seed: 1.0 + seed for seed in range(count)} for count in (5, 6))
    assert difference(five, dict.fromkeys(five, 0.0), 0.95).low is None
    # Two of the 64 sign patterns (all seeds in one group) cannot reject any difference. So the interval can end only at
    # the lowest group mean, which is the first value.
    assert difference(six, dict.fromkeys(six, 0.0), 0.95).low == 1.0


def test_frequency_of_a_rare_value_has_a_binomial_interval() -> None:
    found = estimate([0.0] * 38 + [7.0, 5.0], 0.95)
    assert (found.mean, found.low, found.high) == (0.3, None, None)
    # By Clopper and Pearson, the binomial tails beyond each end of the interval have 2.5 %.
    assert found.rare is not None and (found.rare.usual, found.rare.seeds) == (0.0, 2)
    low, high = found.rare.low, found.rare.high
    assert 1 - (1 - low) ** 40 - 40 * low * (1 - low) ** 39 == pytest.approx(0.025, abs=1e-6)
    assert sum(comb(40, k) * high**k * (1 - high) ** (40 - k) for k in range(3)) == pytest.approx(0.025, abs=1e-6)


def test_detectable_difference_is_found_in_four_of_five_cases() -> None:
    draw = np.random.default_rng(4)
    samples = draw.normal(0.0, 1.0, (400, 16))
    size = float(np.mean([difference(dict(enumerate(v)), dict.fromkeys(range(16), 0.0), 0.95).detectable
                          for v in samples]))  # fmt: skip
    shown = np.mean([sign_flip_p(v + size) <= 0.05 for v in samples])
    assert 0.74 <= shown <= 0.86


def test_repeated_interim_analyses_keep_the_false_positive_rate() -> None:
    draw = np.random.default_rng(9)
    campaigns, looks, points, wrong = 150, (6, 8, 10), 4, 0
    for _ in range(campaigns):
        # The values differ much more between seeds than between settings, as with real faults.
        fortune = draw.normal(0.0, 10.0, max(looks))
        values = fortune + draw.exponential(1.0, (points, max(looks)))
        wrong += any(
            each.verdict is Verdict.DIFFERENT
            for look in looks
            for each in compare(
                {point: dict(enumerate(values[point, :look])) for point in range(points)},
                level=level_of(0.95, len(looks), points),
                equal_within=0.0,
            )
        )
    # At most 5 % of the campaigns should be wrong in the long run. More than 10 % of 150 would be three standard
    # deviations above that.
    assert wrong / campaigns <= 0.10


def test_pairing_seeds_detects_differences_below_their_variance() -> None:
    fortune = np.random.default_rng(2).normal(0.0, 50.0, 12)
    paired = {0: dict(enumerate(fortune)), 1: dict(enumerate(fortune + 1.0 + 0.1 * np.arange(12) / 12))}
    found = compare(paired, level=0.05, equal_within=0.0)
    assert [each.verdict for each in found] == [Verdict.DIFFERENT]
    assert is_clear(found)


def test_difference_below_the_margin_is_reported_as_equal() -> None:
    fortune = np.random.default_rng(2).normal(0.0, 50.0, 40)
    noise = np.random.default_rng(3).normal(0.0, 0.5, 40)
    paired = {0: dict(enumerate(fortune)), 1: dict(enumerate(fortune + noise))}
    assert [c.verdict for c in compare(paired, level=0.05, equal_within=2.0)] == [Verdict.EQUAL]
    assert [c.verdict for c in compare(paired, level=0.05, equal_within=0.01)] == [Verdict.OPEN]


def test_rare_loss_is_wrongly_called_equal_in_at_most_5_percent() -> None:
    draw = np.random.default_rng(11)
    campaigns, looks, wrong = 200, (8, 16, 40), 0
    for _ in range(campaigns):
        # With nine of ten seeds, no setting loses records. With the tenth, one setting loses a thousand.
        lost = 1000.0 * (draw.random(max(looks)) < 0.1)
        wrong += any(
            each.verdict is Verdict.EQUAL
            for look in looks
            for each in compare(
                {0: dict.fromkeys(range(look), 0.0), 1: dict(enumerate(lost[:look]))},
                level=level_of(0.95, len(looks), 2),
                equal_within=5.0,
            )
        )
    assert wrong / campaigns <= 0.05


def test_campaign_continues_while_no_comparison_is_decided() -> None:
    assert not is_clear(compare({0: {1: 1.0}}, level=0.05, equal_within=0.0))
    assert not is_clear(compare({0: {1: 1.0}, 1: {}}, level=0.05, equal_within=0.0))
