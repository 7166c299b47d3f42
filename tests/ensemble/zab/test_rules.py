"""Rules of ZooKeeper's learner protocol that keep histories consistent, and the ZooKeeper bugs that violated them."""

from __future__ import annotations

import pytest

from tests.ensemble.zab.zab_driver import World
from tests.ensemble.zab.zab_solo import E1, E2, LINK, Solo, established_leader, request, synced_follower, tree, txn
from zabka.ensemble.ids import COUNTER_MAX, ConnectionId, Epoch, LinkId, PeerId, Zxid, make_zxid
from zabka.ensemble.zab.effects import (
    Append,
    Barrier,
    CloseLink,
    Emit,
    Halt,
    SaveAcceptedEpoch,
    SaveCurrentEpoch,
    SaveSnapshot,
    TruncateLog,
)
from zabka.ensemble.zab.leader import Leader
from zabka.ensemble.zab.messages import (
    Ack,
    AckEpoch,
    Commit,
    Diff,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    PeerState,
    Ping,
    Proposal,
    Snap,
    Trunc,
    UpToDate,
)
from zabka.ensemble.zab.role import Phase
from zabka.journal.events import LeaderEstablished, LearnerSynced, PeerProtocolBroken, TxnLogTruncated

# -- discovery: an epoch is acknowledged once it is durable


def test_ackepoch_is_sent_once_the_accepted_epoch_is_durable() -> None:
    solo = Solo()
    solo.start()
    solo.elect(3)
    solo.do(solo.peer.on_link_up(solo.now, LINK, PeerId(3)))
    assert solo.packets() == [FollowerInfo(Epoch(0), PeerId(1), cumulative=True, heeds_acks=True)]
    effects = solo.packet(LeaderInfo(Epoch(4)))
    assert solo.of(SaveAcceptedEpoch, effects) == [SaveAcceptedEpoch(Epoch(4))] and not solo.packets(effects)
    assert solo.packets(solo.flush()) == [AckEpoch(Zxid(0), 0)]


def test_leaderinfo_is_sent_once_the_accepted_epoch_is_durable() -> None:
    solo = Solo(id=3)
    solo.start()
    solo.receive_vote(1, PeerState.LOOKING, (3, 0, 0))
    solo.receive_vote(2, PeerState.LOOKING, (3, 0, 0))
    solo.do(solo.peer.on_link_accepted(solo.now, LINK))
    assert not solo.packets(solo.packet(FollowerInfo(Epoch(6), PeerId(1))))
    assert solo.packets(solo.flush()) == [LeaderInfo(Epoch(7))]


def test_ackepoch_for_an_already_accepted_epoch_does_not_count() -> None:
    solo = Solo(epochs=(5, 4), log=[txn(4, 1)])
    solo.follow(epoch=5)
    assert solo.packets()[-1] == AckEpoch(make_zxid(4, 1), -1)


def test_epoch_lower_than_the_accepted_epoch_is_rejected() -> None:
    solo = Solo(epochs=(5, 4))
    solo.follow(epoch=4)
    assert solo.peer.state is PeerState.LOOKING and solo.of(CloseLink)
    assert not any(isinstance(p, AckEpoch) for p in solo.packets())


def test_vote_and_ackepoch_contain_the_last_logged_zxid() -> None:
    """A vote and the ACKEPOCH contain the last logged zxid, even if it is not committed (ZOOKEEPER-2845)."""
    solo = synced_follower()
    solo.packet(Proposal([txn(1, 1)]))
    assert solo.app.last_applied == 0
    solo.do(solo.peer.on_link_down(solo.now, LINK))
    assert solo.peer.state is PeerState.LOOKING
    assert solo.app.last_applied == solo.peer.last_zxid == make_zxid(1, 1)
    solo.elect(3)
    solo.do(solo.peer.on_link_up(solo.now, LinkId(8), PeerId(3)))
    solo.packet(LeaderInfo(Epoch(2)), LinkId(8))
    solo.flush()
    assert solo.packets(link=LinkId(8))[-1] == AckEpoch(make_zxid(1, 1), 1)


# -- NEWLEADER is acknowledged once the history and then the epoch are durable


def test_newleader_ack_is_sent_after_durable_history_and_epoch() -> None:
    """A follower acknowledges NEWLEADER only after its history and then its epoch are durable.

    ZOOKEEPER-3911, 4643, 4646: the order on disk is log, barrier, currentEpoch, barrier. The ACK is sent after the
    second barrier.
    """
    solo = Solo()
    solo.follow()
    for packet in (Diff(make_zxid(1, 2)), Proposal([txn(1, 1)]), Commit(make_zxid(1, 1))):
        solo.packet(packet)
    solo.packet(Proposal([txn(1, 2)]))
    solo.packet(Commit(make_zxid(1, 2)))
    assert not solo.queued(), "no state is replaced before NEWLEADER"
    before = len(solo.packets())
    solo.packet(NewLeader(E1))
    assert [type(e) for e in solo.queued()] == [Append, Barrier]
    for _ in range(2):
        solo.step_disk()
    assert [type(e) for e in solo.queued()] == [SaveCurrentEpoch, Barrier]
    assert len(solo.packets()) == before
    solo.flush()
    assert solo.packets()[before:] == [Ack(E1)]
    synced = [e.event for e in solo.of(Emit) if isinstance(e.event, LearnerSynced)]
    assert synced == [LearnerSynced(1, 3, 1, "DIFF", 0, make_zxid(1, 2))]


def test_leader_counts_itself_after_its_current_epoch_is_durable() -> None:
    solo = Solo(id=3)
    solo.lead()
    solo.packet(AckEpoch(Zxid(0), 0))
    solo.packet(Ack(E1))
    assert solo.peer.phase is Phase.SYNCHRONIZATION
    solo.flush()
    assert solo.peer.phase is Phase.BROADCAST
    assert next(e.event for e in solo.of(Emit) if isinstance(e.event, LeaderEstablished)).quorum == [1, 3]


def test_leader_that_loses_its_only_learner_waits_for_another() -> None:
    """A leader whose only learner disconnects before it is established waits for another one.

    Found by `zabka explore` with up to two crashes: the leader would have accepted requests without followers until its
    next tick.
    """
    solo = Solo(id=3)
    solo.lead()
    solo.packet(AckEpoch(Zxid(0), 0))
    solo.packet(Ack(E1))
    solo.do(solo.peer.on_link_down(solo.now, LINK))
    solo.flush()
    assert solo.peer.phase is Phase.SYNCHRONIZATION and not solo.app.serving
    assert not [e for e in solo.of(Emit) if isinstance(e.event, LeaderEstablished)]


# -- a proposal is acknowledged, and counted, once it is durable


def test_proposal_is_acked_after_its_barrier() -> None:
    solo = synced_follower()
    effects = solo.packet(Proposal([txn(1, 1)]))
    assert [type(e) for e in effects] == [Append, Barrier]
    assert solo.packets(solo.flush()) == [Ack(make_zxid(1, 1))]


def test_proposals_before_uptodate_are_acked_after_newleader() -> None:
    """Proposals received before UPTODATE are acknowledged after NEWLEADER.

    ZOOKEEPER-4685, 4394: the proposal arrives before NEWLEADER, and the proposal's commit arrives after NEWLEADER.
    """
    solo = Solo()
    solo.follow()
    for packet in (Diff(Zxid(0)), Proposal([txn(1, 1)]), NewLeader(E1)):
        solo.packet(packet)
    solo.flush()
    assert not solo.of(Append) and solo.packets()[-1] == Ack(E1)
    solo.packet(Commit(make_zxid(1, 1)))
    solo.packet(Proposal([txn(1, 2)]))
    solo.packet(UpToDate())
    assert solo.app.last_applied == make_zxid(1, 1)
    assert solo.packets(solo.flush()) == [Ack(make_zxid(1, 1)), Ack(make_zxid(1, 2))]


def test_leader_counts_its_own_ack_after_its_own_fsync() -> None:
    solo = established_leader()
    solo.packet(request())
    solo.packet(Ack(make_zxid(1, 1)))
    assert solo.app.last_applied == 0
    solo.flush()
    assert solo.app.last_applied == make_zxid(1, 1)
    assert solo.packets()[-2:] == [Proposal(solo.of(Append)[-1].txns), Commit(make_zxid(1, 1))]


# -- SNAP and TRUNC are atomic


def test_interrupted_snap_before_newleader_changes_no_state() -> None:
    """A SNAP that is interrupted before NEWLEADER changes neither the tree nor the disk (ZOOKEEPER-3642)."""
    solo = Solo(log=[txn(1, 1)], epochs=(1, 1))
    solo.follow(epoch=2)
    solo.packet(Snap(make_zxid(1, 9), tree(*(txn(1, i) for i in range(1, 10)))))
    solo.packet(Proposal([txn(2, 1)]))
    solo.do(solo.peer.on_link_down(solo.now, LINK))
    solo.flush()
    assert solo.app.last_applied == solo.peer.last_zxid == make_zxid(1, 1)
    assert not solo.of(SaveSnapshot) and len(solo.disk.log) == 1


def test_follower_replaces_tree_and_log_after_snap_and_commits() -> None:
    """A follower replaces its tree and its log when a SNAP and the commits after it have arrived.

    ZOOKEEPER-3104: the history that the follower acknowledges contains the snapshot and all later transactions.
    """
    solo = Solo(log=[txn(1, 1)], epochs=(1, 1))
    solo.follow(epoch=2)
    for packet in (
        Snap(make_zxid(1, 9), tree(txn(1, 9))),
        Proposal([txn(2, 1)]),
        Commit(make_zxid(2, 1)),
        NewLeader(E2),
    ):
        solo.packet(packet)
    assert [type(e) for e in solo.queued()] == [SaveSnapshot, Append, Barrier]
    assert solo.of(SaveSnapshot)[0].replaces_history
    solo.flush()
    assert solo.packets()[-1] == Ack(E2)
    assert [t.zxid for t in solo.recovered().txns] == [make_zxid(2, 1)]


def test_interrupted_trunc_leaves_memory_and_disk_equal() -> None:
    """After an interrupted TRUNC, the tree and the disk have the same last transaction.

    ZOOKEEPER-5094: proposals after the TRUNC must not be applied in memory only.
    """
    solo = Solo(log=[txn(1, 1), txn(1, 2), txn(1, 3)], epochs=(1, 1))
    solo.follow(epoch=2)
    for packet in (Trunc(make_zxid(1, 1)), Proposal([txn(2, 1)]), Commit(make_zxid(2, 1))):
        solo.packet(packet)
    assert solo.of(TruncateLog) == [TruncateLog(make_zxid(1, 1))]
    solo.flush()
    solo.packet(Proposal([txn(2, 2)]))
    solo.packet(Commit(make_zxid(2, 2)))
    solo.do(solo.peer.on_link_down(solo.now, LINK))
    solo.flush()
    assert solo.app.last_applied == solo.peer.last_zxid == make_zxid(1, 1) == solo.disk.last_durable()
    events = [e.event for e in solo.of(Emit) if isinstance(e.event, TxnLogTruncated)]
    assert events == [TxnLogTruncated(make_zxid(1, 3), make_zxid(1, 1))]


def test_lost_link_during_a_truncation_delays_the_next_vote() -> None:
    solo = Solo(log=[txn(1, 1), txn(1, 2)], epochs=(1, 1))
    solo.follow(epoch=2)
    solo.packet(Trunc(make_zxid(1, 1)))
    solo.do(solo.peer.on_link_down(solo.now, LINK))
    assert solo.peer.round == 1
    solo.flush()
    assert solo.peer.round == 2 and solo.peer.last_zxid == make_zxid(1, 1)


def test_log_that_cannot_be_truncated_requests_a_snapshot() -> None:
    """A peer requests a snapshot if its log cannot be truncated, because its own snapshot is newer than the requested
    zxid.

    A snapshot received from a leader that was never established can contain transactions that later leaders do not
    have.
    """
    solo = Solo(snapshot=tree(txn(1, 8), txn(1, 9)), epochs=(2, 1))
    solo.follow(epoch=3)
    assert solo.packets()[-1] == AckEpoch(make_zxid(1, 9), 1)
    solo.packet(Trunc(make_zxid(1, 8)))
    assert solo.peer.state is PeerState.LOOKING and not solo.of(TruncateLog)
    solo.elect(3)
    solo.do(solo.peer.on_link_up(solo.now, LinkId(9), PeerId(3)))
    solo.packet(LeaderInfo(Epoch(3)), LinkId(9))
    solo.flush()
    assert solo.packets(link=LinkId(9))[-1] == AckEpoch(Zxid(0), -1)
    solo.packet(Snap(make_zxid(1, 8), tree(txn(1, 8))), LinkId(9))
    solo.packet(NewLeader(make_zxid(3, 0)), LinkId(9))
    solo.flush()
    assert solo.peer.last_zxid == make_zxid(1, 8) and solo.packets(link=LinkId(9))[-1] == Ack(make_zxid(3, 0))


def test_empty_leader_can_truncate_all_of_a_learners_log() -> None:
    solo = Solo(snapshot=tree(txn(1, 1)), epochs=(2, 1))
    solo.follow(epoch=3)
    solo.packet(Trunc(Zxid(0)))
    solo.flush()
    solo.packet(NewLeader(make_zxid(3, 0)))
    solo.flush()
    assert solo.peer.last_zxid == 0 and solo.packets()[-1] == Ack(make_zxid(3, 0))


# -- all outstanding proposals follow a synchronisation


def test_learner_gets_all_outstanding_proposals_after_its_sync() -> None:
    solo = established_leader()
    solo.packet(request(1))
    solo.packet(request(2))
    other = LinkId(11)
    solo.do(solo.peer.on_link_accepted(solo.now, other))
    solo.packet(FollowerInfo(Epoch(0), PeerId(2)), other)
    solo.packet(AckEpoch(Zxid(0), 0), other)
    solo.packet(request(3))
    sent = solo.packets(link=other)
    zxids = [t.zxid for p in sent if isinstance(p, Proposal) for t in p.txns]
    assert zxids == [make_zxid(1, 1), make_zxid(1, 2), make_zxid(1, 3)]
    assert [type(p).__name__ for p in sent] == ["LeaderInfo", "Diff", "Proposal", "NewLeader", "Proposal"]


# -- histories have no gaps


@pytest.mark.parametrize("bad", [txn(1, 2), txn(2, 1), txn(1, 0)])
def test_gap_in_the_history_disconnects_a_learner(bad: object) -> None:
    solo = synced_follower()
    solo.packet(Proposal([bad]))  # type: ignore[arg-type]
    assert solo.peer.state is PeerState.LOOKING and not solo.of(Append)
    assert any(isinstance(e.event, PeerProtocolBroken) for e in solo.of(Emit))


def test_commit_out_of_order_disconnects_from_the_leader() -> None:
    solo = synced_follower()
    solo.packet(Proposal([txn(1, 1)]))
    solo.packet(Proposal([txn(1, 2)]))
    solo.packet(Commit(make_zxid(1, 2)))
    assert solo.peer.state is PeerState.LOOKING


def test_peer_with_a_log_hole_or_contradictory_epochs_stops() -> None:
    for solo in (
        Solo(log=[txn(1, 1), txn(1, 3)], epochs=(1, 1)),
        Solo(epochs=(1, 2)),
        Solo(log=[txn(3, 1)], epochs=(2, 2)),
    ):
        solo.start()
        assert [type(e) for e in solo.effects] == [Halt]


def test_crash_between_history_and_epoch_writes_allows_a_start() -> None:
    """A peer that crashed after it stored a new history and before it stored the epoch can start (ZOOKEEPER-1653)."""
    solo = Solo(log=[txn(1, 1), txn(2, 1)], epochs=(2, 1))
    solo.start()
    assert solo.peer.state is PeerState.LOOKING and solo.peer.current_epoch == 1


# -- snapshots contain only committed transactions


def test_new_leader_snapshots_only_committed_transactions() -> None:
    """A new leader writes no snapshot of transactions that are not committed.

    ZOOKEEPER-1549: a transaction is in the log of only one server, which was elected but never established.
    """
    solo = Solo(id=3, log=[txn(1, 1)], epochs=(1, 1), snap_count=2)
    solo.lead()
    solo.packet(AckEpoch(Zxid(0), 0))
    solo.flush()
    assert solo.peer.phase is Phase.SYNCHRONIZATION and not solo.of(SaveSnapshot)


def test_snapshot_interval_is_between_half_and_full_snap_count() -> None:
    world = World(3, snap_count=20)
    world.record = True
    world.start()
    world.run_until(world.settled)
    for _ in range(100):
        world.write(1)
        world.run(10)
    for i in world.nodes:
        taken = [e.snapshot.zxid for _, n, e in world.sent if n == i and isinstance(e, SaveSnapshot)]
        steps = [b - a for a, b in zip([E1, *taken], taken, strict=False)]
        assert 5 <= len(steps) <= 10 and all(10 <= step <= 20 for step in steps)


# -- disk operations have one order: appends, truncations, snapshots and epochs


def test_snapshot_due_during_a_sync_waits_until_the_peer_serves() -> None:
    solo = Solo(log=[txn(1, 1), txn(1, 2)], epochs=(1, 1))
    solo.follow(epoch=2)
    solo.packet(Trunc(make_zxid(1, 1)))
    solo.do(solo.peer.on_snapshot_spoiled(solo.now))
    assert not solo.of(SaveSnapshot), "it would contain the transactions that are truncated"


def test_serving_peer_takes_a_due_snapshot_immediately() -> None:
    solo = synced_follower()
    solo.do(solo.peer.on_snapshot_spoiled(solo.now))
    assert [effect.replaces_history for effect in solo.of(SaveSnapshot)] == [False]


def test_proposals_before_a_disconnect_are_applied_without_ack() -> None:
    """Proposals received before a disconnect are applied, but not acknowledged on the next connection
    (ZOOKEEPER-4712).
    """
    solo = synced_follower()
    solo.packet(Proposal([txn(1, 1)]))
    solo.do(solo.peer.on_link_down(solo.now, LINK))
    solo.elect(3)
    solo.do(solo.peer.on_link_up(solo.now, LinkId(8), PeerId(3)))
    solo.flush()
    assert solo.app.last_applied == make_zxid(1, 1)
    assert [type(p) for p in solo.packets(link=LinkId(8))] == [FollowerInfo]


# -- which learners a leader accepts


def test_follower_ahead_of_leader_is_disconnected_or_truncated() -> None:
    solo = Solo(id=3)
    solo.lead()
    solo.packet(AckEpoch(make_zxid(1, 1), 0))
    assert solo.of(CloseLink) and solo.peer.phase is Phase.DISCOVERY
    late = established_leader()
    other = LinkId(11)
    late.do(late.peer.on_link_accepted(late.now, other))
    late.packet(FollowerInfo(Epoch(0), PeerId(2)), other)
    late.packet(AckEpoch(make_zxid(0, 5), 0), other)
    assert isinstance(late.packets(link=other)[1], Trunc)


def test_leader_resigns_if_no_quorum_can_accept_its_epoch() -> None:
    solo = Solo(id=3)
    solo.lead()
    solo.packet(AckEpoch(Zxid(0), -1))
    assert solo.peer.phase is Phase.DISCOVERY and solo.peer.state is PeerState.LEADING
    other = LinkId(11)
    solo.do(solo.peer.on_link_accepted(solo.now, other))
    solo.packet(FollowerInfo(Epoch(0), PeerId(2)), other)
    solo.packet(AckEpoch(Zxid(0), -1), other)
    assert solo.peer.state is PeerState.LOOKING


def test_learner_with_higher_accepted_epoch_raises_the_new_epoch() -> None:
    solo = established_leader()
    other = LinkId(11)
    solo.do(solo.peer.on_link_accepted(solo.now, other))
    solo.packet(FollowerInfo(Epoch(9), PeerId(2)), other)
    assert solo.peer.state is PeerState.LOOKING
    for voter in (1, 2):
        solo.receive_vote(voter, PeerState.LOOKING, (3, solo.peer.last_zxid, 1), solo.peer.round)
    again = LinkId(12)
    solo.do(solo.peer.on_link_accepted(solo.now, again))
    solo.packet(FollowerInfo(Epoch(1), PeerId(1)), again)
    solo.flush()
    assert solo.packets(link=again) == [LeaderInfo(Epoch(10))]


def test_ack_of_a_proposal_on_an_earlier_link_does_not_count() -> None:
    """Proposals that a learner logged on an earlier connection do not count as acknowledged.

    It may have truncated its log while it synced on the new connection.
    """
    solo = established_leader(voters=(1, 2, 3))
    other = LinkId(11)
    solo.do(solo.peer.on_link_accepted(solo.now, other))
    solo.packet(FollowerInfo(Epoch(0), PeerId(2)), other)
    solo.packet(AckEpoch(Zxid(0), 0), other)
    solo.packet(Ack(E1), other)
    solo.packet(request())
    solo.packet(Ack(make_zxid(1, 1)))
    solo.do(solo.peer.on_link_down(solo.now, LINK))
    solo.flush()
    assert solo.peer.status().outstanding == 1 and solo.app.last_applied == 0
    solo.packet(Ack(make_zxid(1, 1)), other)
    assert solo.app.last_applied == make_zxid(1, 1)


@pytest.mark.parametrize(
    "packet",
    [NewLeader(E1), Ack(make_zxid(1, 7)), UpToDate(), FollowerInfo(Epoch(0), PeerId(1)), Ping(Zxid(0))],
)
def test_only_the_learner_that_breaks_the_protocol_is_closed(packet: object) -> None:
    solo = established_leader()
    solo.packet(packet)  # type: ignore[arg-type]
    assert [e.link for e in solo.of(CloseLink)] == [LINK]
    assert any(isinstance(e.event, PeerProtocolBroken) for e in solo.of(Emit))


def test_learner_with_leaders_id_or_newer_membership_is_rejected() -> None:
    solo = Solo(id=3)
    solo.lead()
    infos = (
        FollowerInfo(Epoch(0), PeerId(3)),
        FollowerInfo(Epoch(0), PeerId(2), config_version=1),
    )
    for number, info in enumerate(infos):
        link = LinkId(20 + number)
        solo.do(solo.peer.on_link_accepted(solo.now, link))
        solo.packet(info, link)
        assert solo.of(CloseLink)[-1].link == link


def test_transaction_counter_never_overflows_into_the_epoch() -> None:
    """A leader resigns before its transaction counter would overflow into the epoch (ZOOKEEPER-1277)."""
    solo = established_leader()
    role = solo.peer._core.role
    assert isinstance(role, Leader)
    role._broadcast._last_proposed = make_zxid(1, COUNTER_MAX - 1)
    solo.packet(request())
    assert solo.peer.state is PeerState.LOOKING and not solo.of(Append)


def test_application_is_notified_when_a_client_disconnects() -> None:
    solo = established_leader()
    solo.do(solo.peer.on_client_closed(solo.now, ConnectionId(5)))
    assert solo.app.closed == [5]


def test_second_uptodate_is_rejected_by_a_serving_follower() -> None:
    solo = synced_follower()
    effects = solo.packet(UpToDate())
    assert solo.peer.state is PeerState.LOOKING
    assert any(isinstance(getattr(e, "event", None), PeerProtocolBroken) for e in effects)
