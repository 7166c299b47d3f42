"""Part of kazoo's test suite: recipes and transactions on our peers, with kazoo's client and with ours.

`make test-kazoo` runs the whole suite (`ARGS=--shim` with our client); see kazoo_suite/.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parent / "kazoo_suite" / "run.py"
TESTS = ["barrier", "counter", "party", "queue", "election", "client::TestClientTransactions"]
TESTS_MIN = 40
LIMIT_S = 120


@pytest.mark.parametrize("client", [[], ["--shim"]], ids=["kazoo", "ours"])
def test_tests_from_the_kazoo_project_pass(client: list[str]) -> None:
    command = [sys.executable, str(RUN), *client, "-q", *(f"kazoo.tests.test_{test}" for test in TESTS)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as running:
        try:
            output, _ = running.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)  # and with it the peers that it started
            raise
    assert running.returncode == 0, output[-4000:]
    summary = next(line for line in reversed(output.splitlines()) if " passed" in line)
    passed = re.match(r"(\d+) passed", summary)
    assert passed and int(passed[1]) >= TESTS_MIN and "skipped" not in summary, summary
