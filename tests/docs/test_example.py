"""The example project of the documents: its tests pass in a separate pytest, as a user runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_example_passes_in_its_own_pytest(tmp_path: Path) -> None:
    project = tmp_path / "ledger"
    shutil.copytree(ROOT / "docs" / "example", project, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'temporary'}"],
        cwd=project, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=580,
        check=False,
    )  # fmt: skip
    assert "10 passed" in done.stdout, done.stdout + done.stderr
