"""Tests shipped with Python clients, run against our brokers by pytest in a separate process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

SOURCES = "ZABKA_CLIENT_SOURCES"
"""Environment variable with the path of a folder that contains checkouts of the clients' repositories."""


ONE_BROKER: dict[str, object] = {
    "default_replication_factor": 1,
    "offsets_topic_replication_factor": 1,
    "transaction_state_log_replication_factor": 1,
    "transaction_state_log_min_isr": 1,
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 1_000,
    "zookeeper_session_timeout_ms": 18_000,
}
"""Settings of the single broker that the suites expect."""


class Outcomes(NamedTuple):
    """Tests by outcome, as CLASS::NAME, and for each failed test the end of its report."""

    passed: set[str]
    skipped: set[str]
    failed: dict[str, str]

    def has_passed(self, name: str) -> bool:
        """Return whether a test function of that name passed, in any class."""
        return any(each.endswith(f"::{name}") for each in self.passed)


def checkout(name: str, home: Path) -> Path:
    """Return a copy of a client's checkout. Skips the test if there is none.

    A checkout is needed because the clients' source distributions lack some or all tests.
    """
    folder = os.environ.get(SOURCES)
    if folder is None or not (Path(folder) / name).is_dir():
        pytest.skip(f"{SOURCES} names no folder with a checkout of {name}")
    copy = home / name
    shutil.copytree(Path(folder) / name, copy)
    return copy


def run(
    folder: Path, tests: Collection[str], left_out: Collection[str], settings: Mapping[str, str], limit_s: float
) -> Outcomes:
    """Run these test files of a folder except the tests in `left_out`. Kill the run at the time limit."""
    report, output = folder / "report.xml", folder / "output.log"
    command = [
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=short", f"--junitxml={report}",
        *(f"--deselect={name}" for name in sorted(left_out)), *tests,
    ]  # fmt: skip
    with output.open("w") as log:
        running = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **settings}, start_new_session=True,
            stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        running.wait(limit_s)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    assert report.exists(), output.read_text(errors="replace")[-4000:]
    return _outcomes(ElementTree.parse(report).getroot())


def _outcomes(report: ElementTree.Element) -> Outcomes:
    found = Outcomes(set(), set(), {})
    for case in report.iter("testcase"):
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        wrong = [part for kind in ("failure", "error") for part in case.iter(kind)]
        if wrong:
            found.failed[name] = "\n".join((part.text or "")[-3000:] for part in wrong)
        elif case.find("skipped") is not None:
            found.skipped.add(name)
        else:
            found.passed.add(name)
    return found
