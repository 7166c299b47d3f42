"""Membership changes of the ensemble under faults, in a whole simulated cluster.

Injected bugs are tested in tests/ensemble/zab/test_reconfig.py: the bare protocol runs a hundred times as many seeds.
"""

from __future__ import annotations

import pytest

from zabka.journal.events import MembershipActivated, PeerStateChanged
from zabka.simulation.seeds.reconfiguring import RECONFIGURING
from zabka.simulation.seeds.seed_run import SeedRun


@pytest.mark.parametrize("seed", [5, 6, 9])
def test_reconfiguring_seed_keeps_every_invariant_under_faults(seed: int) -> None:
    run = SeedRun(seed, RECONFIGURING)
    outcome = run.execute()
    assert outcome.problems == []
    versions = {e.event.version for e in run.world.record.entries if isinstance(e.event, MembershipActivated)}
    assert len(versions) > 2


def test_same_seed_changes_the_members_in_the_same_way() -> None:
    one, other = SeedRun(9, RECONFIGURING), SeedRun(9, RECONFIGURING)
    assert one.execute().steps == other.execute().steps
    assert [entry.to_dict() for entry in one.world.record.entries] == [
        entry.to_dict() for entry in other.world.record.entries
    ]


def test_leader_without_quorum_names_the_observer_that_left() -> None:
    # A membership that was proposed before the election makes peer 1 a voter. The epoch depends on its acknowledgement
    # as an observer. It leaves as soon as the membership is active, to return as a voter.
    run = SeedRun(491, RECONFIGURING)
    assert run.execute().problems == []
    ends = [
        (entry.node, entry.event.caused_by)
        for entry in run.world.record.entries
        if isinstance(entry.event, PeerStateChanged)
        and entry.event.state == "LOOKING"
        and entry.event.caused_by == "link peer-1"
    ]
    assert ("peer-3", "link peer-1") in ends
