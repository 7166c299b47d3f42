"""The searches over the bare protocol: they find nothing, they find what is planted, and what they find plays again."""

from __future__ import annotations

from pathlib import Path

import planted_ensemble
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from zab_machine import ZabMachine

from simulation import explore_cli
from simulation.cloning import clone, fingerprint
from simulation.cores import Cores
from simulation.explore import Bounds, explore
from simulation.scenarios.core_player import recover
from simulation.scenarios.core_steps import Crash, Elect, Run, Start, Write
from simulation.scenarios.library import play
from simulation.scenarios.scenario import read_scenario

QUICK = settings(
    max_examples=12, stateful_step_count=60, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


SHRINKING = (Phase.generate, Phase.shrink)


def led_by_3() -> Cores:
    cores = Cores()
    for step in (Start(), Elect((1, 2, 3)), Run()):
        step.play(cores)
    return cores


# -- forks


def test_a_fork_goes_its_own_way() -> None:
    cores = led_by_3()
    before = cores.digest()
    twin = cores.fork()
    for step in (Write(3), Run(), Crash((3,))):
        step.play(twin)
    assert twin.digest() != before
    assert cores.digest() == before
    assert recover(cores) == recover(twin) == []


def test_the_same_steps_lead_to_the_same_state() -> None:
    one, other = led_by_3(), led_by_3()
    for cores in (one, other):
        Write(3).play(cores)
        Run().play(cores)
    assert one.digest() == other.digest()


def test_what_waits_for_a_barrier_is_cloned_with_what_it_waits_in() -> None:
    cores = led_by_3()
    Crash((1,)).play(cores)
    Run().play(cores)
    Start((1,)).play(cores)
    Elect((1, 2, 3)).play(cores)
    for _ in range(20):
        twin = cores.fork()
        assert recover(twin) == []
        moved = [step for step in (1, 2, 3) if cores.nodes[step].queue]
        if not moved:
            break
        cores.sync_disk(moved[0])


def test_clones_and_fingerprints_follow_functions_and_cycles() -> None:
    box: dict[str, list[int]] = {"list": [1]}

    def grow() -> None:
        box["list"].append(2)

    twin = clone(grow)
    twin()
    assert box == {"list": [1]}
    assert fingerprint(grow) != fingerprint(twin)
    grow()
    assert fingerprint(grow) == fingerprint(twin)


# -- exhaustive


def test_nothing_is_found_in_a_small_scope() -> None:
    found = explore(Bounds(writes=2, crashes=1, states_max=400))
    assert found.found == []
    assert found.states == 400 and found.recovered > 10


def test_a_scope_that_is_small_enough_is_exhausted() -> None:
    found = explore(Bounds(peers=1, writes=2, crashes=2))
    assert found.exhausted and found.found == []
    assert found.states > 20


@pytest.mark.parametrize(
    "bug",
    [
        "a promise before it is durable",
        "NEWLEADER acknowledged before the epoch",
        "leader counts itself before its fsync",
    ],
)
def test_a_planted_bug_is_found_and_saved(bug: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "found.json"
    with planted_ensemble.PLANTED[bug]():
        assert explore_cli.explore(3, 2, 1, 2_000, saved) == 1
        assert not play(read_scenario(saved)).held
    assert "VIOLATED" in capsys.readouterr().out
    assert play(read_scenario(saved)).held


# -- the state machine


def test_the_state_machine_finds_nothing() -> None:
    run_state_machine_as_test(ZabMachine, settings=QUICK)  # type: ignore[no-untyped-call]


def test_the_state_machine_shrinks_what_it_finds_to_a_scenario(tmp_path: Path) -> None:
    class Saving(ZabMachine):
        save_to = tmp_path / "failure.json"

    with planted_ensemble.PLANTED["a promise before it is durable"](), pytest.raises(AssertionError):
        run_state_machine_as_test(Saving, settings=settings(QUICK, stateful_step_count=8, phases=SHRINKING))  # type: ignore[no-untyped-call]
    shrunk = read_scenario(Saving.save_to)
    assert len(shrunk.steps) <= 4
    with planted_ensemble.PLANTED["a promise before it is durable"]():
        assert not play(shrunk).held
    assert play(shrunk).held
