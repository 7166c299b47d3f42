"""Session ids, passwords and the leader's expiry."""

from zabka.ensemble.ids import PeerId
from zabka.ensemble.ports import Instant
from zabka.ensemble.tree.sessions import LOCAL, Overdue, SessionIds, SessionTracker, password_of

TICK_MS = 100


def at(mono_ms, wall_ms=0):
    return Instant(mono_ms, wall_ms)


def test_session_passwords_equal_those_of_java_util_random():
    # These are passwords in connect responses of a ZooKeeper 3.9.5 server.
    assert password_of(72057752643174400) == b"&\xa5\x13\x19\xbb\xa6ZSt\xcb\xc9u\xfc H0"
    assert len(password_of(-5)) == 16 and password_of(-5) != password_of(5)


def test_session_ids_contain_server_and_clock_and_are_unique():
    ids = SessionIds(PeerId(3))
    ids.start(at(0, 0x123456789A))
    first = ids.next()
    assert first == (3 << 56) | (0x123456789A << 16)
    ids.start(at(0, 0x1234567890))
    assert ids.next() == first + 1, "a clock that went back"


def test_session_ids_of_servers_from_128_on_are_negative():
    ids = SessionIds(PeerId(200))
    ids.start(at(0, 1))
    assert ids.next() == (200 << 56 | 1 << 16) - (1 << 64)


def test_session_expires_within_a_tick_of_its_timeout():
    for start in range(0, 200, 7):
        tracker = SessionTracker(TICK_MS, at(start))
        tracker.track(at(start), 1, 250)
        due = next(now for now in range(start, 1000) if tracker.expire(at(now)))
        assert start + 250 < due <= start + 250 + TICK_MS and due % TICK_MS == 0


def test_session_renewed_before_its_timeout_does_not_expire():
    tracker = SessionTracker(TICK_MS, at(0))
    tracker.track(at(0), 1, 250)
    tracker.track(at(0), 2, 250)
    assert tracker.touch(at(240), 1, 250, 2)
    assert tracker.expire(at(400)) == [Overdue(2, 250, -1, 0)], "no ping arrived for the session"
    assert tracker.is_alive(1) and not tracker.is_alive(2)
    assert not tracker.touch(at(401), 2, 250, 2), "too late"
    assert tracker.expire(at(400)) == [], "expired once"
    assert tracker.expire(at(10_000)) == [Overdue(1, 250, 9_760, 2)], "the last contact, and its server"


def test_sessions_expire_in_deadline_order():
    tracker = SessionTracker(TICK_MS, at(0))
    for session_id, timeout_ms in ((5, 900), (3, 200), (4, 500), (9, 200)):
        tracker.track(at(0), session_id, timeout_ms)
    assert [session.session_id for session in tracker.expire(at(5000))] == [3, 9, 4, 5]


def test_session_is_owned_by_its_first_server_until_moved():
    tracker = SessionTracker(TICK_MS, at(0))
    tracker.track(at(0), 1, 250)
    assert tracker.owned_by(1, 7), "the first server becomes the owner"
    assert not tracker.owned_by(1, LOCAL)
    tracker.set_owner(1, LOCAL)
    assert tracker.owned_by(1, LOCAL) and not tracker.owned_by(1, 7)


def test_removed_session_leaves_no_state_in_the_tracker():
    tracker = SessionTracker(TICK_MS, at(0))
    tracker.track(at(0), 1, 250)
    tracker.close(1)
    tracker.remove(1)
    tracker.remove(1)
    assert len(tracker) == 0 and tracker.expire(at(5000)) == [] and 1 not in tracker


def test_sessions_are_listed_by_the_tick_at_which_they_expire():
    tracker = SessionTracker(TICK_MS, at(0))
    for session_id, timeout_ms in ((5, 900), (3, 200), (9, 210), (4, 250)):
        tracker.track(at(0), session_id, timeout_ms)
    # SessionTrackerImpl.roundToNextInterval: the next tick after the time-out.
    assert tracker.by_due_time() == [(300, [3, 9, 4]), (1000, [5])]
