"""A summary of measured values: how many, their sum, extremes and quantiles (AvgMinMaxPercentileCounter)."""

from __future__ import annotations

EXACT_BELOW = 128
"""Values below are kept as they are; larger ones to within 1/64, so that the memory stays bounded."""
_KEPT_BITS = 6


class Summary:
    """Whole numbers from 0 on, such as milliseconds, since the last reset.

    Taking in a small one costs one addition; the rest is worked out when somebody asks.  Quantiles are of all values;
    ZooKeeper's are of a random sample of them.
    """

    __slots__ = ("_large", "_large_maximum", "_large_minimum", "_large_total", "_small")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._small = [0] * EXACT_BELOW
        self._large: dict[int, int] = {}
        self._large_total = 0
        self._large_minimum = 0
        self._large_maximum = 0

    def add(self, value: int, times: int = 1) -> None:
        """Take in a value that was measured so many times."""
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
        """How many values."""
        return sum(self._small) + sum(self._large.copy().values())

    @property
    def total(self) -> int:
        """Their sum."""
        return sum(value * times for value, times in enumerate(self._small)) + self._large_total

    @property
    def minimum(self) -> int:
        """The smallest; 0 where there is none."""
        return next((value for value, times in enumerate(self._small) if times), self._large_minimum)

    @property
    def maximum(self) -> int:
        """The largest; 0 where there is none."""
        small = (value for value in reversed(range(EXACT_BELOW)) if self._small[value])
        return self._large_maximum or next(small, 0)

    @property
    def average(self) -> float:
        """Their mean, as ZooKeeper gives it: to four places, 0 where there is none."""
        count = self.count
        return round(self.total / count, 4) if count else 0.0

    def quantile(self, share: float) -> int:
        """The smallest value that at least this share of all is not above; 0 where there is none."""
        buckets = {value: times for value, times in enumerate(self._small) if times} | self._large
        wanted, seen = share * sum(buckets.values()), 0
        for bucket in sorted(buckets):
            seen += buckets[bucket]
            if seen >= wanted:
                return min(bucket, self.maximum)
        return 0


def _rounded(value: int) -> int:
    """Up to the next number with so few leading bits."""
    shift = value.bit_length() - _KEPT_BITS - 1
    return -(-value >> shift) << shift
