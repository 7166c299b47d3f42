"""Summary of measured values: count, sum, extremes and quantiles (AvgMinMaxPercentileCounter)."""

from __future__ import annotations

EXACT_BELOW = 128
"""Values below this are stored exactly.

Larger values are rounded up by at most 1/64, so that memory stays bounded.
"""
_KEPT_BITS = 6


class Summary:
    """Summary of the non-negative integers, such as milliseconds, that were added since the last reset.

    Adding a small value costs one addition; the statistics are computed on demand. Quantiles are computed from all
    values, in ZooKeeper from a random sample.
    """

    __slots__ = ("_large", "_large_maximum", "_large_minimum", "_large_total", "_small")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all values."""
        self._small = [0] * EXACT_BELOW
        self._large: dict[int, int] = {}
        self._large_total = 0
        self._large_minimum = 0
        self._large_maximum = 0

    def add(self, value: int, times: int = 1) -> None:
        """Add a value that was measured `times` times."""
        if value < EXACT_BELOW:
            self._small[value] += times
            return
        if value < self._large_minimum or not self._large:
            self._large_minimum = value
        self._large_maximum = max(value, self._large_maximum)
        self._large_total += value * times
        bucket = _rounded(value)
        self._large[bucket] = self._large.get(bucket, 0) + times

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(self._small) + sum(self._large.copy().values())

    @property
    def total(self) -> int:
        """Sum of all values."""
        return sum(value * times for value, times in enumerate(self._small)) + self._large_total

    @property
    def minimum(self) -> int:
        """The smallest value; 0 if there is none."""
        return next((value for value, times in enumerate(self._small) if times), self._large_minimum)

    @property
    def maximum(self) -> int:
        """The largest value; 0 if there is none."""
        small = (value for value in reversed(range(EXACT_BELOW)) if self._small[value])
        return self._large_maximum or next(small, 0)

    @property
    def average(self) -> float:
        """Mean of all values, as ZooKeeper reports it: to four decimal places, 0 if there are no values."""
        count = self.count
        return round(self.total / count, 4) if count else 0.0

    def quantile(self, share: float) -> int:
        """Return the smallest value v such that at least this share of all values is at most v; 0 if there are none."""
        buckets = {value: times for value, times in enumerate(self._small) if times} | self._large
        wanted, seen = share * sum(buckets.values()), 0
        for bucket in sorted(buckets):
            seen += buckets[bucket]
            if seen >= wanted:
                return min(bucket, self.maximum)
        return 0


def _rounded(value: int) -> int:
    """Round a value up to a number with few significant bits (relative error at most 1/64)."""
    shift = value.bit_length() - _KEPT_BITS - 1
    return -(-value >> shift) << shift
