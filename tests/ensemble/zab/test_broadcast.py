"""Broadcast between peers: acknowledgements, commits, observers, pings, and the journal events of each."""

from __future__ import annotations

from tests.ensemble.zab.zab_driver import World
from tests.ensemble.zab.zab_solo import E1, E2, Solo, established_leader, request, synced_follower, txn
from zabka.ensemble.ids import Epoch, LinkId, PeerId, SessionId, Zxid, make_zxid
from zabka.ensemble.zab.effects import (
    Barrier,
    Emit,
)
from zabka.ensemble.zab.leader import HALF_TICK_TIMER
from zabka.ensemble.zab.messages import (
    Ack,
    AckEpoch,
    Commit,
    Diff,
    FollowerInfo,
    Inform,
    LeaderInfo,
    NewLeader,
    Ping,
    Proposal,
)
from zabka.ensemble.zab.role import Phase
from zabka.journal.events import TxnLogged


def test_cumulative_acks_and_commits_need_support_of_both_sides() -> None:
    follower = synced_follower(cumulative=True)
    follower.packet(Proposal([txn(1, 1)]))
    follower.packet(Proposal([txn(1, 2)]))
    tokens = [e.token for e in follower.of(Barrier)]
    for effect in follower.queued():
        follower.disk.execute(effect)
    acks = follower.packets(follower.do(follower.peer.on_durable(follower.now, tokens[-1])))
    assert acks == [Ack(make_zxid(1, 2), cumulative=True)], "one barrier's callback stands for the older ones too"
    follower.packet(Commit(make_zxid(1, 2), cumulative=True))
    assert follower.app.last_applied == make_zxid(1, 2)
    leader = established_leader(cumulative=True)
    for cxid in range(3):
        leader.packet(request(cxid))
    leader.flush()
    sent = leader.packets(leader.packet(Ack(make_zxid(1, 3), cumulative=True)))
    assert sent == [Commit(make_zxid(1, 3), cumulative=True)]


def test_each_txn_gets_a_commit_if_commits_are_not_cumulative() -> None:
    assert Solo(id=1, cumulative=False).peer is not None
    leader = established_leader(cumulative=False)
    assert LeaderInfo(Epoch(1), cumulative=False) in leader.packets()
    for cxid in range(3):
        leader.packet(request(cxid))
    leader.flush()
    sent = leader.packets(leader.packet(Ack(make_zxid(1, 3))))
    assert sent == [Commit(make_zxid(1, n)) for n in (1, 2, 3)]


def test_observer_gets_inform_packets_but_its_acks_never_count() -> None:
    solo = Solo(id=3, observers=(4,))
    solo.lead(follower=1)
    solo.packet(AckEpoch(Zxid(0), 0))
    solo.flush()
    watcher = LinkId(11)
    solo.do(solo.peer.on_link_accepted(solo.now, watcher))
    for packet in (FollowerInfo(Epoch(0), PeerId(4), observer=True), AckEpoch(Zxid(0), 0), Ack(E1)):
        solo.packet(packet, watcher)
    assert solo.peer.phase is Phase.SYNCHRONIZATION
    solo.packet(Ack(E1))
    solo.packet(request())
    solo.flush()
    solo.packet(Ack(make_zxid(1, 1)))
    sent = solo.packets(link=watcher)
    assert isinstance(sent[-1], Inform) and not any(isinstance(p, Proposal) for p in sent)


def test_observer_logs_transactions_and_acks_only_newleader() -> None:
    world = World(1, voters=3, observers=1)
    world.record = True
    world.start()
    world.run_until(world.settled)
    for _ in range(5):
        world.write(4)
    world.run_until(lambda: len(world.acknowledged) == 5 and world.converged())
    world.run(50)
    acks = [p for _, n, e in world.sent if n == 4 for p in getattr(e, "packets", ()) if isinstance(p, Ack)]
    assert acks == [Ack(E1), Ack(E1)] and len(world.nodes[4].disk.log) == 5


def test_ping_reply_contains_the_touched_sessions() -> None:
    solo = synced_follower()
    solo.app.touched = [(SessionId(5), 4000)]
    assert solo.packets(solo.packet(Ping(E1))) == [Ping(E1, ((SessionId(5), 4000),))]
    leader = established_leader()
    leader.timer(HALF_TICK_TIMER, 50)
    leader.packet(Ping(E1, ((SessionId(5), 4000),)))
    assert leader.app.touches == [(5, 4000)]


def test_full_journal_contains_transactions_logged_by_a_learner() -> None:
    solo = Solo(log=[txn(1, 1)], epochs=(1, 1), full_journal=True)
    solo.follow(epoch=2)
    for packet in (Diff(make_zxid(1, 2)), Proposal([txn(1, 2)]), Commit(make_zxid(1, 2)), NewLeader(E2)):
        solo.packet(packet)
    solo.flush()
    logged = [e.event for e in solo.of(Emit) if isinstance(e.event, TxnLogged)]
    assert logged == [TxnLogged(make_zxid(1, 2))]


def test_committed_log_in_memory_is_bounded() -> None:
    world = World(1, voters=1, committed_log_length=500)
    world.start()
    for _ in range(600):
        world.write(1)
        world.run(2)
    world.run(10_000)
    assert len(world.nodes[1].peer._core.committed_log) == 500
