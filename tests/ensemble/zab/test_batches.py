"""Packets that arrive together are processed in one turn.

The tests cover their order, turns that end early, the single barrier of a turn, and effects that are executed before
the turn ends.
"""

from __future__ import annotations

import pytest

from tests.ensemble.zab.zab_solo import LINK, Solo, txn
from zabka.ensemble.ids import ConnectionId, Epoch, LinkId, PeerId, SessionId, Zxid, make_zxid
from zabka.ensemble.records import OpCode, Request
from zabka.ensemble.zab import broadcast, core
from zabka.ensemble.zab.effects import Append, Barrier, CloseLink, Effect, SendPackets
from zabka.ensemble.zab.messages import (
    Ack,
    AckEpoch,
    Commit,
    Diff,
    FollowerInfo,
    ForwardedRequest,
    NewLeader,
    Packet,
    PeerState,
    Ping,
    Proposal,
    UpToDate,
)
from zabka.ensemble.zab.role import Phase
from zabka.journal.events import PeerProtocolBroken

E1 = make_zxid(1, 0)
OTHER = LinkId(8)


def requests(*cxids: int) -> list[Packet]:
    return [ForwardedRequest(SessionId(1), cxid, OpCode.SET_DATA, b"x") for cxid in cxids]


def follower(cumulative: bool = True) -> Solo:
    solo = Solo()
    solo.follow(epoch=1, cumulative=cumulative)
    solo.together([Diff(Zxid(0)), NewLeader(E1)])
    solo.flush()
    solo.packet(UpToDate())
    assert solo.peer.phase is Phase.BROADCAST
    return solo


def leader_of_two(cumulative: bool = True) -> Solo:
    """Return a leader with two followers in sync, 1 (on LINK) and 2 (on OTHER)."""
    solo = Solo(id=3)
    solo.lead(follower=1, cumulative=cumulative)
    solo.together([AckEpoch(Zxid(0), 0)])
    solo.flush()
    solo.packet(Ack(E1))
    solo.do(solo.peer.on_link_accepted(solo.now, OTHER))
    solo.packet(FollowerInfo(Epoch(0), PeerId(2), cumulative=cumulative), OTHER)
    solo.packet(AckEpoch(Zxid(0), 0), OTHER)
    solo.packet(Ack(E1), OTHER)
    assert solo.peer.phase is Phase.BROADCAST
    return solo


def logged(effects: list[Effect]) -> list[int]:
    return [t.zxid - E1 for e in effects if isinstance(e, Append) for t in e.txns]


# -- one turn


def test_simultaneous_requests_share_one_append_and_proposal() -> None:
    solo = leader_of_two()
    effects = solo.together(requests(1, 2, 3))
    assert [type(e) for e in effects] == [Append, SendPackets, SendPackets, Barrier]
    assert logged(effects) == [1, 2, 3]
    (to_one,), (to_other,) = solo.packets(effects), solo.packets(effects, OTHER)
    assert to_one is to_other and isinstance(to_one, Proposal)
    assert [t.zxid for t in to_one.txns] == [E1 + 1, E1 + 2, E1 + 3]


def test_simultaneous_client_requests_share_one_barrier() -> None:
    solo = leader_of_two()
    request = Request(1, OpCode.SET_DATA, None)
    effects = solo.do(solo.peer.on_clients(solo.now, [(ConnectionId(n), request) for n in (1, 2, 3)]))
    assert logged(effects) == [1, 2, 3] and len(solo.of(Barrier, effects)) == 1


def test_packets_for_a_link_in_one_turn_are_sent_together() -> None:
    solo = leader_of_two()
    solo.together(requests(1))
    solo.flush()
    effects = solo.together([Ack(make_zxid(1, 1), cumulative=True), *requests(2)])
    assert len([e for e in solo.of(SendPackets, effects) if e.link == OTHER]) == 1
    assert [type(p) for p in solo.packets(effects, OTHER)] == [Commit, Proposal]


@pytest.mark.parametrize("cumulative", [True, False])
def test_batched_proposals_share_a_sync_and_use_negotiated_acks(cumulative: bool) -> None:
    solo = follower(cumulative)
    effects = solo.together([Proposal([txn(1, 1), txn(1, 2)]), Proposal([txn(1, 3)])])
    assert [type(e) for e in effects] == [Append, Barrier] and logged(effects) == [1, 2, 3]
    sent = solo.packets(solo.flush())
    one_each = [Ack(make_zxid(1, n)) for n in (1, 2, 3)]
    assert sent == ([Ack(make_zxid(1, 3), cumulative=True)] if cumulative else one_each)


def test_learner_without_cumulative_commits_gets_each_commit() -> None:
    solo = leader_of_two(cumulative=False)
    solo.together(requests(1, 2, 3))
    solo.flush()
    effects = solo.packet(Ack(make_zxid(1, 3)))
    assert solo.packets(effects, OTHER) == [Commit(make_zxid(1, n)) for n in (1, 2, 3)]


# -- a turn that ends in the middle


def test_packets_received_after_a_protocol_error_are_ignored() -> None:
    solo = follower()
    effects = solo.together([Proposal([txn(1, 1)]), UpToDate(), Proposal([txn(1, 2)])])
    assert solo.peer.state is PeerState.LOOKING and logged(effects) == [1]
    assert solo.of(CloseLink, effects) and any(
        isinstance(getattr(e, "event", None), PeerProtocolBroken) for e in effects
    )


@pytest.mark.parametrize("counters", [(1, 3), (1, 1), (2,)])
def test_batch_of_proposals_with_a_gap_is_not_logged(counters: tuple[int, ...]) -> None:
    solo = follower()
    effects = solo.packet(Proposal([txn(1, n) for n in counters]))
    assert solo.peer.state is PeerState.LOOKING and not logged(effects)


def test_packets_after_a_learners_link_closes_are_ignored() -> None:
    solo = leader_of_two()
    effects = solo.together([*requests(1), Ack(make_zxid(1, 9)), *requests(2)])
    assert logged(effects) == [1] and [e.link for e in solo.of(CloseLink, effects)] == [LINK]
    assert solo.peer.state is PeerState.LEADING
    assert not solo.together(requests(3))


def test_packets_after_the_leader_resigns_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    solo = leader_of_two()
    monkeypatch.setattr(broadcast, "COUNTER_MAX", 3)
    effects = solo.together([*requests(1, 2, 3), Ping(E1), *requests(4)])
    assert logged(effects) == [1, 2] and solo.peer.state is PeerState.LOOKING
    assert solo.peer.last_zxid == make_zxid(1, 2)


def test_client_requests_after_a_peer_resigns_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    solo = leader_of_two()
    monkeypatch.setattr(broadcast, "COUNTER_MAX", 2)
    request = Request(1, OpCode.SET_DATA, None)
    effects = solo.do(solo.peer.on_clients(solo.now, [(ConnectionId(n), request) for n in (1, 2, 3)]))
    assert logged(effects) == [1] and solo.peer.state is PeerState.LOOKING
    assert (SessionId(3), 1) not in solo.app.waiting


# -- output during a turn


class Outlet:
    """Receiver of the effects that are executed before a turn ends.

    It records how many transactions the tree had applied at that time.
    """

    def __init__(self, solo: Solo) -> None:
        self.solo = solo
        self.early: list[Effect] = []
        self.applied_then: list[int] = []
        solo.peer.hand_effects_to(self)

    def __call__(self, effects: list[Effect]) -> None:
        self.early += effects
        self.applied_then.append(self.solo.app.last_applied)
        self.solo.do(effects)


def test_commit_is_sent_to_followers_before_leader_applies_it() -> None:
    solo = leader_of_two()
    solo.together(requests(1, 2))
    solo.flush()
    outlet = Outlet(solo)
    rest = solo.packet(Ack(make_zxid(1, 2), cumulative=True))
    assert solo.packets(outlet.early, OTHER) == [Commit(make_zxid(1, 2), cumulative=True)]
    assert outlet.applied_then == [0] and solo.app.last_applied == make_zxid(1, 2)
    assert not solo.of(SendPackets, rest)


def test_follower_starts_its_disk_write_before_applying_commits() -> None:
    solo = follower()
    solo.packet(Proposal([txn(1, 1)]))
    solo.flush()
    outlet = Outlet(solo)
    rest = solo.together([Proposal([txn(1, 2)]), Commit(make_zxid(1, 1), cumulative=True)])
    assert [type(e) for e in outlet.early] == [Append, Barrier] and outlet.applied_then == [0]
    assert solo.app.last_applied == make_zxid(1, 1) and not solo.of(Barrier, rest)


def test_long_batch_of_requests_is_sent_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "STRETCH_TXNS", 2)
    solo = leader_of_two()
    outlet = Outlet(solo)
    rest = solo.together(requests(1, 2, 3, 4, 5))
    assert [logged([e]) for e in solo.of(Append, outlet.early)] == [[1, 2], [3, 4]] and logged(rest) == [5]
    assert [type(e) for e in rest] == [Append, SendPackets, SendPackets, Barrier]


def test_early_sends_do_not_change_what_a_peer_logs_and_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "STRETCH_TXNS", 2)
    monkeypatch.setattr(core, "STRETCH_TXNS", 2)

    def sent(early: bool) -> tuple[list[int], list[Packet], int]:
        solo = leader_of_two()
        if early:
            Outlet(solo)
        before = len(solo.effects)
        solo.together(requests(1, 2, 3, 4, 5))
        solo.flush()
        solo.together([Ack(make_zxid(1, 5), cumulative=True), *requests(6)])
        done = solo.effects[before:]
        proposed = [t.zxid for p in solo.packets(done, OTHER) if isinstance(p, Proposal) for t in p.txns]
        commits: list[Packet] = [p for p in solo.packets(done, OTHER) if isinstance(p, Commit)]
        assert [z - E1 for z in proposed] == logged(done)
        return logged(done), commits, solo.app.last_applied

    assert (
        sent(early=True) == sent(early=False) == ([1, 2, 3, 4, 5, 6], [Commit(Zxid(E1 + 5), cumulative=True)], E1 + 5)
    )
