"""The four leader selection strategies (PartitionLeaderElectionAlgorithmsTest)."""

from __future__ import annotations

import pytest

from zabka.controller.election import (
    is_unclean,
    leader_for_controlled_shutdown,
    leader_for_offline,
    leader_for_preferred,
    leader_for_reassignment,
)
from zabka.kafka.zk.znodes import LeaderAndIsr


def state(leader: int, *isr: int, recovering: bool = False) -> LeaderAndIsr:
    return LeaderAndIsr(leader, 7, isr, 3, 11, recovering)


def test_offline_election_picks_the_first_live_isr_member() -> None:
    chosen = leader_for_offline(state(9, 4, 2), [2, 4], {4}, unclean=False)
    assert chosen == LeaderAndIsr(4, 8, (4,), 3, 11, eligible=(2,))
    assert leader_for_offline(state(9, 4, 2), [2, 4], {2, 4}, unclean=False) == LeaderAndIsr(2, 8, (4, 2), 3, 11)


@pytest.mark.scenario(35)
def test_clean_offline_election_without_live_isr_member_fails() -> None:
    assert leader_for_offline(state(2, 2), [2, 4], {4}, unclean=False) is None
    chosen = leader_for_offline(state(2, 2), [2, 4, 5], {4, 5}, unclean=True)
    assert chosen == LeaderAndIsr(4, 8, (4,), 3, 11, recovering=True)
    assert leader_for_offline(state(2, 2), [2, 4], set(), unclean=True) is None


def test_offline_election_of_an_eligible_replica_is_clean() -> None:
    before = state(-1, 2)._replace(eligible=(4, 5))
    chosen = leader_for_offline(before, [2, 5, 4], {4, 5}, unclean=True)
    assert chosen == LeaderAndIsr(5, 8, (5,), 3, 11, eligible=(4, 2))
    assert not is_unclean(before, chosen)
    assert leader_for_offline(before, [2, 5, 4], {2, 4, 5}, unclean=False).leader == 2  # type: ignore[union-attr]


def test_unclean_election_prefers_an_incomplete_isr_member() -> None:
    before = state(-1, 2)._replace(doubtful=(2,))
    assert leader_for_offline(before, [4, 2], {2, 4}, unclean=False) is None
    chosen = leader_for_offline(before, [4, 2], {2, 4}, unclean=True)
    assert chosen == LeaderAndIsr(2, 8, (2,), 3, 11, recovering=True)


def test_unclean_election_clears_the_eligible_replicas() -> None:
    before = state(-1, 2)._replace(eligible=(4,), eligible_by_zxid=3)
    chosen = leader_for_offline(before, [2, 5, 4], {5}, unclean=True)
    assert chosen == LeaderAndIsr(5, 8, (5,), 3, 11, recovering=True)
    assert is_unclean(before, chosen)


def test_offline_election_prefers_a_clean_leader() -> None:
    assert leader_for_offline(state(9, 4), [2, 4], {2, 4}, unclean=True) == LeaderAndIsr(4, 8, (4,), 3, 11)


def test_clean_election_does_not_change_the_recovery_state() -> None:
    chosen = leader_for_offline(state(9, 4, recovering=True), [4], {4}, unclean=False)
    assert chosen is not None and chosen.recovering


def test_reassignment_election_picks_first_live_in_sync_target() -> None:
    assert leader_for_reassignment(state(2, 2, 4), [2, 4], {4}) == LeaderAndIsr(4, 8, (2, 4), 3, 11)
    assert leader_for_reassignment(state(2, 2), [2, 4], {4}) is None
    assert leader_for_reassignment(state(2), [2, 4], {2}) is None


def test_preferred_election_picks_only_the_first_replica() -> None:
    assert leader_for_preferred(state(4, 2, 4), [2, 4], {2, 4}) == LeaderAndIsr(2, 8, (2, 4), 3, 11)
    assert leader_for_preferred(state(4, 2, 4), [2, 4], {4}) is None
    assert leader_for_preferred(state(4, 4), [2, 4], {2, 4}) is None
    assert leader_for_preferred(state(4, 4), [2, 4], set()) is None
    assert leader_for_preferred(state(4, 4), [], {4}) is None


@pytest.mark.scenario(38)
def test_controlled_shutdown_election_avoids_stopping_brokers() -> None:
    chosen = leader_for_controlled_shutdown(state(2, 2, 4), [2, 4], {2, 4}, {2})
    assert chosen == LeaderAndIsr(4, 8, (4,), 3, 11, eligible=(2,))
    assert leader_for_controlled_shutdown(state(2, 2), [2, 4], {2, 4}, {2}) is None
    assert leader_for_controlled_shutdown(state(2, 2, 4), [2, 4], {2, 4}, {2, 4}) is None
