"""Run the test suite in three steps.

First run the tests that use no real time, on all cores; then the tests that start servers; and last the tests that
depend on real time. Start it with `python -m tests.suite` or `make test`. If arguments are given, they are passed to
pytest, and there is a single run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
SIDE_BY_SIDE = (
    "api", "broker_sim", "browser", "controller", "docs/test_reference.py", "ensemble", "fuzz", "house", "journal",
    "kafka", "mutation", "pipeline", "simulation", "cli/test_search.py", "cli/test_simulate.py",
    "cli/test_whole_seeds.py", "cli/test_why.py",
)  # fmt: skip
"""Folders and files whose tests use virtual time, or wait without a limit.

The other tests start clusters whose sessions expire in real time. They run in a later step, with half as many processes
more than cores, because the tests wait for a third of the time.
"""
ALONE = ("api/test_bounded_http.py", "browser/test_live.py", "browser/test_load.py")
"""Test files during which no other test runs on the machine."""
SLOWEST = 40
"""Number of slow tests whose durations are printed after each run."""


def runs(arguments: Sequence[str], cores: int) -> list[list[str]]:
    """Return the command-line arguments of each pytest run."""
    if arguments:
        return [list(arguments)]
    places = [f"tests/{place}" for folder in SIDE_BY_SIDE for place in _without_those_alone(folder)]
    alone = [f"tests/{file}" for file in ALONE]
    return [
        [f"--numprocesses={cores}", "--dist=loadfile", *places],
        [
            f"--numprocesses={cores + cores // 2}",
            "--dist=loadfile",
            "tests",
            *(f"--ignore={place}" for place in (*places, *alone)),
        ],
        alone,
    ]


def _without_those_alone(folder: str) -> list[str]:
    """Return the folder or, if one of its files must run alone, all other files in it."""
    if not any(file.startswith(f"{folder}/") for file in ALONE):
        return [folder]
    files = sorted(str(path.relative_to(HERE)) for path in (HERE / folder).rglob("test_*.py"))
    return [file for file in files if file not in ALONE]


def main(arguments: Sequence[str]) -> int:
    """Run the test suite.

    Return the first exit code that is not 0, after all runs.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # Tests start hundreds of processes, each of which would compile every module again.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    pytest = [sys.executable, "-m", "pytest", f"--durations={SLOWEST}"]
    codes = [subprocess.call([*pytest, *run], cwd=HERE.parent, env=environment) for run in runs(arguments, cores)]
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
