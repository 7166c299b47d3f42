"""Fast leader election: how votes are compared, when a peer decides, and how it joins an existing leader."""

from __future__ import annotations

import itertools

import pytest

from tests.ensemble.zab.zab_driver import World
from tests.ensemble.zab.zab_solo import Solo, txn
from zabka.ensemble.ids import Epoch, PeerId, Zxid, make_zxid
from zabka.ensemble.zab.effects import SendNotification, SetTimer
from zabka.ensemble.zab.election import FINALIZE_TIMER, FINALIZE_WAIT_MS, better
from zabka.ensemble.zab.messages import PeerState, Vote

L, F, LEAD = PeerState.LOOKING, PeerState.FOLLOWING, PeerState.LEADING


def vote(leader: int, zxid: int = 0, epoch: int = 0) -> Vote:
    return Vote(PeerId(leader), Zxid(zxid), Epoch(epoch))


def test_votes_are_ordered_by_epoch_zxid_and_server_id() -> None:
    votes = [vote(1), vote(3), vote(2, 5), vote(3, 5), vote(1, 6), vote(1, 0, 1), vote(1, 5, 2)]
    for (i, a), (j, b) in itertools.product(enumerate(votes), repeat=2):
        assert better(a, b) == (i > j)


def test_peer_votes_for_itself_with_its_last_logged_zxid() -> None:
    solo = Solo(log=[txn(1, 1), txn(1, 2)], epochs=(1, 1))
    solo.start()
    votes = {n.to: n.notification.vote for n in solo.of(SendNotification)}
    assert votes == {2: vote(1, make_zxid(1, 2), 1), 3: vote(1, make_zxid(1, 2), 1)}


def test_better_vote_of_another_peer_is_adopted_and_broadcast() -> None:
    solo = Solo()
    solo.start()
    sent = solo.of(SendNotification, solo.receive_vote(2, L, (2, 0, 0)))
    assert [(n.to, n.notification.vote) for n in sent] == [(2, vote(2)), (3, vote(2))]


def test_vote_of_the_last_voter_decides_immediately() -> None:
    solo = Solo()
    solo.start()
    solo.receive_vote(2, L, (3, 0, 0))
    assert solo.peer.state is L
    solo.receive_vote(3, L, (3, 0, 0))
    assert (solo.peer.state, solo.peer.leader_id) == (F, 3)


@pytest.mark.parametrize(
    ("state", "of"),
    [(LEAD, {}), (L, {"incomplete": True}), (L, {"in_doubt": True})],
    ids=["sound", "damaged", "in doubt"],
)
def test_single_voter_elects_itself_unless_its_log_is_incomplete(state: PeerState, of: dict[str, bool]) -> None:
    solo = Solo(voters=(1,), log=[txn(1, 1)], epochs=(1, 1), **of)  # type: ignore[arg-type]
    solo.start()
    solo.timer(FINALIZE_TIMER, FINALIZE_WAIT_MS)
    assert solo.peer.state is state


def test_better_vote_restarts_the_wait_for_missing_votes() -> None:
    solo = Solo(voters=range(1, 6))
    solo.start()
    for voter in (2, 3):
        solo.receive_vote(voter, L, (3, 0, 0))
    assert [timer.name for timer in solo.of(SetTimer)].count(FINALIZE_TIMER) == 1
    for voter in (2, 4):
        solo.receive_vote(voter, L, (4, 0, 0))
    assert [timer.name for timer in solo.of(SetTimer)].count(FINALIZE_TIMER) == 2
    solo.timer(FINALIZE_TIMER, FINALIZE_WAIT_MS)
    assert (solo.peer.state, solo.peer.leader_id) == (F, 4)


def test_election_with_a_quorum_waits_for_the_missing_vote() -> None:
    solo = Solo()
    solo.start()
    timers = solo.of(SetTimer, solo.receive_vote(2, L, (2, 0, 0)))
    assert SetTimer(FINALIZE_TIMER, FINALIZE_WAIT_MS) in timers and solo.peer.state is L
    solo.receive_vote(3, L, (3, 0, 0))  # The vote came in time, and gives 3 a quorum.
    assert solo.peer.leader_id == 3


def test_election_is_decided_after_the_wait_for_missing_voters() -> None:
    solo = Solo(id=2)
    solo.start()
    solo.receive_vote(1, L, (2, 0, 0))
    solo.timer(FINALIZE_TIMER, FINALIZE_WAIT_MS)
    assert solo.peer.state is LEAD


def test_election_does_not_wait_for_an_unreachable_voter() -> None:
    solo = Solo(id=2)
    solo.start()
    solo.do(solo.peer.on_voter_unreachable(solo.now, PeerId(3)))
    solo.receive_vote(1, L, (2, 0, 0))
    assert solo.peer.state is LEAD


def test_peer_joins_a_higher_round_and_replies_to_a_lower_one() -> None:
    solo = Solo(id=2)
    solo.start()
    solo.receive_vote(1, L, (1, 0, 0), round=9)
    assert solo.peer.round == 9
    sent = solo.of(SendNotification, solo.receive_vote(3, L, (3, 0, 0), round=4))
    assert [(n.to, n.notification.round, n.notification.vote) for n in sent] == [(3, 9, vote(2))]


def test_peer_replies_to_a_worse_vote_with_the_better_one() -> None:
    solo = Solo(id=2)
    solo.start()
    sent = solo.of(SendNotification, solo.receive_vote(1, L, (1, 0, 0)))
    assert [(n.to, n.notification.vote) for n in sent] == [(1, vote(2))]


def test_votes_of_unknown_and_incomplete_servers_are_ignored() -> None:
    solo = Solo()
    solo.start()
    solo.receive_vote(9, L, (3, 0, 0))
    solo.receive_vote(2, L, (9, 0, 0))
    solo.receive_vote(2, L, (2, -1, 0))
    solo.receive_vote(3, L, (3, -1, 0))
    assert solo.peer.state is L


def test_observer_votes_for_itself_with_the_smallest_values() -> None:
    """An observer's initial vote has the zxid and epoch Long.MIN_VALUE, the smallest possible values.

    See FastLeaderElection.getInitLastLoggedZxid and getPeerEpoch.
    """
    observer = Solo(id=4, observers=(4,))
    observer.start()
    least = -(1 << 63)
    assert {sent.notification.vote for sent in observer.of(SendNotification)} == {vote(4, least, least)}


def test_observer_receives_votes_and_joins_the_elected_leader() -> None:
    voter = Solo(observers=(4,))
    voter.start()
    sent = voter.of(SendNotification, voter.receive_vote(4, L, (4, -(2**63), -(2**63))))
    assert [(n.to, n.notification.vote) for n in sent] == [(4, vote(1))]
    observer = Solo(id=4, observers=(4,))
    observer.start()
    observer.receive_vote(1, F, (3, 0, 1))
    observer.receive_vote(3, LEAD, (3, 0, 1))
    assert (observer.peer.state, observer.peer.leader_id) == (PeerState.OBSERVING, 3)


def test_peer_joins_leader_only_after_notification_from_leader() -> None:
    solo = Solo(voters=(1, 2, 3, 4, 5))
    solo.start()
    for src in (2, 3, 4):
        solo.receive_vote(src, F, (5, 0, 7), round=6)
    assert solo.peer.state is L  # Server 5 may be dead without the knowledge of the other three.
    solo.receive_vote(5, LEAD, (5, 0, 7), round=6)
    assert (solo.peer.leader_id, solo.peer.round) == (5, 6)


def test_joining_a_leader_of_this_round_needs_a_quorum_of_votes() -> None:
    """A peer follows a server that claims to lead in this round only if a quorum votes for that server.

    In FastLeaderElection, votes of the same round also count for a server that already leads or follows.
    """
    solo = Solo(voters=(1, 2, 3, 4, 5))
    solo.start()
    for src in (2, 4):
        solo.receive_vote(src, L, (4, 0, 0))
    solo.receive_vote(5, LEAD, (5, 0, 0))
    assert solo.peer.state is L, "4's voters do not follow 5, which may have no followers"
    for src in (2, 4):
        solo.receive_vote(src, L, (5, 0, 0))
    solo.timer(FINALIZE_TIMER, FINALIZE_WAIT_MS)
    assert (solo.peer.state, solo.peer.leader_id) == (F, 5)


def test_looking_votes_count_for_a_leader_of_the_same_round() -> None:
    solo = Solo(voters=(1, 2, 3, 4, 5))
    solo.start()
    solo.do(solo.peer.on_voter_unreachable(solo.now, PeerId(4)))
    for src in (2, 3):
        solo.receive_vote(src, L, (5, 0, 0))
    assert solo.peer.state is L, "5 itself may still send a better vote"
    solo.receive_vote(5, LEAD, (5, 0, 0))
    assert (solo.peer.state, solo.peer.leader_id) == (F, 5)


def test_rejoining_peer_compares_votes_only_by_leader_and_epoch() -> None:
    solo = Solo()
    solo.start()
    solo.receive_vote(2, F, (3, 55, 4), round=2)
    # The two votes differ in round and zxid, but have the same leader and epoch (ZOOKEEPER-1732, ZOOKEEPER-1805).
    solo.receive_vote(3, LEAD, (3, 99, 4), round=8)
    assert solo.peer.leader_id == 3


def test_restarted_leader_ignores_votes_of_its_former_followers() -> None:
    solo = Solo(id=3)
    solo.start()
    solo.receive_vote(1, F, (3, 0, 4), round=7)
    solo.receive_vote(2, F, (3, 0, 4), round=7)
    assert solo.peer.state is L


def test_peer_with_the_longest_log_is_elected() -> None:
    world = World(5)
    world.start(1, 2)
    world.run_until(world.settled)
    world.write(1)
    world.run_until(lambda: len(world.acknowledged) == 1)
    world.run(200)
    world.stop(1)
    world.stop(2)
    world.start(1, 3)
    world.run_until(lambda: world.leader() is not None)
    leader = world.leader()
    assert leader is not None and leader.id == 1


def test_dead_leader_is_replaced_within_a_few_message_delays() -> None:
    for seed in range(20):
        world = World(seed, loss=0.0)
        world.start()
        world.run_until(world.settled)
        leader = world.leader()
        assert leader is not None
        began = world.now_ms
        world.stop(leader.id)
        world.run_until(lambda world=world: world.leader() is not None)  # type: ignore[misc]
        assert world.now_ms - began <= 120
