"""The ensemble's members change under faults, in a whole simulated cluster.

(Planted bugs are in tests/ensemble/zab/test_reconfig.py: the bare protocol runs a hundred times as many seeds.)
"""

from __future__ import annotations

import pytest

from journal.events import MembershipActivated
from simulation.seeds.reconfiguring import RECONFIGURING
from simulation.seeds.seed_run import SeedRun


@pytest.mark.parametrize("seed", [5, 6, 9])
def test_an_ensemble_whose_members_change_under_faults_holds_every_invariant(seed: int) -> None:
    run = SeedRun(seed, RECONFIGURING)
    outcome = run.execute()
    assert outcome.problems == []
    versions = {e.event.version for e in run.world.record.entries if isinstance(e.event, MembershipActivated)}
    assert len(versions) > 2


def test_the_same_seed_changes_the_members_in_the_same_way() -> None:
    one, other = SeedRun(9, RECONFIGURING), SeedRun(9, RECONFIGURING)
    assert one.execute().steps == other.execute().steps
    assert [entry.to_dict() for entry in one.world.record.entries] == [
        entry.to_dict() for entry in other.world.record.entries
    ]
