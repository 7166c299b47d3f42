"""A learner whose tree differs from its leader's requests the whole tree, and does not vote for itself."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.ensemble.zab.zab_driver import ListApplication, World
from tests.ensemble.zab.zab_solo import LINK, Solo, tree, txn
from zabka.ensemble.ids import Epoch, PeerId, Zxid, make_zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.application import TreeDiffers
from zabka.ensemble.zab.effects import CloseLink, Effect, SaveDoubt, SendNotification
from zabka.ensemble.zab.election import FINALIZE_TIMER, NO_DATA_ZXID
from zabka.ensemble.zab.messages import (
    Ack,
    AckEpoch,
    Commit,
    Diff,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    PeerState,
    Proposal,
    Snap,
    UpToDate,
    Vote,
)

E2 = make_zxid(2, 0)


class OtherTree(ListApplication):
    """Replicated list that reports after every apply that its tree differs from the leader's."""

    def apply(self, now: Instant, txns: Sequence[Txn]) -> list[Effect]:
        return [*super().apply(now, txns), TreeDiffers()]


def solo_with_another_tree() -> Solo:
    solo = Solo(app=OtherTree())
    solo.follow(epoch=2)
    return solo


def votes(effects: list[Effect]) -> list[Vote]:
    return [effect.notification.vote for effect in effects if isinstance(effect, SendNotification)]


def test_diff_that_results_in_another_tree_is_not_acknowledged() -> None:
    solo = solo_with_another_tree()
    solo.together([Diff(make_zxid(1, 1)), Proposal((txn(1, 1),)), Commit(make_zxid(1, 1))])
    done = solo.packet(NewLeader(E2)) + solo.flush()
    assert solo.of(SaveDoubt, done) and solo.of(CloseLink, done)
    assert Ack(E2) not in solo.packets(done)
    assert {vote.zxid for vote in votes(done)} == {NO_DATA_ZXID}


def test_follower_with_a_different_tree_disconnects_from_leader() -> None:
    solo = solo_with_another_tree()
    solo.together([Diff(Zxid(0)), NewLeader(E2)])
    solo.flush()
    solo.packet(UpToDate())
    done = solo.together([Proposal((txn(2, 1),)), Commit(make_zxid(2, 1))])
    assert solo.of(SaveDoubt, done) and solo.of(CloseLink, done)
    assert solo.peer.state is PeerState.LOOKING


def test_peer_saves_doubt_when_disconnected_with_a_wrong_tree() -> None:
    solo = solo_with_another_tree()
    solo.together([Diff(Zxid(0)), NewLeader(E2)])
    solo.flush()
    solo.packet(UpToDate())
    solo.packet(Proposal((txn(2, 1),)))
    assert not solo.of(SaveDoubt)
    done = solo.do(solo.peer.on_link_down(solo.now, LINK))
    assert solo.of(SaveDoubt, done) and solo.peer.state is PeerState.LOOKING
    assert {vote.zxid for vote in votes(done)} == {NO_DATA_ZXID}


def test_tree_just_received_from_its_leader_causes_no_doubt() -> None:
    solo = solo_with_another_tree()
    solo.together([Snap(make_zxid(1, 5), tree(txn(1, 5))), NewLeader(E2)])
    solo.flush()
    solo.packet(UpToDate())
    done = solo.together([Proposal((txn(2, 1),)), Commit(make_zxid(2, 1))])
    assert not solo.of(SaveDoubt) and not solo.of(CloseLink, done)


def in_doubt(counter: int = 3) -> Solo:
    solo = Solo(id=1, log=[txn(1, n + 1) for n in range(counter)], epochs=(1, 1), in_doubt=True)
    solo.start()
    return solo


def test_peer_unsure_of_its_tree_votes_for_equal_or_longer_log() -> None:
    solo = in_doubt()
    assert {vote.zxid for vote in votes(solo.effects)} == {NO_DATA_ZXID}
    done = solo.receive_vote(3, PeerState.LOOKING, (3, make_zxid(1, 3), 1))
    assert votes(done)[0] == Vote(PeerId(3), make_zxid(1, 3), Epoch(1))
    solo.timer(FINALIZE_TIMER, 200)
    assert (solo.peer.state, solo.peer.leader_id) == (PeerState.FOLLOWING, 3)


def test_doubting_peer_elects_no_peer_without_its_acked_records() -> None:
    solo = in_doubt()
    done = solo.receive_vote(3, PeerState.LOOKING, (3, make_zxid(1, 2), 1))
    assert {vote.zxid for vote in votes(done)} <= {NO_DATA_ZXID}
    solo.timer(FINALIZE_TIMER, 200)
    assert solo.peer.state is PeerState.LOOKING


@pytest.mark.parametrize("state", [PeerState.LOOKING, PeerState.FOLLOWING])
def test_peer_doubting_its_tree_does_not_lead_despite_all_votes(state: PeerState) -> None:
    solo = in_doubt()
    for other in (2, 3):
        solo.receive_vote(other, state, (1, make_zxid(1, 3), 1), solo.peer.round)
    solo.timer(FINALIZE_TIMER, 200)
    assert solo.peer.state is PeerState.LOOKING


def test_peer_doubting_its_tree_requests_and_trusts_a_snapshot() -> None:
    solo = in_doubt()
    solo.elect(3)
    solo.do(solo.peer.on_link_up(solo.now, LINK, PeerId(3)))
    info = solo.packets()[-1]
    assert isinstance(info, FollowerInfo) and info.wants_snapshot
    solo.packet(LeaderInfo(Epoch(2)))
    ackepoch = solo.packets(solo.flush())
    assert ackepoch == [AckEpoch(make_zxid(1, 3), 1)], "its log is durable: its ACKEPOCH counts"
    solo.together([Snap(make_zxid(1, 3), tree(txn(1, 3))), NewLeader(E2)])
    assert Ack(E2) in solo.packets(solo.flush())
    assert not solo.disk.in_doubt


def test_peer_unsure_of_its_tree_receives_a_snapshot_not_a_diff() -> None:
    solo = Solo(id=3, log=[txn(1, 1), txn(1, 2)], epochs=(1, 1))
    solo.lead(follower=1, epoch=1, wants_snapshot=True)
    done = solo.packet(AckEpoch(make_zxid(1, 2), 1)) + solo.flush()
    first, *_ = solo.packets(done)
    assert isinstance(first, Snap) and first.zxid == make_zxid(1, 2)


@pytest.mark.parametrize("seed", range(10))
def test_peer_with_a_log_gap_is_not_elected_and_gets_the_rest(seed: int) -> None:
    """A server with a gap in its log is not elected, and gets the missing transactions.

    It has the newest transactions and the highest id, so it would win an ordinary election.
    """
    world = World(seed, voters=3, snap_count=10_000)
    for written in (3, 6):
        world.start()
        world.run_until(world.settled)
        for _ in range(3):
            world.write(1)
        world.run_until(lambda written=written: len(world.acknowledged) == written and world.converged())
        for i in (1, 2, 3):
            world.stop(i)
    disk = world.nodes[3].disk
    del disk.log[2]
    disk.synced, disk.in_doubt = len(disk.log), True
    world.start()
    world.run_until(world.settled)
    world.run_until(world.converged)
    assert len(world.nodes[3].app.entries) == 6 and not disk.in_doubt
