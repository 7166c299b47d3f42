"""Example projects in the documents: their tests pass when a user's pytest runs them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
ROOT = EXAMPLES.parents[1]
MISTAKES = 6


def output(project: str, tmp_path: Path, **environment: str) -> str:
    copy = tmp_path / project
    shutil.copytree(EXAMPLES / project, copy, ignore=shutil.ignore_patterns("__pycache__", ".zabka-seeds"))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'temporary'}"],
        cwd=copy, env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, capture_output=True, text=True,
        timeout=580, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.timeout(600)
def test_recipes_pass_in_a_separate_pytest(tmp_path: Path) -> None:
    text = output("recipes", tmp_path)
    assert "10 passed" in text, text


@pytest.mark.timeout(600)
def test_corrected_example_services_pass_with_every_seed(tmp_path: Path) -> None:
    text = output("services", tmp_path, PYTHONHASHSEED="0")
    assert f"{MISTAKES} passed" in text, text


@pytest.mark.timeout(600)
def test_ready_made_fault_sets_expose_the_mistakes_of_the_worker(tmp_path: Path) -> None:
    text = output("worker", tmp_path, PYTHONHASHSEED="0")
    assert "20 passed" in text, text


@pytest.mark.long
@pytest.mark.timeout(600)
def test_mistakes_in_the_services_example_are_found_in_50_seeds(tmp_path: Path) -> None:
    text = output("services", tmp_path, PYTHONHASHSEED="0", ZABKA_MISTAKES="1")
    assert len(re.findall(r"zabka: \w+ fails with seed \d+ and", text)) == MISTAKES, text
