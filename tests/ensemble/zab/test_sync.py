"""The leader's choice between DIFF, TRUNC and SNAP for a learner, by case (LearnerHandler.syncFollower)."""

from __future__ import annotations

import pytest

from tests.ensemble.zab.zab_solo import LINK, Solo, tree, txn
from zabka.ensemble.ids import Zxid, make_zxid
from zabka.ensemble.zab.effects import ReadLog
from zabka.ensemble.zab.messages import AckEpoch, Diff, NewLeader, Packet, Proposal, Snap
from zabka.ensemble.zab.sync import follows, plan_sync

LOG = [txn(1, 3), txn(1, 4), txn(1, 5), txn(3, 1), txn(3, 2)]


@pytest.mark.parametrize(
    ("learner", "mode", "zxid", "sent"),
    [
        pytest.param((3, 2), "DIFF", (3, 2), [], id="equal histories"),
        pytest.param((3, 3), "TRUNC", (3, 2), [], id="learner ahead in this epoch"),
        pytest.param((4, 1), "TRUNC", (3, 2), [], id="learner ahead in a later epoch"),
        pytest.param((4, 0), "SNAP", (3, 2), [], id="a new epoch's zxid ahead of the leader is never cut back"),
        pytest.param((1, 4), "DIFF", (3, 2), [(1, 5), (3, 1), (3, 2)], id="learner behind"),
        pytest.param((1, 3), "DIFF", (3, 2), [(1, 4), (1, 5), (3, 1), (3, 2)], id="at the oldest kept"),
        pytest.param((3, 1), "DIFF", (3, 2), [(3, 2)], id="one behind"),
        pytest.param((3, 0), "DIFF", (3, 2), [(3, 1), (3, 2)], id="at an epoch's beginning"),
        pytest.param((2, 0), "DIFF", (3, 2), [(3, 1), (3, 2)], id="at an epoch's beginning that had no txn"),
        pytest.param((1, 6), "SNAP", (3, 2), [], id="extra txn of an old epoch: TRUNC may not cross epochs"),
        pytest.param((2, 1), "SNAP", (3, 2), [], id="extra txn of an epoch unknown here"),
        pytest.param((1, 2), "SNAP", (3, 2), [], id="older than the oldest kept"),
        pytest.param((0, 0), "SNAP", (3, 2), [], id="an empty learner"),
    ],
)
def test_leader_chooses_diff_trunc_or_snap_by_last_zxid(
    learner: tuple[int, int], mode: str, zxid: tuple[int, int], sent: list[tuple[int, int]]
) -> None:
    plan = plan_sync(make_zxid(*learner), LOG[-1].zxid, LOG)
    assert (plan.mode, plan.zxid) == (mode, make_zxid(*zxid))
    assert [t.zxid for t in plan.txns] == [make_zxid(*z) for z in sent]


def test_learner_truncates_transaction_that_its_leader_lacks() -> None:
    log = [txn(1, 3), txn(1, 5)]  # Our leaders create no such gap; ZooKeeper's can.
    plan = plan_sync(make_zxid(1, 4), log[-1].zxid, log)
    assert (plan.mode, plan.zxid, [t.zxid for t in plan.txns]) == ("TRUNC", log[0].zxid, [log[1].zxid])


def test_learner_sync_without_a_committed_log_depends_on_zxids() -> None:
    tree_zxid = make_zxid(2, 9)
    assert plan_sync(tree_zxid, tree_zxid, []).mode == "DIFF"
    assert plan_sync(make_zxid(2, 8), tree_zxid, []).mode == "SNAP"
    assert plan_sync(make_zxid(2, 10), tree_zxid, []) == plan_sync(make_zxid(2, 11), tree_zxid, [])
    assert plan_sync(make_zxid(2, 10), tree_zxid, []).mode == "TRUNC"


def test_next_zxid_has_the_next_counter_or_a_later_epoch() -> None:
    assert follows(0, make_zxid(1, 1)) and follows(make_zxid(1, 1), make_zxid(1, 2))
    assert follows(make_zxid(1, 7), make_zxid(4, 1)) and follows(make_zxid(4, 0), make_zxid(4, 1))
    for gap in (make_zxid(1, 7), make_zxid(1, 9), make_zxid(2, 2), make_zxid(1, 1), Zxid(0)):
        assert not follows(make_zxid(1, 7), gap)


def leader_of_a_learner_at_its_snapshot() -> Solo:
    """Return a leader that reads its log for a learner whose last zxid is 1.1.

    The leader, server 3, has a snapshot at 1.1, and 1.2, 1.3 and 2.1 in its log.
    """
    solo = Solo(id=3, snapshot=tree(txn(1, 1)), log=[txn(1, 2), txn(1, 3), txn(2, 1)], epochs=(2, 2))
    solo.lead(follower=1, epoch=2)
    solo.packet(AckEpoch(make_zxid(1, 1), 1))
    solo.flush()
    assert solo.of(ReadLog)
    return solo


def sent_after_reading(solo: Solo, *read: tuple[int, int]) -> list[Packet]:
    txns = [txn(*each) for each in read] or None
    return solo.packets(solo.do(solo.peer.on_log_read(solo.now, LINK, make_zxid(1, 1), txns)))


def test_log_read_request_has_the_first_zxid_after_each_epoch() -> None:
    request = leader_of_a_learner_at_its_snapshot().of(ReadLog)[0]
    assert request.borders == {make_zxid(1, 3): make_zxid(2, 1)}


def test_learner_gets_snapshot_if_the_log_lacks_an_epoch_end() -> None:
    first, *rest = sent_after_reading(leader_of_a_learner_at_its_snapshot(), (2, 1))
    assert isinstance(first, Snap) and first.zxid == make_zxid(2, 1)
    assert [type(packet) for packet in rest] == [NewLeader]


def test_log_without_a_gap_gives_a_diff_across_epochs() -> None:
    solo = leader_of_a_learner_at_its_snapshot()
    assert solo.peer.rare_syncs == (0, 0)
    first, *rest = sent_after_reading(solo, (1, 2), (1, 3), (2, 1))
    assert isinstance(first, Diff) and solo.peer.rare_syncs == (1, 0)
    proposed = [each.zxid for packet in rest if isinstance(packet, Proposal) for each in packet.txns]
    assert proposed == [make_zxid(1, 2), make_zxid(1, 3), make_zxid(2, 1)]
