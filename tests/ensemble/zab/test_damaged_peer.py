"""A peer that has lost part of its log does not vote or acknowledge until a leader has sent it all data again."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from tests.ensemble.zab.test_reconfig import ensemble, line
from tests.ensemble.zab.zab_driver import World
from tests.ensemble.zab.zab_solo import LINK, Solo, txn
from zabka.ensemble.ids import Epoch, PeerId, make_zxid
from zabka.ensemble.records import OpCode
from zabka.ensemble.zab.application import EnsembleConfig
from zabka.ensemble.zab.effects import SendNotification
from zabka.ensemble.zab.election import NO_DATA_ZXID, RESEND_TIMER
from zabka.ensemble.zab.messages import (
    Ack,
    AckEpoch,
    Commit,
    Diff,
    LeaderInfo,
    NewLeader,
    PeerState,
    Proposal,
    UpToDate,
)
from zabka.ensemble.zab.peer import Peer
from zabka.ensemble.zab.role import Phase
from zabka.ensemble.zab.sync import what_both_may_commit
from zabka.journal.events import LearnerSynced


def world_with_history(writes: int = 20, **options: object) -> World:
    world = World(1, voters=3, **options)
    world.record = True
    world.start()
    world.run_until(world.settled)
    for _ in range(writes):
        world.write(1)
        world.run(5)
    world.run_until(world.converged)
    return world


def lose_log(world: World, i: int) -> None:
    world.stop(i)
    world.nodes[i].disk.rot(Random(4))


def test_damaged_peer_elects_no_leader_without_the_lost_writes() -> None:
    world = world_with_history()
    world.isolate(2)
    for _ in range(5):
        world.write(1 if world.leader() is world.nodes[1] else 3)
        world.run(50)
    acknowledged = len(world.acknowledged)
    # Only servers 1 and 3 have the last writes. Then server 3 loses its log, 1 stops, and 2 returns with an older
    # history.
    lose_log(world, 3)
    world.stop(1)
    world.heal()
    world.start(3)
    world.run(20_000)
    assert world.leader() is None, "2 and 3 elected a leader without the last writes"
    world.start(1)
    world.run_until(world.settled)
    world.run_until(world.converged)
    assert len(world.nodes[3].app.entries) >= acknowledged
    assert not world.nodes[3].disk.incomplete


def test_damaged_peer_votes_without_data_and_its_ack_is_ignored() -> None:
    world = world_with_history()
    lose_log(world, 3)
    world.sent.clear()
    world.start(3)
    world.run_until(lambda: world.settled() and world.nodes[3].app.serving)
    sent = [effect for _, node, effect in world.sent if node == 3]
    notifications = [e.notification for e in sent if isinstance(e, SendNotification)]
    votes = [notification for notification in notifications if notification.state is PeerState.LOOKING]
    assert votes and all(vote.vote.zxid == NO_DATA_ZXID and vote.round == 0 for vote in votes)
    ackepochs = [p for e in sent for p in getattr(e, "packets", ()) if isinstance(p, AckEpoch)]
    assert [ackepoch.current_epoch for ackepoch in ackepochs] == [-1]


def test_vote_of_damaged_peer_is_counted_after_it_has_synced() -> None:
    world = world_with_history()
    lose_log(world, 3)
    world.start(3)
    world.run_until(lambda: world.settled() and world.converged())
    world.stop(2)
    world.run_until(world.settled)
    world.write(1)
    world.run_until(world.converged)


@pytest.mark.parametrize("writes", [30, 200])
def test_lagging_learner_gets_a_diff_without_a_gap_from_the_log(writes: int) -> None:
    """A learner that lags behind gets a DIFF without a gap from the log on disk.

    ZOOKEEPER-2418: this must hold even if the leader continues to write.
    """
    world = world_with_history(committed_log_length=8, snap_count=10_000)
    world.stop(3)
    for _ in range(writes):
        world.write(1)
        world.run(2)
    world.start(3)
    for _ in range(100):
        world.write(1)
        world.run(2)
    world.run_until(world.converged)
    synced = [event for event in world.emitted(LearnerSynced, 3) if isinstance(event, LearnerSynced)]
    assert synced[-1].mode == "DIFF"


def test_log_on_disk_is_not_read_if_size_factor_disables_it() -> None:
    """With snapshotSizeFactor=-1, learners are not synchronized from the log on disk."""
    world = world_with_history(committed_log_length=8, snap_count=10_000, snapshot_size_factor=-1.0)
    world.stop(3)
    for _ in range(30):
        world.write(1)
        world.run(5)
    world.start(3)
    world.run_until(world.converged)
    synced = [event for event in world.emitted(LearnerSynced, 3) if isinstance(event, LearnerSynced)]
    assert synced[-1].mode == "SNAP"


def damaged_peer() -> Solo:
    solo = Solo(id=1, log=[txn(1, 1)], epochs=(1, 1))
    solo.disk.incomplete = True
    solo.peer = Peer(EnsembleConfig(1, (1, 2, 3), tick_time_ms=100), solo.app, solo.recovered(), Random(1))
    solo.start()
    return solo


def damaged_follower() -> Solo:
    """Return a follower with a damaged log that has replied to LEADERINFO."""
    solo = Solo(log=[txn(1, 1)], epochs=(1, 1), incomplete=True)
    solo.start()
    for other, state in ((2, PeerState.FOLLOWING), (3, PeerState.LEADING)):
        solo.receive_vote(other, state, (3, txn(1, 2).zxid, 1))
    solo.do(solo.peer.on_link_up(solo.now, LINK, PeerId(3)))
    solo.packet(LeaderInfo(Epoch(1), cumulative=True))
    solo.flush()
    return solo


@pytest.mark.parametrize("state", [PeerState.FOLLOWING, PeerState.LOOKING])
def test_damaged_peer_does_not_lead_even_if_elected_by_all(state: PeerState) -> None:
    """A damaged peer does not become leader, even if all servers vote for it.

    The other servers are either its followers, which have not noticed its restart, or in round 1 after a cold start.
    """
    solo = damaged_peer()
    for follower in (2, 3):
        solo.receive_vote(follower, state, (1, txn(1, 9).zxid, 1), round=solo.peer.round)
    solo.timer(RESEND_TIMER, 200)
    assert solo.peer.state is PeerState.LOOKING


def test_damaged_peer_logs_sync_proposals_before_it_serves() -> None:
    """A damaged peer writes the proposals of a sync to its log before it accepts requests.

    The peer may have committed these proposals earlier, because of its leader's ack. It cannot have acknowledged any
    later proposal.
    """
    solo = damaged_follower()
    for packet in (Diff(make_zxid(1, 1)), Proposal([txn(1, 2)]), NewLeader(make_zxid(1, 0))):
        solo.packet(packet)
    assert solo.disk.incomplete
    before = len(solo.packets())
    solo.flush()
    assert not solo.disk.incomplete and solo.disk.last_durable() == make_zxid(1, 2)
    assert solo.packets()[before:] == [Ack(make_zxid(1, 0))], "no proposal's ack precedes NEWLEADER's"
    before = len(solo.packets())
    solo.together([UpToDate(), Proposal([txn(1, 3)])])
    solo.flush()
    acks = [packet.zxid for packet in solo.packets()[before:] if isinstance(packet, Ack)]
    assert acks == [make_zxid(1, 0), make_zxid(1, 2), make_zxid(1, 3)]
    assert solo.peer.phase is Phase.BROADCAST and not solo.app.serving
    solo.packet(Commit(make_zxid(1, 2), cumulative=True))
    assert solo.app.serving and solo.app.last_applied == make_zxid(1, 2)


def test_reconfig_and_later_proposals_wait_for_uptodate() -> None:
    """A damaged peer logs a reconfig, and the proposals after it, only after UPTODATE.

    A follower never commits these proposals on its leader's ack alone. So the peer cannot have committed any of them
    before.
    """
    changed = msgspec.structs.replace(txn(1, 3), type=OpCode.RECONFIG)
    proposed = [txn(1, 2), changed, txn(1, 4)]
    assert what_both_may_commit(proposed) == (proposed[0],)
    solo = damaged_follower()
    for packet in (Diff(make_zxid(1, 1)), Proposal(proposed), NewLeader(make_zxid(1, 0))):
        solo.packet(packet)
    solo.flush()
    assert solo.disk.last_durable() == make_zxid(1, 2)
    solo.packet(UpToDate())
    solo.flush()
    assert solo.disk.last_durable() == make_zxid(1, 4) and not solo.app.serving
    solo.packet(Commit(make_zxid(1, 2), cumulative=True))
    assert solo.app.serving


def test_damaged_peer_serves_immediately_without_proposals() -> None:
    solo = damaged_follower()
    for packet in (Diff(make_zxid(1, 1)), NewLeader(make_zxid(1, 0))):
        solo.packet(packet)
    solo.flush()
    assert not solo.disk.incomplete
    solo.packet(UpToDate())
    assert solo.app.serving


def test_peer_with_a_complete_log_logs_proposals_after_uptodate() -> None:
    """A peer with a complete log writes the proposals of a sync to its log only after UPTODATE (ZOOKEEPER-4685)."""
    solo = Solo(log=[txn(1, 1)], epochs=(1, 1))
    solo.follow(epoch=1, cumulative=True)
    for packet in (Diff(make_zxid(1, 1)), Proposal([txn(1, 2)]), NewLeader(make_zxid(1, 0))):
        solo.packet(packet)
    solo.flush()
    assert solo.disk.last_durable() == make_zxid(1, 1)
    solo.packet(UpToDate())
    solo.flush()
    assert solo.app.serving and solo.disk.last_durable() == make_zxid(1, 2)


@pytest.mark.parametrize("seed", range(10))
def test_damaged_leader_that_restarts_is_not_elected(seed: int) -> None:
    """A leader that restarts with a damaged log is not elected.

    Its followers still vote for its previous process. Then a lagging follower restarts, which could accept the epoch of
    the damaged leader.
    """
    world = World(seed, voters=3)
    world.start()
    world.run_until(world.settled)
    world.write(1)
    world.run_until(lambda: len(world.acknowledged) == 1 and world.converged())
    leader = world.leader()
    assert leader is not None
    lagging = 1 + leader.id % 3
    world.cut_off(leader.id, lagging)
    world.write(leader.id)
    world.run_until(lambda: len(world.acknowledged) == 2)
    world.vanish(leader.id)
    del leader.disk.log[1:]
    leader.disk.synced, leader.disk.incomplete = 1, True
    world.heal()
    world.start(leader.id)
    world.run(30)
    world.stop(lagging)
    world.start(lagging)
    world.run_until(world.settled)
    world.run_until(world.converged)
    assert len(world.nodes[lagging].app.entries) == 2


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_commits_of_a_lost_leader_are_restored_before_serving(seed: int, changes: bool) -> None:
    """Transactions that a dead leader has committed are restored before the damaged peer accepts requests.

    A follower commits a write and acknowledges it, but its leader never receives the acknowledgement, and dies at any
    time after the follower has returned. In some cases the leader first proposes a reconfiguration, and a learner
    receives the active membership before the proposal.
    """
    world = ensemble(seed, voters=3)
    world.write(1)
    world.run_until(lambda: len(world.acknowledged) == 1 and world.converged())
    leader = world.leader()
    assert leader is not None
    follower, lagging = (node for node in world.nodes.values() if node is not leader)
    world.cut_off(leader.id, lagging.id)
    world.write(follower.id)
    world.run_until(lambda: bool(leader.peer.outstanding))
    world.cut_off(follower.id, leader.id, both=False)
    world.run_until(lambda: follower.app.last_applied > leader.app.last_applied)
    world.run_until(lambda: len(world.acknowledged) == 2)
    delivered = follower.app.last_applied
    if changes:
        world.reconfigure(leader.id, joining=line(lagging.id, host="moved"))
        world.run_until(lambda: leader.peer.outstanding == 2)
    world.vanish(follower.id)
    del follower.disk.log[-1]
    follower.disk.synced, follower.disk.incomplete = len(follower.disk.log), True
    world.cut.discard((follower.id, leader.id))
    world.start(follower.id)
    for _ in range(world.random.randrange(5, 400)):
        world.run(1)
        assert not follower.app.serving or follower.app.last_applied >= delivered
    world.vanish(leader.id)
    world.vanish(follower.id)
    world.heal()
    world.start(follower.id)
    world.run(20_000)
    assert not follower.app.serving or follower.app.last_applied >= delivered
    world.start(leader.id)
    world.run_until(world.settled)
    world.run_until(world.converged)
    assert follower.app.last_applied >= delivered


@pytest.mark.parametrize("seed", range(5))
def test_damaged_peer_can_vote_as_soon_as_its_log_is_complete(seed: int) -> None:
    """A damaged peer can vote as soon as its log is complete on disk.

    The third server is permanently dead, so only the damaged peer and the other live server can form a quorum.
    """
    world = World(seed, voters=3)
    world.disk_ms = (5, 20)
    world.start()
    world.run_until(world.settled)
    leader = world.leader()
    assert leader is not None
    damaged, other = (node for node in world.nodes.values() if node is not leader)
    world.write(leader.id)
    world.run_until(lambda: len(world.acknowledged) == 1 and world.converged())
    world.stop(damaged.id)
    del damaged.disk.log[-1]
    damaged.disk.synced, damaged.disk.incomplete = len(damaged.disk.log), True
    world.start(damaged.id)
    world.run_until(lambda: not damaged.disk.incomplete)
    world.stop(other.id)
    world.break_link(leader.id, damaged.id)
    world.run_until(lambda: world.leader() is not None and damaged.app.serving)
