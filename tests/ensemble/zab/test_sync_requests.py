"""A sync or a session query gets its reply only after a check that the leader is still the leader."""

from __future__ import annotations

from tests.ensemble.zab.zab_driver import World
from tests.ensemble.zab.zab_solo import E1, Solo, established_leader, request, synced_follower
from zabka.ensemble.ids import ConnectionId, SessionId, make_zxid
from zabka.ensemble.records import OpCode, Request
from zabka.ensemble.zab.effects import (
    Answer,
)
from zabka.ensemble.zab.leader import HALF_TICK_TIMER
from zabka.ensemble.zab.messages import (
    Ack,
    Commit,
    Ping,
    Revalidate,
    SyncRequest,
)


def sync_at_the_leader(solo: Solo) -> None:
    """Let a client that is connected to this peer send a sync."""
    solo.do(solo.peer.on_clients(solo.now, [(ConnectionId(9), Request(9, OpCode.SYNC, None))]))


def test_follower_forwards_session_revalidation_and_its_reply() -> None:
    solo = synced_follower()
    solo.peer._core.role.ask_revalidate(SessionId(6), 4000)  # type: ignore[union-attr]
    solo.effects += solo.peer._finish()
    assert solo.packets()[-1] == Revalidate(SessionId(6), 4000)
    solo.packet(Revalidate(SessionId(6), 4000, True))
    assert solo.app.revalidations == [(6, True)]
    leader = established_leader()
    sent = leader.packets(leader.packet(Revalidate(SessionId(6), 4000)))
    assert sent == [Revalidate(SessionId(6), 4000, True, E1)]


def test_sync_reply_waits_for_a_later_ping_round() -> None:
    """The reply to a sync waits for a ping round that started after the sync.

    ZOOKEEPER-1675: a commit is not sufficient, because the server must still be the leader.
    """
    solo = established_leader()
    solo.timer(HALF_TICK_TIMER, 50)
    sync_at_the_leader(solo)
    assert not solo.of(Answer)
    solo.packet(Ping(E1))  # replies to a ping from before the request, so it proves nothing but allows the next round
    assert solo.packets()[-1] == Ping(E1) and not solo.of(Answer)
    assert len(solo.of(Answer, solo.packet(Ping(E1)))) == 1


def test_follower_sync_with_three_voters_needs_no_ping_round() -> None:
    solo = established_leader()
    sync = SyncRequest(SessionId(1), 9, "/")
    assert solo.packets(solo.packet(sync)) == [sync], "no ping round is needed"


def test_follower_sync_with_five_voters_needs_a_ping_round() -> None:
    world = World(3, voters=5, loss=0.0)
    world.start()
    world.run_until(world.settled)
    leader = world.leader()
    assert leader is not None
    followers = [i for i in world.voters if i != leader.id]
    for i in followers[1:]:
        world.cut_off(leader.id, i)
    world.sync(followers[0])
    world.run(300)
    assert world.answered_syncs == 0
    world.heal()
    world.sync(followers[0])
    world.run_until(lambda: world.answered_syncs > 0)


def test_sync_at_an_observer_needs_a_ping_round() -> None:
    world = World(4, observers=1, loss=0.0)
    world.start()
    world.run_until(world.settled)
    leader = world.leader()
    assert leader is not None
    for i in world.voters:
        if i != leader.id:
            world.cut_off(leader.id, i)
    world.sync(world.observers[0])
    world.run(300)
    assert world.answered_syncs == 0


def test_sync_waits_for_earlier_proposals() -> None:
    solo = established_leader()
    solo.packet(request())
    solo.packet(SyncRequest(SessionId(1), 9, "/"))
    solo.flush()
    assert not any(isinstance(p, SyncRequest) for p in solo.packets())
    sent = solo.packets(solo.packet(Ack(make_zxid(1, 1))))
    assert [type(p) for p in sent] == [Commit, SyncRequest]


def test_deposed_leader_does_not_reply_to_a_sync() -> None:
    world = World(2, loss=0.0)
    world.start()
    world.run_until(world.settled)
    old = world.leader()
    assert old is not None
    world.pause(old.id)
    world.run_until(lambda: world.leader() not in (None, old))
    new = world.leader()
    assert new is not None
    world.write(new.id)
    world.run_until(lambda: len(world.acknowledged) == 1)
    # The former leader continues, and reads from its clients before it handles timers and connections.
    old.paused, backlog, old.backlog = False, old.backlog, []
    world.sync(old.id)
    assert world.answered_syncs == 0
    old.backlog = backlog
    world.resume(old.id)
    world.run_until(world.converged)
    assert world.answered_syncs == 0 and world.closed


def test_only_an_active_leader_reports_a_session_as_expired() -> None:
    """Only an established leader reports a session as expired.

    Otherwise a leader that continues after it was replaced would report live sessions as expired (seed 9819).
    """
    solo = established_leader()
    gone = SessionId(-6)
    solo.timer(HALF_TICK_TIMER, 50)
    solo.peer._core.role.ask_revalidate(gone, 4000)  # type: ignore[union-attr]
    solo.effects += solo.peer._finish()
    assert solo.app.revalidations == []
    solo.packet(Ping(E1))
    assert solo.packets()[-1] == Ping(E1) and solo.app.revalidations == []
    solo.packet(Ping(E1))
    assert solo.app.revalidations == [(gone, False)]


def test_follower_query_for_unknown_session_needs_no_ping_round() -> None:
    solo = established_leader()
    sent = solo.packets(solo.packet(Revalidate(SessionId(-6), 4000)))
    assert sent == [Revalidate(SessionId(-6), 4000, False, E1)]


def test_session_is_reported_expired_after_its_close_commits() -> None:
    solo = established_leader()
    solo.packet(request())
    solo.packet(Revalidate(SessionId(-6), 4000))
    solo.flush()
    assert not any(isinstance(p, Revalidate) for p in solo.packets())
    sent = solo.packets(solo.packet(Ack(make_zxid(1, 1))))
    assert [type(p) for p in sent] == [Commit, Revalidate]
    assert sent[-1] == Revalidate(SessionId(-6), 4000, False, make_zxid(1, 1))
