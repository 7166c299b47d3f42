"""Summaries of measurements.

Extremes and means are exact, quantiles are exact for small values, and memory is bounded.
"""

from __future__ import annotations

from zabka.ensemble.summary import Summary


def test_empty_summary_has_only_zeros() -> None:
    summary = Summary()
    assert (summary.count, summary.minimum, summary.maximum, summary.average) == (0, 0, 0, 0.0)
    assert summary.quantile(0.99) == 0


def test_quantiles_of_small_values_are_exact() -> None:
    summary = Summary()
    for value in range(1, 101):
        summary.add(value)
    assert (summary.minimum, summary.maximum, summary.average, summary.total) == (1, 100, 50.5, 5050)
    assert [summary.quantile(share) for share in (0.5, 0.95, 0.99, 0.999)] == [50, 95, 99, 100]


def test_summary_counts_a_value_added_with_a_repeat_count() -> None:
    summary = Summary()
    summary.add(3, times=9)
    summary.add(50)
    assert (summary.count, summary.total, summary.average) == (10, 77, 7.7)
    assert (summary.quantile(0.9), summary.quantile(0.91)) == (3, 50)


def test_large_values_share_buckets_but_quantiles_are_accurate() -> None:
    summary = Summary()
    for value in range(0, 1_000_000, 7):
        summary.add(value)
    assert len(summary._large) < 1200
    assert abs(summary.quantile(0.5) - 500_000) <= 500_000 / 64
    assert summary.quantile(1.0) == summary.maximum


def test_reset_summary_is_empty() -> None:
    summary = Summary()
    summary.add(7)
    summary.reset()
    assert (summary.count, summary.maximum, summary.quantile(0.5)) == (0, 0, 0)
