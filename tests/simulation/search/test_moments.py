"""Actions of the search that bring a run into one specific situation.

The situation occurs even with few other actions, and no invariant is violated.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from zabka.simulation.faults.actions import SearchAction, Stage
from zabka.simulation.faults.broker_actions import commit_alone, lose_leader
from zabka.simulation.faults.node_actions import MENDING, rest
from zabka.simulation.run import SCENARIOS
from zabka.simulation.seeds import swarm
from zabka.simulation.seeds.seed_run import SeedRun
from zabka.simulation.settings import world_settings


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., SeedRun]:
    """Return a function that runs a seed with these actions.

    Each of them is chosen twice as often as an action that heals a fault.
    """

    def played(seed: int, *allowed: SearchAction) -> SeedRun:
        def actions(run: SeedRun, stage: Stage) -> list[SearchAction]:
            return [rest, *MENDING, *(action for action in allowed for _ in range(2))]

        monkeypatch.setattr(swarm, "_actions", actions)
        run = SeedRun(seed, SCENARIOS["swarm"], world_settings(()))
        run.execute()
        return run

    return played


SEED = 115
"""First seed in which the two actions follow each other.

In this seed, the topic requires more than one in-sync replica.
"""


def test_high_watermark_known_only_to_a_dead_leader_is_lost(play: Callable[..., SeedRun]) -> None:
    run = play(SEED, commit_alone, lose_leader)
    assert run.problems() == []
    assert run.stage is not None
    performed = " ".join(performed.text for performed in run.stage.performed)
    assert "is not heard from then on" in performed and "which leads now" in performed
