"""Dropped connections are counted, and reported by reason at growing intervals."""

from __future__ import annotations

from collections.abc import Callable

from zabka.ensemble.runtime.dropped_connections import REASONS_MAX, DroppedConnections


class Reports:
    """Reports of dropped connections and their times, on a virtual clock."""

    def __init__(self, *interval_ms: int) -> None:
        self.now_ms = 0
        self.lines: list[tuple[int, str, str, int]] = []
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.dropped = DroppedConnections(
            lambda remote, reason, count: self.lines.append((self.now_ms, remote, reason, count)),
            lambda delay_ms, callback: self.timers.append((self.now_ms + delay_ms, callback)),
            *interval_ms,
        )

    def run(self, until_ms: int) -> None:
        while self.timers and min(self.timers, key=lambda timer: timer[0])[0] <= until_ms:
            timer = min(self.timers, key=lambda timer: timer[0])
            self.timers.remove(timer)
            self.now_ms = timer[0]
            timer[1]()
        self.now_ms = until_ms


def test_dropped_connections_within_a_second_share_a_report() -> None:
    reports = Reports()
    for number in range(3_000):
        reports.dropped.drop(f"h:{number}", "garbage")
    assert reports.lines == [(0, "h:0", "garbage", 1)]
    reports.run(1_000)
    assert reports.lines[1:] == [(1_000, "h:2999", "garbage", 2_999)]
    # No connection was dropped for two seconds, so the next one is reported at once.
    reports.run(3_000)
    assert len(reports.lines) == 2 and not reports.timers
    reports.dropped.drop("h:3000", "garbage")
    assert reports.lines[2:] == [(3_000, "h:3000", "garbage", 1)]


def test_repeated_rejection_is_reported_at_most_once_a_minute() -> None:
    """A connection attempt that is repeated every 750 ms is reported at growing intervals, finally once a minute.

    The reports come at 0, 1, 3, 7, 15, 31 and 63 s, then once a minute. Their counts add up to all 4,800 attempts.
    """
    reports = Reports()
    for attempt in range(4_800):
        reports.run(attempt * 750)
        reports.dropped.drop(f"h:{attempt}", "server 4 is refused")
    reports.run(3_600_000)
    times = [at_ms for at_ms, *_ in reports.lines]
    assert times == [0, 1_000, 3_000, 7_000, 15_000, 31_000, *range(63_000, 3_600_001, 60_000)]
    reports.run(3_700_000)
    assert sum(count for *_, count in reports.lines) == 4_800


def test_connection_dropped_for_a_new_reason_is_reported_at_once() -> None:
    reports = Reports()
    reports.dropped.drop("a:1", "a frame of 99 bytes")
    reports.dropped.drop("a:2", "a frame of 7 bytes")
    reports.dropped.drop("b:1", "no certificate")
    assert reports.lines == [(0, "a:1", "a frame of 99 bytes", 1), (0, "b:1", "no certificate", 1)]
    reports.run(1_000)
    assert reports.lines[2:] == [(1_000, "a:2", "a frame of 7 bytes", 1)]


def test_drop_reasons_over_the_limit_share_one_report() -> None:
    reports = Reports()
    letters = "abcdefghijklmnopqrstuvwxyz"
    for letter in letters:
        reports.dropped.drop("h:1", letter)
    assert [reason for _, _, reason, _ in reports.lines] == list(letters[: REASONS_MAX + 1])
    reports.run(1_000)
    assert reports.lines[-1] == (1_000, "h:1", "z", len(letters) - REASONS_MAX - 1)


def test_first_interval_combines_slower_attempts() -> None:
    reports = Reports(5_000)
    for attempt in range(20):
        reports.run(attempt * 1_100)
        reports.dropped.drop("h:1", "wrong password")
    assert [(at_ms, count) for at_ms, _, _, count in reports.lines] == [(0, 1), (5_000, 4), (15_000, 9)]
