"""The acknowledgement that a leader sends its learners when its own log is durable.

The tests show which learners receive it, and which transactions these learners then commit.
"""

from __future__ import annotations

import pytest

from tests.ensemble.zab.zab_solo import LINK, Solo, txn
from zabka.ensemble.ids import ConnectionId, Epoch, LinkId, PeerId, SessionId, Zxid, make_zxid
from zabka.ensemble.records import OpCode, ReconfigRequest, Request
from zabka.ensemble.zab.effects import SetTimer
from zabka.ensemble.zab.leader_acks import REMINDER_MS, REMINDER_TIMER
from zabka.ensemble.zab.messages import (
    Ack,
    AckEpoch,
    Commit,
    Diff,
    FollowerInfo,
    ForwardedRequest,
    LeaderInfo,
    NewLeader,
    Packet,
    PeerState,
    Proposal,
    Revalidate,
    SyncRequest,
    UpToDate,
)
from zabka.ensemble.zab.quorum import Quorum, SurvivorQuorum
from zabka.ensemble.zab.reconfiguration import Reconfiguration
from zabka.ensemble.zab.role import Phase
from zabka.journal.events import PeerProtocolBroken
from zabka.simulation.scenarios.core_player import play_steps, recover
from zabka.simulation.scenarios.core_steps import Crash, Deliver, Elect, Run, Start, SyncDisk, Write
from zabka.simulation.steps.bare_ensemble import BareEnsemble

E1 = make_zxid(1, 0)
OTHER, AGAIN = LinkId(8), LinkId(9)
NOTHING = Zxid(0)
FIRST = make_zxid(1, 1)
ACK = Ack(FIRST, cumulative=True)
COMMIT = Commit(FIRST, cumulative=True)


def requests(*cxids: int) -> list[Packet]:
    return [ForwardedRequest(SessionId(1), cxid, OpCode.SET_DATA, b"x") for cxid in cxids]


def join(solo: Solo, peer: int, link: LinkId, last_zxid: Zxid = NOTHING, heeds_acks: bool = True) -> list[Packet]:
    """Connect a learner, up to its acknowledgement of the epoch. Return the packets that the leader then sends it."""
    solo.do(solo.peer.on_link_accepted(solo.now, link))
    info = FollowerInfo(Epoch(0), PeerId(peer), cumulative=True, heeds_acks=heeds_acks)
    solo.packet(info, link)
    solo.flush()
    sent = solo.packets(
        solo.packet(AckEpoch(last_zxid, 0 if solo.peer.phase is not Phase.BROADCAST else -1), link), link
    )
    solo.flush()
    return sent


def leader(voters: int = 3, heeds_acks: bool = True) -> Solo:
    """Return server 3 as leader. Followers 1 (on LINK), 2 (on OTHER) and any further voters are in sync."""
    links = {1: LINK, 2: OTHER, 4: LinkId(4), 5: LinkId(5)}
    others = {peer: link for peer, link in links.items() if peer <= voters}
    solo = Solo(id=3, voters=range(1, voters + 1))
    solo.start()
    for other in others:
        solo.receive_vote(other, PeerState.LOOKING, (3, 0, 0), solo.peer.round)
    assert solo.peer.state is PeerState.LEADING
    for peer, link in others.items():
        join(solo, peer, link, heeds_acks=heeds_acks)
    for link in others.values():
        solo.packet(Ack(E1), link)
    assert solo.peer.phase is Phase.BROADCAST
    return solo


def follower(cumulative: bool = True) -> Solo:
    """Return server 1 as a follower of server 3."""
    solo = Solo()
    solo.follow(epoch=1, cumulative=cumulative)
    solo.together([Diff(Zxid(0)), NewLeader(E1)])
    solo.flush()
    solo.packet(UpToDate())
    assert solo.peer.phase is Phase.BROADCAST
    return solo


# -- the leader


def test_ack_of_an_unknown_proposal_closes_only_its_link() -> None:
    solo = leader()
    solo.together(requests(1))
    effects = solo.packet(Ack(make_zxid(1, 2)), OTHER)
    assert any(isinstance(getattr(e, "event", None), PeerProtocolBroken) for e in effects)
    assert solo.peer.state is PeerState.LEADING


def test_ack_of_a_proposal_before_ack_of_newleader_closes_link() -> None:
    solo = leader()
    solo.together(requests(1), OTHER)
    late = LinkId(11)
    join(solo, 1, late)
    effects = solo.packet(Ack(FIRST), late)
    assert any(isinstance(getattr(e, "event", None), PeerProtocolBroken) for e in effects)
    assert solo.peer.state is PeerState.LEADING


def test_leader_sends_its_ack_after_its_own_log_is_durable() -> None:
    solo = leader()
    asked = solo.together(requests(1))
    assert [type(p) for p in solo.packets(asked)] == [Proposal]
    durable = solo.flush()
    assert solo.packets(durable) == solo.packets(durable, OTHER) == [ACK]


def test_leader_sends_no_ack_for_committed_transactions() -> None:
    solo = leader()
    solo.together(requests(1))
    assert not solo.packets(solo.packet(Ack(FIRST, cumulative=True), OTHER))
    assert solo.packets(solo.flush()) == [COMMIT]


def test_leader_of_five_voters_sends_no_ack_to_followers() -> None:
    solo = leader(voters=5)
    solo.together(requests(1))
    assert not solo.packets(solo.flush())


def test_learner_without_a_vote_is_sent_no_leader_ack() -> None:
    for voters, expected in (((1, 3), [ACK]), ((2, 3), [])):
        solo = leader()
        solo.peer._core.reconfiguration.quorum = SurvivorQuorum(Quorum(voters), PeerId(3))
        solo.together(requests(1))
        assert solo.packets(solo.flush()) == expected


def test_learner_that_does_not_support_leader_acks_is_sent_none() -> None:
    solo = leader(heeds_acks=False)
    solo.together(requests(1))
    assert not solo.packets(solo.flush())


def test_leader_with_many_outstanding_proposals_sends_no_ack() -> None:
    solo = leader()
    solo.together(requests(1, 2, 3))
    assert not solo.packets(solo.flush())


def test_leader_sends_no_ack_for_requests_of_its_own_clients() -> None:
    solo = leader()
    solo.together(requests(1))
    solo.packet(Ack(FIRST, cumulative=True), OTHER)
    solo.flush()
    solo.do(solo.peer.on_clients(solo.now, [(ConnectionId(5), Request(1, OpCode.SET_DATA, None))]))
    assert not solo.packets(solo.flush()) and solo.peer.status().outstanding == 1


def test_leader_sends_all_commits_and_no_ack_during_reconfig(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_ack, without_ack = leader(), leader()
    with_ack.together(requests(1))
    with_ack.flush()
    monkeypatch.setattr(Reconfiguration, "under_way", True)
    assert with_ack.packets(with_ack.packet(ACK)) == [COMMIT]
    without_ack.together(requests(1))
    assert not without_ack.packets(without_ack.flush())


def test_follower_that_commits_by_leader_ack_gets_no_commit() -> None:
    solo = leader()
    solo.together(requests(1))
    solo.flush()
    effects = solo.packet(ACK)
    assert solo.app.last_applied == FIRST
    assert not solo.packets(effects) and not solo.packets(effects, OTHER)
    solo.packet(ACK, OTHER)
    reminder = solo.timer(REMINDER_TIMER, REMINDER_MS)
    assert not solo.packets(reminder) and not solo.packets(reminder, OTHER)


def test_delayed_commit_is_sent_once_to_a_slow_follower() -> None:
    solo = leader()
    solo.together(requests(1))
    solo.flush()
    assert SetTimer(REMINDER_TIMER, REMINDER_MS) in solo.packet(ACK)
    reminder = solo.timer(REMINDER_TIMER, REMINDER_MS)
    assert not solo.packets(reminder) and solo.packets(reminder, OTHER) == [COMMIT]
    assert not solo.packets(solo.timer(REMINDER_TIMER, REMINDER_MS), OTHER)


def test_delayed_commits_share_one_timer() -> None:
    solo = leader()
    solo.together(requests(1))
    solo.flush()
    solo.packet(ACK)
    solo.together(requests(2))
    solo.flush()
    assert not any(isinstance(effect, SetTimer) for effect in solo.packet(Ack(make_zxid(1, 2), cumulative=True)))
    assert solo.packets(solo.timer(REMINDER_TIMER, REMINDER_MS), OTHER) == [Commit(make_zxid(1, 2), cumulative=True)]


def test_follower_on_slow_disk_with_a_waiting_client_gets_commit() -> None:
    solo = leader()
    solo.together(requests(1))
    solo.flush()
    effects = solo.packet(ACK, OTHER)
    assert solo.packets(effects) == [COMMIT] and not solo.packets(effects, OTHER)


def test_omitted_commit_is_sent_before_a_session_reply() -> None:
    solo = leader()
    solo.together(requests(1))
    solo.flush()
    solo.packet(ACK)
    lives = solo.packets(solo.packet(Revalidate(SessionId(1), 4000), OTHER), OTHER)
    assert lives[0] == COMMIT and isinstance(lives[-1], Revalidate)


def test_sync_waits_for_proposals_a_follower_may_have_committed() -> None:
    solo = leader()
    solo.together(requests(1))
    solo.flush()
    sync_request = SyncRequest(SessionId(2), 1, "/")
    assert not solo.packets(solo.packet(sync_request, OTHER), OTHER)
    assert solo.packets(solo.packet(ACK), OTHER) == [COMMIT, sync_request]


def test_omitted_commit_is_sent_before_a_reconfig_proposal() -> None:
    """A COMMIT that the leader omitted because of its ack is sent before a reconfig is proposed.

    After the reconfig, a follower whose own log is not durable yet does not commit on the leader's ack.
    """
    solo = leader()
    solo.together(requests(1))
    solo.flush()
    solo.packet(ACK)
    change = ReconfigRequest(None, b"2", None, -1).encode()
    effects = solo.packet(ForwardedRequest(SessionId(1), 2, OpCode.RECONFIG, change))
    assert [type(packet) for packet in solo.packets(effects, OTHER)] == [Commit, Proposal]


# -- returning followers


def test_follower_with_commits_ahead_of_leader_is_not_truncated() -> None:
    solo = leader()
    solo.together(requests(1))
    solo.flush()
    solo.do(solo.peer.on_link_down(solo.now, LINK))
    assert solo.peer.rare_syncs == (0, 0)
    assert not join(solo, 1, AGAIN, last_zxid=FIRST)
    assert solo.peer.rare_syncs == (0, 1)
    effects = solo.packet(ACK, OTHER)
    assert solo.packets(effects, AGAIN) == [Diff(FIRST), NewLeader(E1)]


def test_leader_does_not_wait_for_a_follower_that_left_again() -> None:
    solo = leader()
    solo.together(requests(1))
    solo.flush()
    solo.do(solo.peer.on_link_down(solo.now, LINK))
    join(solo, 1, AGAIN, last_zxid=FIRST)
    solo.do(solo.peer.on_link_down(solo.now, AGAIN))
    assert not solo.packets(solo.packet(ACK, OTHER), AGAIN)


def test_follower_without_the_acked_proposal_gets_it_in_its_diff() -> None:
    solo = leader()
    solo.together(requests(1))
    solo.flush()
    solo.do(solo.peer.on_link_down(solo.now, LINK))
    assert [type(p) for p in join(solo, 1, AGAIN)] == [Diff, Proposal, NewLeader]


# -- the follower


def test_follower_commits_after_both_logs_are_durable() -> None:
    leaders_first, own_first = follower(), follower()
    leaders_first.packet(Proposal([txn(1, 1)]))
    leaders_first.packet(ACK)
    assert leaders_first.app.last_applied == 0
    assert leaders_first.packets(leaders_first.flush()) == [ACK]
    assert leaders_first.app.last_applied == FIRST
    own_first.packet(Proposal([txn(1, 1)]))
    own_first.flush()
    assert own_first.app.last_applied == 0
    own_first.packet(ACK)
    assert own_first.app.last_applied == FIRST


def test_proposal_without_leader_ack_waits_for_the_commit() -> None:
    solo = follower()
    solo.packet(Proposal([txn(1, 1), txn(1, 2)]))
    solo.packet(ACK)
    solo.flush()
    assert solo.app.last_applied == FIRST
    solo.packet(Commit(make_zxid(1, 2), cumulative=True))
    assert solo.app.last_applied == make_zxid(1, 2)


def test_repeated_commit_has_no_effect() -> None:
    solo = follower()
    solo.packet(Proposal([txn(1, 1)]))
    solo.packet(ACK)
    solo.flush()
    assert solo.packet(COMMIT) == [] and solo.peer.state is PeerState.FOLLOWING


def test_follower_ignores_leader_acks_during_a_reconfig(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solo = follower()
    solo.packet(Proposal([txn(1, 1)]))
    solo.packet(ACK)
    monkeypatch.setattr(Reconfiguration, "under_way", True)
    solo.flush()
    assert solo.app.last_applied == 0
    solo.packet(COMMIT)
    assert solo.app.last_applied == FIRST


@pytest.mark.parametrize("agreed", [True, False])
def test_invalid_or_unsupported_leader_ack_closes_the_link(agreed: bool) -> None:
    solo = follower(cumulative=agreed)
    if not agreed:
        solo.packet(Proposal([txn(1, 1)]))
    effects = solo.packet(ACK)
    assert solo.peer.state is PeerState.LOOKING
    assert any(isinstance(getattr(e, "event", None), PeerProtocolBroken) for e in effects)


def test_learner_offers_leader_acks_only_with_cumulative_acks() -> None:
    for cumulative in (True, False):
        solo = Solo(cumulative=cumulative)
        solo.start()
        solo.elect(3)
        solo.do(solo.peer.on_link_up(solo.now, LINK, PeerId(3)))
        assert solo.packets() == [FollowerInfo(Epoch(0), PeerId(1), cumulative=cumulative, heeds_acks=cumulative)]
        solo.packet(LeaderInfo(Epoch(1), cumulative))


# -- together


def test_write_acked_by_a_follower_before_the_commit_survives() -> None:
    cores = BareEnsemble()
    begin = (Start(), Elect((1, 2, 3)), Run())
    both_hold_it = (Write(1), Deliver(1, 3), Deliver(3, 1), SyncDisk(3), Deliver(3, 1), SyncDisk(1))
    assert play_steps(cores, (*begin, *both_hold_it)) == []
    status = cores.nodes[3].status
    assert status is not None and status.last_committed == 0 and status.outstanding == 1
    assert cores.answered == ((1, FIRST),)
    assert play_steps(cores, (Crash((3,)), Elect((1, 2)), Run())) == []
    assert cores.nodes[2].disk.history() == [FIRST]
    assert recover(cores) == []
