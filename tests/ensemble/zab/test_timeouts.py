"""How long peers wait for each other: syncLimit, initLimit, and the delays of connection retries."""

from __future__ import annotations

from tests.ensemble.zab.zab_solo import LINK, Solo, established_leader, request, synced_follower, tree, txn
from zabka.ensemble.ids import Epoch, LinkId, PeerId, Zxid, make_zxid
from zabka.ensemble.zab.effects import (
    OpenLink,
    ReadLog,
    SetTimer,
)
from zabka.ensemble.zab.election import NO_DATA_ZXID
from zabka.ensemble.zab.leader import HALF_TICK_TIMER, INIT_TIMER, LOOKING_GRACE_MS
from zabka.ensemble.zab.learner import LIVENESS_TIMER
from zabka.ensemble.zab.messages import (
    AckEpoch,
    FollowerInfo,
    LeaderInfo,
    PeerState,
    Ping,
)
from zabka.ensemble.zab.role import Phase


def test_leader_without_a_quorum_of_learners_resigns() -> None:
    solo = established_leader()
    solo.do(solo.peer.on_link_down(solo.now, LINK))
    assert solo.peer.state is PeerState.LOOKING and not solo.app.serving


def test_silent_learner_is_disconnected_after_sync_limit() -> None:
    solo = established_leader()
    solo.timer(HALF_TICK_TIMER, 500)
    assert solo.peer.state is PeerState.LEADING
    solo.timer(HALF_TICK_TIMER, 1)
    assert solo.peer.state is PeerState.LOOKING


def test_learner_that_does_not_ack_is_closed_after_sync_limit() -> None:
    solo = established_leader()
    solo.packet(request())
    for _ in range(10):
        solo.timer(HALF_TICK_TIMER, 50)
        solo.packet(Ping(Zxid(0)))
    assert solo.peer.state is PeerState.LEADING
    solo.timer(HALF_TICK_TIMER, 50)
    assert solo.peer.state is PeerState.LOOKING


def test_leader_without_a_quorum_resigns_after_init_limit() -> None:
    solo = Solo(id=3)
    solo.start()
    solo.receive_vote(1, PeerState.LOOKING, (3, 0, 0))
    solo.receive_vote(2, PeerState.LOOKING, (3, 0, 0))
    solo.timer("leader.init", 1000)
    assert solo.peer.state is PeerState.LOOKING and solo.peer.round == 2


def test_leader_restarts_election_if_an_awaited_voter_is_looking() -> None:
    """A new leader restarts the election if a voter that it waits for still sends votes as LOOKING (ZOOKEEPER-3109)."""
    solo = Solo(id=3)
    solo.start()
    solo.receive_vote(1, PeerState.LOOKING, (3, 0, 0))
    solo.receive_vote(2, PeerState.LOOKING, (3, 0, 0))
    solo.receive_vote(1, PeerState.LOOKING, (3, 0, 0))
    assert solo.peer.state is PeerState.LEADING, "the voter may be about to decide"
    solo.now_ms += LOOKING_GRACE_MS
    solo.receive_vote(1, PeerState.LOOKING, (1, 0, 0))
    assert solo.peer.state is PeerState.LOOKING


def elected(voters: range, *agreed: int) -> Solo:
    """Return peer 2 as the leader, elected by the voters in `agreed`. No other server is reachable."""
    solo = Solo(id=2, voters=voters)
    solo.start()
    for voter in voters:
        if voter != 2 and voter not in agreed:
            solo.do(solo.peer.on_voter_unreachable(solo.now, PeerId(voter)))
    for voter in agreed:
        solo.receive_vote(voter, PeerState.LOOKING, (2, 0, 0))
    assert solo.peer.state is PeerState.LEADING
    return solo


def test_leader_outvoted_in_its_round_returns_to_looking() -> None:
    """A leader that receives better votes from its quorum in the same round goes back to LOOKING, and follows the
    better server.

    Votes within a round only get better, so these voters will not follow the former leader. Waiting until initLimit
    would be useless.
    """
    solo = elected(range(1, 4), 1)
    solo.receive_vote(1, PeerState.LOOKING, (3, 0, 0))
    assert solo.peer.state is PeerState.LOOKING and solo.peer.round == 1, "a higher round would call 1 and 3 back"
    solo.receive_vote(1, PeerState.FOLLOWING, (3, 0, 0))
    solo.receive_vote(3, PeerState.LEADING, (3, 0, 0))
    assert (solo.peer.state, solo.peer.leader_id, solo.peer.round) == (PeerState.FOLLOWING, 3, 1)


def test_late_votes_and_votes_of_other_rounds_are_ignored() -> None:
    solo = elected(range(1, 4), 1)
    for vote, of_round in (((2, 0, 0), 1), ((1, 0, 0), 1), ((3, 0, 0), 0)):
        solo.receive_vote(1, PeerState.LOOKING, vote, round=of_round)
        assert solo.peer.state is PeerState.LEADING


def test_leader_resigns_if_all_its_voters_prefer_another_server() -> None:
    """A leader resigns only after all servers that voted for it have sent a better vote.

    The others may already follow a better server. If the leader resigned earlier, they would leave that server only for
    a higher round, which would depose other leaders.
    """
    solo = elected(range(1, 6), 1, 3, 4)
    solo.receive_vote(5, PeerState.LOOKING, (5, 0, 0))
    solo.receive_vote(4, PeerState.LOOKING, (5, 0, 0))
    solo.receive_vote(3, PeerState.LOOKING, (5, 0, 0))
    assert solo.peer.state is PeerState.LEADING
    solo.receive_vote(1, PeerState.LOOKING, (5, 0, 0))
    assert solo.peer.state is PeerState.LOOKING and solo.peer.round == 1


def test_votes_received_after_an_election_count_for_its_leader() -> None:
    solo = elected(range(1, 6), 1, 3)
    for late in (4, 5):
        solo.receive_vote(late, PeerState.LOOKING, (2, 0, 0))
    for gone in (1, 3, 4):
        solo.receive_vote(gone, PeerState.LOOKING, (5, 0, 0))
    assert solo.peer.state is PeerState.LEADING, "5 has agreed"


def test_invalid_vote_does_not_make_the_leader_resign() -> None:
    """An invalid vote does not make a leader resign.

    A vote is invalid if it is for this peer with a history that it does not have, for an unknown server, or for a
    server that has lost its data.
    """
    solo = elected(range(1, 4), 1)
    for vote in ((2, 5, 0), (9, 5, 0), (3, NO_DATA_ZXID, 5)):
        solo.receive_vote(1, PeerState.LOOKING, vote)
        assert solo.peer.state is PeerState.LEADING


def test_leader_elected_by_following_peers_can_be_outvoted() -> None:
    solo = Solo(id=2)
    solo.start()
    solo.receive_vote(1, PeerState.LOOKING, (3, 0, 0))
    for follower in (1, 3):
        solo.receive_vote(follower, PeerState.FOLLOWING, (2, 0, 0))
    assert solo.peer.state is PeerState.LEADING
    solo.receive_vote(1, PeerState.LOOKING, (3, 0, 0))
    assert solo.peer.state is PeerState.LEADING, "3 is left"
    solo.receive_vote(3, PeerState.LOOKING, (3, 0, 0))
    assert solo.peer.state is PeerState.LOOKING


def test_leader_does_not_resign_if_a_looking_server_has_no_data() -> None:
    """A vote of a LOOKING server without data does not make a leader resign.

    Otherwise the leader would resign each time such a server votes. A leader whose followers connect slowly could then
    never remain leader.
    """
    solo = Solo(id=3)
    solo.start()
    solo.receive_vote(2, PeerState.LOOKING, (3, 0, 0))
    solo.receive_vote(1, PeerState.LOOKING, (1, NO_DATA_ZXID, 0), round=0)
    assert solo.peer.state is PeerState.LEADING
    solo.now_ms += LOOKING_GRACE_MS
    solo.receive_vote(1, PeerState.LOOKING, (1, NO_DATA_ZXID, 0), round=0)
    assert solo.peer.state is PeerState.LEADING


def test_follower_leaves_silent_leader_after_sync_or_init_limit() -> None:
    early = Solo()
    early.follow()
    early.timer(LIVENESS_TIMER, 999)
    assert early.peer.state is PeerState.FOLLOWING
    early.timer(LIVENESS_TIMER, 1)
    assert early.peer.state is PeerState.LOOKING
    solo = synced_follower()
    solo.packet(Ping(Zxid(0)))
    solo.timer(LIVENESS_TIMER, 499)
    assert solo.peer.state is PeerState.FOLLOWING
    solo.timer(LIVENESS_TIMER, 1)
    assert solo.peer.state is PeerState.LOOKING


def test_init_limit_does_not_end_a_sync_that_still_receives_data() -> None:
    follower, leader = Solo(), established_leader()
    follower.follow()
    late = LinkId(8)
    leader.do(leader.peer.on_link_accepted(leader.now, late))
    leader.packet(FollowerInfo(Epoch(0), PeerId(2)), late)
    for _ in range(5):
        leader.timer(HALF_TICK_TIMER, 450)
        leader.packet(Ping(Zxid(0)))
        leader.together([], late)
        follower.timer(LIVENESS_TIMER, 900)
        follower.together([])
    assert follower.peer.state is PeerState.FOLLOWING
    assert [learner.peer_id for learner in leader.peer.status().learners] == [1, 2]


def test_init_limit_is_extended_while_the_quorum_is_syncing() -> None:
    """A leader waits longer than initLimit while followers that it needs for a quorum are syncing.

    The bug occurred if one of three servers had the data, one had lost its disk, and one was down. The snapshot
    transfer was then restarted forever.
    """
    leader = Solo(id=3)
    leader.lead(follower=1)
    leader.packet(AckEpoch(leader.peer.last_zxid, 0))
    leader.flush()
    assert leader.peer.phase is Phase.SYNCHRONIZATION
    leader.timer(HALF_TICK_TIMER, 900)
    leader.together([])
    leader.timer(INIT_TIMER, 100)
    assert leader.of(SetTimer)[-1] == SetTimer(INIT_TIMER, 100)
    for _ in range(5):
        leader.timer(HALF_TICK_TIMER, 900)
        leader.together([])
        leader.timer(INIT_TIMER)
    assert leader.peer.state is PeerState.LEADING
    leader.timer(INIT_TIMER, 1001)
    assert leader.peer.state is PeerState.LOOKING


def test_init_limit_is_extended_while_a_leader_reads_its_log() -> None:
    """A leader does not close a learner's connection while it reads its log for that learner.

    Reading a large log takes longer than initLimit, and the learner sends nothing meanwhile. Before the fix, the
    connection was closed because it was silent, and reading restarted forever.
    """
    leader = Solo(id=3, snapshot=tree(txn(1, 1)), log=[txn(1, 2), txn(1, 3), txn(2, 1)], epochs=(2, 2))
    leader.lead(follower=1, epoch=2)
    leader.packet(AckEpoch(make_zxid(1, 1), 1))
    leader.flush()
    assert leader.of(ReadLog)
    leader.timer(HALF_TICK_TIMER, 900)
    leader.timer(INIT_TIMER, 100)
    assert leader.peer.state is PeerState.LEADING
    leader.do(leader.peer.on_log_read(leader.now, LINK, make_zxid(1, 1), [txn(1, 2), txn(1, 3), txn(2, 1)]))
    leader.timer(HALF_TICK_TIMER, 900)
    leader.timer(INIT_TIMER, 100)
    assert leader.peer.state is PeerState.LEADING
    leader.timer(INIT_TIMER, 1)
    assert leader.peer.state is PeerState.LOOKING


def test_init_limit_ends_a_leader_whose_own_disk_is_not_ready() -> None:
    leader = Solo(id=3)
    leader.lead(follower=1)
    leader.packet(AckEpoch(leader.peer.last_zxid, 0))
    assert leader.peer.phase is Phase.SYNCHRONIZATION
    leader.timer(INIT_TIMER, 1000)
    assert leader.peer.state is PeerState.LOOKING


def test_connection_to_the_leader_is_retried_for_a_limited_time() -> None:
    solo = Solo()
    solo.start()
    solo.elect(3)
    delays = []
    while solo.peer.state is PeerState.FOLLOWING:
        effects = solo.do(solo.peer.on_link_failed(solo.now, PeerId(3)))
        timers = [e for e in effects if getattr(e, "name", "") == "learner.connect" and hasattr(e, "delay_ms")]
        if timers:
            delays.append(timers[0].delay_ms)
            assert solo.of(OpenLink, solo.timer("learner.connect", timers[0].delay_ms))
    assert delays[:4] == [10, 20, 40, 50] and 900 <= sum(delays) <= 1100


def test_links_accepted_during_an_election_remain_open() -> None:
    solo = Solo(id=3)
    solo.start()
    solo.do(solo.peer.on_link_accepted(solo.now, LINK))
    solo.packet(FollowerInfo(Epoch(0), PeerId(1)))
    solo.receive_vote(1, PeerState.LOOKING, (3, 0, 0))
    solo.receive_vote(2, PeerState.LOOKING, (3, 0, 0))
    assert solo.packets(solo.flush()) == [LeaderInfo(Epoch(1))]
