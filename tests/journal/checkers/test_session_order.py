"""ZooKeeper's guarantees for the order of replies and events in a session, checked with all messages of a session."""

from __future__ import annotations

from zabka.journal.checkers.session_order import Seen, violations


def check(*seen: tuple[str, int]) -> list[str]:
    kinds = {"wrote", "read", "watched", "event"}
    assert {kind for kind, _ in seen} <= kinds
    return violations(Seen("s", kind, "/x", zxid) for kind, zxid in seen)  # type: ignore[arg-type]


def test_session_must_see_its_own_writes() -> None:
    assert check(("wrote", 5), ("read", 5)) == []
    assert check(("wrote", 5), ("read", 4)) == ["s read /x at 0x4 after it knew 0x5"]


def test_reads_of_a_session_must_not_go_backwards() -> None:
    assert check(("read", 4), ("read", 4), ("read", 7)) == []
    assert check(("read", 7), ("read", 4)) == ["s read /x at 0x4 after it knew 0x7"]


def test_writes_of_a_session_must_take_effect_in_order() -> None:
    assert check(("wrote", 6), ("wrote", 5)) == ["s wrote /x at 0x5 after it knew 0x6"]


def test_watch_event_must_precede_a_read_of_the_change() -> None:
    assert check(("watched", 4), ("event", 0), ("read", 5)) == []
    assert check(("watched", 4), ("read", 5)) == ["s read /x at 0x5 before its watch told of a change"]


def test_one_time_watch_must_fire_once_until_set_again() -> None:
    assert check(("watched", 4), ("event", 0), ("read", 5), ("read", 6)) == []
    assert len(check(("watched", 4), ("event", 0), ("watched", 5), ("read", 6))) == 1


def test_sessions_and_znodes_are_checked_separately() -> None:
    others = [Seen("s", "read", "/x", 7), Seen("t", "read", "/x", 4), Seen("s", "read", "/y", 3)]
    assert violations(others) == []
