"""Thousands of connections that send garbage are a line a second, and none is left uncounted."""

from __future__ import annotations

from collections.abc import Callable

from ensemble.runtime.dropped_connections import DroppedConnections


def test_the_first_is_said_at_once_and_the_others_of_its_second_together() -> None:
    said: list[tuple[str, str, int]] = []
    timers: list[tuple[int, Callable[[], None]]] = []
    dropped = DroppedConnections(lambda *word: said.append(word), lambda *timer: timers.append(timer))
    for number in range(3_000):
        dropped.drop(f"h:{number}", "garbage")
    assert said == [("h:0", "garbage", 1)]
    delay_ms, over = timers.pop()
    assert (delay_ms, timers) == (1_000, [])
    over()
    assert said[1:] == [("h:2999", "garbage", 2_999)]
    timers.pop()[1]()
    assert len(said) == 2 and not timers
    dropped.drop("h:3000", "again")
    assert said[2:] == [("h:3000", "again", 1)]
