"""The waiting time of a producer: the time during which it had records to write but could not."""

from __future__ import annotations

from zabka.kafka.client.waiting import WaitingTime, united


def test_overlapping_time_spans_are_counted_once() -> None:
    assert united([(5, 9), (0, 4), (3, 6), (20, 25), (21, 22)]) == 9 + 5
    assert united([]) == 0


def test_waiting_time_counts_slow_and_failed_writes_in_full() -> None:
    """Waiting time is the whole duration of each write that is slow or fails.

    One write is slow (0 to 1,001 ms), one fast (2,000 to 3,000 ms), and one fails (5,000 to 5,010 ms).
    """
    waiting = WaitingTime()
    for begin, end, acknowledged in ((0, 1_001, True), (2_000, 3_000, True), (5_000, 5_010, False)):
        waiting.begin("w", begin)
        waiting.end("w", end, acknowledged=acknowledged)
    assert waiting.total_ms(9_000) == 1_001 + 10


def test_waiting_time_of_overlapping_writes_is_counted_once() -> None:
    """The waiting times of overlapping writes are counted once.

    Writes wait from 0 to 4,000 ms, from 2,000 to 6,000 ms, and from 5,000 ms on. A wait counts only once it exceeds a
    second.
    """
    waiting = WaitingTime()
    waiting.begin("a", 0)
    waiting.begin("b", 2_000)
    assert (waiting.total_ms(1_000), waiting.total_ms(1_001), waiting.total_ms(3_000)) == (0, 1_001, 3_000)
    waiting.end("a", 4_000, acknowledged=True)
    waiting.begin("a", 5_000)
    waiting.end("b", 6_000, acknowledged=False)
    assert (waiting.total_ms(6_000), waiting.total_ms(6_001), waiting.total_ms(8_000)) == (6_000, 6_001, 8_000)
    waiting.end("a", 8_500, acknowledged=True)
    assert waiting.total_ms(20_000) == 8_500
