"""The leader's choice between DIFF, TRUNC and SNAP, case by case (LearnerHandler.syncFollower)."""

from __future__ import annotations

import pytest

from ensemble.ids import Zxid, make_zxid
from ensemble.zab.sync import follows, plan_sync
from tests.ensemble.zab.zab_solo import txn

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
def test_the_leader_chooses_diff_trunc_or_snap_by_the_learners_last_zxid(
    learner: tuple[int, int], mode: str, zxid: tuple[int, int], sent: list[tuple[int, int]]
) -> None:
    plan = plan_sync(make_zxid(*learner), LOG[-1].zxid, LOG)
    assert (plan.mode, plan.zxid) == (mode, make_zxid(*zxid))
    assert [t.zxid for t in plan.txns] == [make_zxid(*z) for z in sent]


def test_an_extra_transaction_in_the_same_epoch_is_truncated_and_the_rest_follows() -> None:
    log = [txn(1, 3), txn(1, 5)]  # A gap no leader of ours makes; ZooKeeper's may.
    plan = plan_sync(make_zxid(1, 4), log[-1].zxid, log)
    assert (plan.mode, plan.zxid, [t.zxid for t in plan.txns]) == ("TRUNC", log[0].zxid, [log[1].zxid])


def test_without_a_committed_log_the_tree_is_all_a_leader_can_offer() -> None:
    tree_zxid = make_zxid(2, 9)
    assert plan_sync(tree_zxid, tree_zxid, []).mode == "DIFF"
    assert plan_sync(make_zxid(2, 8), tree_zxid, []).mode == "SNAP"
    assert plan_sync(make_zxid(2, 10), tree_zxid, []) == plan_sync(make_zxid(2, 11), tree_zxid, [])
    assert plan_sync(make_zxid(2, 10), tree_zxid, []).mode == "TRUNC"


def test_the_next_zxid_has_the_next_counter_or_begins_a_higher_epoch() -> None:
    assert follows(0, make_zxid(1, 1)) and follows(make_zxid(1, 1), make_zxid(1, 2))
    assert follows(make_zxid(1, 7), make_zxid(4, 1)) and follows(make_zxid(4, 0), make_zxid(4, 1))
    for gap in (make_zxid(1, 7), make_zxid(1, 9), make_zxid(2, 2), make_zxid(1, 1), Zxid(0)):
        assert not follows(make_zxid(1, 7), gap)
