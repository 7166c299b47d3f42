"""Part of kazoo's test suite with `pytest -p zabka.testing.kazoo_harness`, as other projects run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.interop.test_kazoo_suite import LIMIT_S, TESTS, TESTS_MIN

ROOT = Path(__file__).resolve().parents[2]


def test_kazoo_tests_pass_with_our_harness_without_a_jvm(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "zabka.testing.kazoo_harness",
         "--pyargs", *(f"kazoo.tests.test_{test}" for test in TESTS)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) >= TESTS_MIN, done.stdout[-1000:]
