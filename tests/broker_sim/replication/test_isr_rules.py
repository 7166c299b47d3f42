"""Rules of the ISR as pure functions, with cases from Kafka's IsrExpirationTest, PartitionTest and the KIPs."""

from __future__ import annotations

import pytest

from zabka.broker_sim.replication.follower_state import FollowerState
from zabka.broker_sim.replication.isr_rules import IsrRules, begin_leader_epoch, note_fetch, note_still_level
from zabka.controller.historical import Historical

LAG = 100
RULES = IsrRules(LAG)


def with_old(rule: Historical) -> IsrRules:
    return IsrRules(LAG, frozenset((rule,)))


def all_alive(broker_id: int) -> bool:
    return True


def none_alive(broker_id: int) -> bool:
    return False


def follower(fetch_offset: int, leader_end: int, now_ms: int) -> FollowerState:
    state = FollowerState(2)
    note_fetch(state, fetch_offset, leader_end, now_ms)
    return state


# ---- IsrExpirationTest --------------------------------------------------------------------------------------------


@pytest.mark.scenario(52)
def test_isr_expiration_for_stuck_followers() -> None:
    state = FollowerState(2)
    note_fetch(state, 10, 10, 0)
    note_fetch(state, 14, 15, 0)
    assert RULES.is_caught_up(state, 15, 100)
    assert not RULES.is_caught_up(state, 15, 150)


@pytest.mark.scenario(53)
def test_isr_expiration_if_no_fetch_request_made() -> None:
    state = FollowerState(2)
    begin_leader_epoch(state, 0, 15, newly_leader=True, in_sync=True)
    assert RULES.is_caught_up(state, 15, 100)
    assert not RULES.is_caught_up(state, 15, 150)


@pytest.mark.scenario(53)
def test_isr_expiration_for_slow_followers() -> None:
    state = follower(15, 15, 0)
    note_fetch(state, 16, 20, 75)
    assert RULES.is_caught_up(state, 20, 75), "it has what the leader had at the previous fetch"
    note_fetch(state, 18, 20, 150)
    assert not RULES.is_caught_up(state, 20, 150)
    note_fetch(state, 20, 20, 150)
    assert RULES.is_caught_up(state, 20, 150)


@pytest.mark.scenario(54)
def test_isr_expiration_for_caught_up_followers() -> None:
    assert RULES.is_caught_up(follower(15, 15, 0), 15, 1_000_000), "an idle follower that has everything never lags"


def test_follower_outside_isr_is_not_caught_up_in_a_new_epoch() -> None:
    state = follower(10, 10, 50)
    begin_leader_epoch(state, 60, 12, newly_leader=False, in_sync=False)
    assert not RULES.is_caught_up(state, 12, 60)
    assert state.end_offset == 10, "a leader that stays keeps its state of followers"
    begin_leader_epoch(state, 60, 12, newly_leader=True, in_sync=True)
    assert state.end_offset == -1


@pytest.mark.parametrize(
    ("newly_leader", "in_sync", "caught_up_ms", "fetch_ms", "end", "leader_end"),
    [
        (True, True, 60, FollowerState.NEVER, -1, 0),
        (True, False, FollowerState.NEVER, FollowerState.NEVER, -1, 0),
        (False, True, 60, 60, 10, 12),
        (False, False, FollowerState.NEVER, FollowerState.NEVER, 10, 0),
    ],
)
def test_new_leader_epoch_resets_the_follower_states(
    newly_leader: bool, in_sync: bool, caught_up_ms: int, fetch_ms: int, end: int, leader_end: int
) -> None:
    """A new leader epoch resets the leader's state about its followers, as in Replica.resetReplicaState.

    Kafka uses the time 0 where this code uses NEVER.
    """
    state = follower(10, 11, 50)
    begin_leader_epoch(state, 60, 12, newly_leader=newly_leader, in_sync=in_sync)
    assert (state.last_caught_up_ms, state.last_fetch_ms) == (caught_up_ms, fetch_ms)
    assert (state.end_offset, state.last_fetch_leader_end_offset) == (end, leader_end)


@pytest.mark.parametrize(
    ("asked", "leader_end", "caught_up_ms"),
    [
        pytest.param(20, 20, 70, id="level now"),
        pytest.param(21, 20, 70, id="beyond: the leader's end is older than its question"),
        pytest.param(15, 20, 50, id="it has what the leader had at the previous fetch"),
        pytest.param(14, 20, FollowerState.NEVER, id="it lacks some of that"),
    ],
)
def test_fetch_updates_the_followers_last_caught_up_time(asked: int, leader_end: int, caught_up_ms: int) -> None:
    """A fetch updates the follower's last caught-up time, as in Replica.updateFetchStateOrThrow.

    The previous fetch was at 50 ms, when the leader's log ended at 15.
    """
    state = follower(3, 15, 50)
    note_fetch(state, asked, leader_end, 70)
    assert state.last_caught_up_ms == caught_up_ms
    assert (state.end_offset, state.last_fetch_ms, state.last_fetch_leader_end_offset) == (asked, 70, leader_end)


def test_delayed_older_fetch_does_not_reduce_caught_up_time() -> None:
    state = follower(15, 15, 50)
    note_fetch(state, 15, 12, 40)
    assert (state.last_caught_up_ms, state.last_fetch_leader_end_offset) == (50, 15)


def test_follower_that_repeats_its_fetch_remains_caught_up() -> None:
    state = follower(10, 10, 0)
    note_still_level(state, 500)
    assert RULES.is_caught_up(state, 11, 600)
    assert not RULES.is_caught_up(state, 11, 601)


# ---- joining the ISR ----------------------------------------------------------------------------------------------


def test_follower_joins_isr_once_it_has_all_committed_records() -> None:
    assert not RULES.may_join(follower(9, 20, 0), high_watermark=10, epoch_start=0, is_alive=all_alive)
    assert RULES.may_join(follower(10, 20, 0), high_watermark=10, epoch_start=0, is_alive=all_alive)


def test_follower_joins_isr_only_after_the_epoch_start_offset() -> None:
    state = follower(10, 20, 0)
    assert not RULES.may_join(state, high_watermark=10, epoch_start=11, is_alive=all_alive)
    assert with_old(Historical.NO_EPOCH_START_CHECK).may_join(state, 10, 11, all_alive)


def test_dead_follower_does_not_join_isr() -> None:
    assert not RULES.may_join(follower(20, 20, 0), high_watermark=10, epoch_start=0, is_alive=none_alive)


# ---- leaving the ISR ----------------------------------------------------------------------------------------------


def test_lagging_followers_leave_the_isr_and_the_leader_stays() -> None:
    followers = {2: follower(20, 20, 0), 3: FollowerState(3)}
    assert RULES.lagging((1, 2, 3), 1, followers, 20, 1_000) == (3,)
    assert RULES.lagging((1, 2, 3), 1, followers, 21, 1_000) == (2, 3)


def test_isr_member_that_is_no_longer_assigned_leaves_the_isr() -> None:
    assert RULES.lagging((1, 2, 4), 1, {2: follower(20, 20, 0)}, 20, 0) == (4,)


# ---- the high watermark -------------------------------------------------------------------------------------------


def test_high_watermark_advance_needs_min_insync_replicas() -> None:
    assert RULES.may_commit(2, 2)
    assert not RULES.may_commit(1, 2)
    assert with_old(Historical.HIGH_WATERMARK_UNDER_MIN_ISR).may_commit(1, 2)


def test_high_watermark_waits_for_isr_members_regardless_of_lag() -> None:
    followers = {2: follower(5, 20, 0)}
    assert RULES.commit_offset(followers, (1, 2), 20, 1_000_000, none_alive) == 5
    assert RULES.commit_offset(followers, (1,), 20, 1_000_000, all_alive) == 20


def test_high_watermark_waits_for_live_followers_that_can_join() -> None:
    followers = {2: follower(20, 20, 0)}
    assert RULES.commit_offset(followers, (1,), 25, LAG, all_alive) == 20
    assert RULES.commit_offset(followers, (1,), 25, LAG, none_alive) == 25
    assert RULES.commit_offset(followers, (1,), 25, LAG + 1, all_alive) == 25


@pytest.mark.parametrize(("rules", "epoch"), [(RULES, 7), (with_old(Historical.NO_MEMBER_EPOCHS), -1)])
def test_isr_proposal_has_the_broker_epoch_of_the_last_fetch(rules: IsrRules, epoch: int) -> None:
    state = FollowerState(2)
    state.broker_epoch = 7
    assert rules.member_epoch(state) == epoch
    assert rules.member_epoch(None) == -1
