"""Seeds of the simulated world: they violate no invariant, are reproducible, and detect injected bugs.

A seed that runs again produces the same bytes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from tests.simulation import injected_table
from zabka.simulation.run import run_seed
from zabka.simulation.seeds.chaos import CALM, CHAOS
from zabka.simulation.seeds.seed_run import SeedRun
from zabka.simulation.settings import WorldSettings

SEEDS, SEEDS_IN_THE_SUITE = 36, 3
SEEDS_OF_THE_ENSEMBLE, SEEDS_OF_THE_ENSEMBLE_IN_THE_SUITE = 20, 3
SEEDS_OF_DISKS, SEEDS_OF_DISKS_IN_THE_SUITE = 40, 3
SEEDS_TO_FIND_A_BUG = 200


def seeds(count: int, in_the_suite: int) -> list[object]:
    """Return the seeds as test parameters. Only the first `in_the_suite` of them run outside long runs."""
    return [pytest.param(seed, marks=[pytest.mark.long] if seed >= in_the_suite else []) for seed in range(count)]


def fingerprint(run: SeedRun) -> str:
    digest = sha256()
    for line in run.world.record.lines():
        digest.update(line)
    return digest.hexdigest()


@pytest.mark.parametrize("seed", seeds(SEEDS, SEEDS_IN_THE_SUITE))
def test_chaos_seed_keeps_invariants_and_the_cluster_recovers(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.problems == []
    assert outcome.acknowledged_writes > 0
    assert outcome.acknowledged_records > 0


@pytest.mark.parametrize("size", [1, 3, 5])
def test_cluster_without_faults_loses_nothing_and_elects_once(size: int) -> None:
    run = SeedRun(11, CALM, WorldSettings(peers=size, brokers=size))
    outcome = run.execute()
    assert outcome.problems == []
    assert [term.controller_epoch for term in run.world.record.state.controller_terms] == [1]
    assert outcome.acknowledged_records == run.producing.sent if run.producing else False


def test_same_seed_gives_the_same_history_in_one_process() -> None:
    first, second = SeedRun(3, CHAOS), SeedRun(3, CHAOS)
    assert first.execute().problems == second.execute().problems == []
    assert fingerprint(first) == fingerprint(second)


@pytest.mark.long
def test_different_seed_has_a_different_history() -> None:
    first, second = SeedRun(3, CHAOS), SeedRun(4, CHAOS)
    first.execute(), second.execute()
    assert fingerprint(first) != fingerprint(second)


def test_replay_writes_the_same_bytes_for_any_python_hash_seed(tmp_path: Path) -> None:
    written = []
    for hash_seed in ("0", "4242"):
        out = tmp_path / f"{hash_seed}.jsonl"
        done = subprocess.run(
            [Path(sys.executable).with_name("zabka"), "replay", "--seed", "5", "--out", out],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        written.append(out.read_bytes())
    assert written[0] == written[1]
    assert written[0].count(b"\n") > 1_000


@pytest.mark.parametrize("seed", seeds(SEEDS_OF_THE_ENSEMBLE, SEEDS_OF_THE_ENSEMBLE_IN_THE_SUITE))
def test_ensemble_seed_keeps_every_invariant(seed: int) -> None:
    outcome = run_seed(seed, "ensemble")
    assert outcome.problems == []
    assert outcome.acknowledged_writes > 0


@pytest.mark.parametrize("seed", seeds(SEEDS_OF_DISKS, SEEDS_OF_DISKS_IN_THE_SUITE))
def test_seed_with_failing_disks_keeps_every_invariant(seed: int) -> None:
    assert run_seed(seed, "disks").problems == []


@pytest.mark.parametrize(
    ("scenario", "bug", "injected_bug"),
    [
        pytest.param(*row, id=row[1], marks=[pytest.mark.long] if row[1] in injected_table.SLOW else [])
        for row in (*injected_table.bugs(), *injected_table.disk_bugs(), *injected_table.transactional_bugs())
        if row[1] not in injected_table.NOT_SHOWN
    ],
)
def test_injected_bug_is_detected(scenario: str, bug: str, injected_bug: injected_table.InjectedBug) -> None:
    """Random runs show each injected bug.

    A bug in RARE would take more runs than the suite has time for, so its script shows it instead. `injected_table.py`
    prints how many seeds each bug takes.
    """
    if bug in injected_table.RARE:
        assert injected_table.shown_by_script(bug, injected_bug)
        return
    settings, first_seed = injected_table.settings_of(bug), injected_table.SHOWN_BY.get(bug, 0)
    found = injected_table.search(scenario, injected_bug, SEEDS_TO_FIND_A_BUG, settings, first_seed)
    assert found.seeds is not None, f"{bug}: not found in {SEEDS_TO_FIND_A_BUG} seeds"
