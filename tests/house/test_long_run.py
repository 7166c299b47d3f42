"""The table of the long test run: its contents for each part, and where it is stored."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import long_run

REPORTS = [
    ("a/test_x.py::one", "call", "passed", 30.0, ""),
    ("a/test_x.py::one", "teardown", "passed", 30.0, ""),
    ("a/test_x.py::two", "call", "failed", 60.0, ""),
    ("b/test_y.py::three", "setup", "skipped", 0.0, "Skipped: java is not installed"),
    ("b/test_y.py::four", "setup", "failed", 6.0, ""),
]


def tally() -> long_run.Tally:
    made = long_run.Tally()
    for nodeid, when, outcome, duration, reason in REPORTS:
        longrepr = ("file", 1, reason) if reason else None
        made.pytest_runtest_logreport(
            pytest.TestReport(nodeid, ("file", 1, ""), {}, outcome, longrepr, when, duration=duration)  # type: ignore[arg-type]
        )
    return made


def test_long_run_table_has_outcomes_and_minutes_per_file() -> None:
    assert tally().table().splitlines()[2:] == [
        "| `a/test_x.py` | 1 | 1 | 0 | 2.0 |",
        "| `b/test_y.py` | 0 | 1 | 1 | 0.1 |",
        "| all | 1 | 2 | 1 | 2.1 |",
        "",
        "Skipped: java is not installed (1).",
    ]


def test_long_run_page_starts_with_its_heading() -> None:
    assert long_run.PAGE.read_text().startswith(long_run.HEAD)


def test_stopped_long_run_keeps_the_results_of_finished_files(tmp_path: Path) -> None:
    tests, kept = tmp_path / "tests", tmp_path / "kept" / "abc.jsonl"
    tests.mkdir()
    (tests / "test_a.py").write_text("def test_one(): pass\ndef test_two(): assert False\n")
    (tests / "test_b.py").write_text("def test_three(): pass\ndef test_four(): raise KeyboardInterrupt\n")
    run = (
        "import sys, pytest; from pathlib import Path; from tests.long_run import Tally\n"
        f"tally = Tally(Path({str(kept)!r}))\n"
        f"pytest.main(['-q', '-p', 'no:cacheprovider', '--rootdir', {str(tests)!r}, {str(tests)!r}], plugins=[tally])"
    )
    subprocess.run([sys.executable, "-c", run], cwd=long_run.ROOT, capture_output=True, check=False)

    known = long_run.Tally(kept)
    assert {Path(part).name: dict(outcomes) for part, outcomes in known.outcomes.items()} == {
        "test_a.py": {"passed": 1, "failed": 1}
    }
    assert known.seconds.total() > 0


@pytest.mark.parametrize(("commit", "name"), [("1a2b3c4", "1a2b3c4.jsonl"), ("1a2b3c4-dirty", None), ("unknown", None)])
def test_long_run_results_of_a_modified_tree_are_not_stored(commit: str, name: str | None) -> None:
    kept = long_run.kept_of(commit)
    assert (kept and kept.name) == name
