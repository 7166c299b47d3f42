"""Membership changes of the ensemble with faults, in a whole simulated cluster.

Injected bugs are tested in tests/ensemble/zab/test_reconfig.py, because the bare protocol runs a hundred times as
many seeds.
"""

from __future__ import annotations

import pytest

from zabka.journal.events import MembershipActivated
from zabka.simulation.seeds.reconfiguring import RECONFIGURING
from zabka.simulation.seeds.seed_run import SeedRun


@pytest.mark.parametrize("seed", [5, 6, 9])
def test_reconfiguring_seed_keeps_every_invariant_under_faults(seed: int) -> None:
    run = SeedRun(seed, RECONFIGURING)
    outcome = run.execute()
    assert outcome.problems == []
    versions = {e.event.version for e in run.world.record.entries if isinstance(e.event, MembershipActivated)}
    assert len(versions) > 2


def test_seed_makes_the_same_membership_changes_each_time() -> None:
    one, other = SeedRun(9, RECONFIGURING), SeedRun(9, RECONFIGURING)
    assert one.execute().steps == other.execute().steps
    assert [entry.to_dict() for entry in one.world.record.entries] == [
        entry.to_dict() for entry in other.world.record.entries
    ]
