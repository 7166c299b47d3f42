"""Amounts in the last few time windows, as Kafka's quotas count them (org.apache.kafka.common.metrics.stats)."""

from __future__ import annotations


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.start_window(now_ms)

    def start_window(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class SampledAmount:
    """Sum of the amounts in the last `windows` time windows of `window_ms` each (SampledStat, WindowedSum)."""

    __slots__ = ("_current", "_samples", "window_ms", "windows")

    def __init__(self, windows: int, window_ms: int) -> None:
        self.windows = windows
        self.window_ms = window_ms
        self._current = 0
        self._samples: list[_Sample] = []

    def add(self, amount: float, now_ms: int) -> None:
        """Add an amount now. A negative amount is subtracted."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self.window_ms:
            # Store one sample more than there are windows, because the oldest sample may overlap the measured time.
            self._current = (self._current + 1) % (self.windows + 1)
            if self._current == len(self._samples):
                self._samples.append(_Sample(now_ms))
            sample = self._samples[self._current]
            sample.start_window(now_ms)
        sample.value += amount
        sample.last_ms = now_ms

    def total(self, now_ms: int) -> float:
        """Return the sum of the amounts recorded in all time windows."""
        self._forget(now_ms)
        return sum(sample.value for sample in self._samples)

    def elapsed_ms(self, now_ms: int) -> int:
        """Return the time since the start of the oldest counted sample."""
        self._forget(now_ms)
        return now_ms - min((sample.start_ms for sample in self._samples), default=now_ms)

    def _forget(self, now_ms: int) -> None:
        for sample in self._samples:
            if now_ms - sample.last_ms >= self.windows * self.window_ms:
                sample.start_window(now_ms)


def simple_rate(amount: SampledAmount, now_ms: int) -> float:
    """Return the amount per second over the elapsed time, which counts as at least one window (SimpleRate)."""
    total = amount.total(now_ms)
    return total * 1000 / max(amount.elapsed_ms(now_ms), amount.window_ms)


def rate(amount: SampledAmount, now_ms: int) -> float:
    """Return the amount per second (Rate).

    The elapsed time counts as at least all windows except the last one, even if fewer windows have passed. This allows
    an initial burst.
    """
    return amount.total(now_ms) * 1000 / rate_window_ms(amount, now_ms)


def rate_window_ms(amount: SampledAmount, now_ms: int) -> int:
    """Return the duration that `rate` divides the amount by."""
    elapsed_ms = amount.elapsed_ms(now_ms)
    missing = amount.windows - 1 - elapsed_ms // amount.window_ms
    return max(elapsed_ms + max(0, missing) * amount.window_ms, 1)
