"""Simulations of whole processes. Each seed runs in its own command-line process, as for a user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_zabka(*arguments: str, hash_seed: str = "0") -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "zabka.cli.main", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_whole_process_seeds_pass_and_report_learner_syncs() -> None:
    output = run_zabka("simulate", "--scenario", "whole", "--seeds", "1")

    assert "1 seeds, 0 with violations" in output
    assert "SNAP: " in output and "DIFF from memory: " in output


def test_whole_cluster_seeds_pass_and_report_truncations() -> None:
    output = run_zabka("simulate", "--scenario", "whole-cluster", "--seeds", "2")

    assert "1 seeds, 0 with violations" in output
    assert "records lost with the power: " in output and "log cut for a new leader: " in output


@pytest.mark.long
def test_seed_result_does_not_depend_on_the_python_hash_seed(tmp_path: Path) -> None:
    files = [tmp_path / "one.jsonl", tmp_path / "other.jsonl"]
    for number, file in enumerate(files):
        run_zabka("replay", "--scenario", "whole", "--seed", "1", "--out", str(file), hash_seed=str(number + 1))

    assert files[0].read_bytes() == files[1].read_bytes()
