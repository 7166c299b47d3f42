"""Run all tests marked `long`, and write the result to the documentation.

`python -m tests.long_run` (or `make test-long`). A complete run writes docs/internals/long-run.md, with the date and
the commit. A run with arguments, which are pytest's, only prints the result.

A complete run stores the outcome of each test file when the file is finished. If the run was stopped, the next run
continues there, provided that the same commit is checked out without changed files.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "internals" / "long-run.md"
HEAD = """\
# The long run

`make test-long` runs every test that is marked `long` and writes this page. A test that needs a missing program (Java,
Maven, Go, kcat) is skipped, and the reason is below the table.

"""
OUTCOMES = ("passed", "failed", "skipped")
REASON_MAX = 100
KEPT = ROOT / ".long-run"
"""Folder with the intermediate results of unfinished runs of the long tests, one file per commit."""


class Tally:
    """Pytest plugin that records, for each test file, the outcomes, the duration, and why tests were skipped.

    With a file, it stores a line in the file for each finished part, and loads the lines of an earlier run.
    """

    def __init__(self, kept: Path | None = None) -> None:
        self.outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: Counter[str] = Counter()
        self.reasons: dict[str, Counter[str]] = defaultdict(Counter)
        self._kept = kept
        for line in kept.read_text().splitlines() if kept is not None and kept.exists() else ():
            known = json.loads(line)
            part = known["part"]
            self.outcomes[part] = Counter(known["outcomes"])
            self.seconds[part] = known["seconds"]
            self.reasons[part] = Counter(known["reasons"])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        part = report.nodeid.partition("::")[0]
        self.seconds[part] += report.duration  # type: ignore[assignment]
        if report.when == "call" or not report.passed:
            self.outcomes[part][report.outcome] += 1
        if report.skipped and isinstance(report.longrepr, tuple):
            self.reasons[part][report.longrepr[2].removeprefix("Skipped: ")[:REASON_MAX]] += 1

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[Any]:
        done = yield
        part = item.nodeid.partition("::")[0]
        if nextitem is None or nextitem.nodeid.partition("::")[0] != part:
            self._keep(part)
        return done

    def _keep(self, part: str) -> None:
        if self._kept is None:
            return
        self._kept.parent.mkdir(exist_ok=True)
        known = {
            "part": part, "outcomes": self.outcomes[part], "seconds": self.seconds[part], "reasons": self.reasons[part],
        }  # fmt: skip
        with self._kept.open("a") as out:
            out.write(json.dumps(known) + "\n")

    def table(self) -> str:
        """Return the result table: a line for each test file, and a line for each reason to skip tests."""
        lines = [f"| part | {' | '.join(OUTCOMES)} | minutes |", "|---|--:|--:|--:|--:|"]
        for part, outcomes in sorted(self.outcomes.items()):
            lines.append(_line(f"`{part}`", outcomes, self.seconds[part]))
        total = sum(self.outcomes.values(), Counter[str]())
        lines.append(_line("all", total, self.seconds.total()))
        if reasons := sum(self.reasons.values(), Counter[str]()):
            lines += ["", "Skipped: " + "; ".join(f"{reason} ({n})" for reason, n in sorted(reasons.items())) + "."]
        return "\n".join(lines)


def _line(part: str, outcomes: Counter[str], seconds: float) -> str:
    return f"| {part} | {' | '.join(str(outcomes[each]) for each in OUTCOMES)} | {seconds / 60:.1f} |"


def result(tally: Tally, commit: str, today: str) -> str:
    """Return the text of the page: the date, the commit, the duration and the table."""
    return f"{today}, commit {commit}, {tally.seconds.total() / 60:.0f} minutes:\n\n{tally.table()}"


def commit() -> str:
    """Return the id of the checked-out commit, which ends with `-dirty` if files were changed."""
    output = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return output.stdout.strip() or "unknown"


def kept_of(name: str) -> Path | None:
    """Return the file with the results for the commit `name`.

    Return None if the commit is unknown or files were changed since.
    """
    return None if name == "unknown" or name.endswith("-dirty") else KEPT / f"{name}.jsonl"


def everything() -> int:
    """Run the long tests that have not finished yet, and print the whole table.

    Return 1 if a test failed, or else pytest's exit code.
    """
    of = commit()
    kept = kept_of(of)
    tally = Tally(kept)
    if tally.outcomes:
        sys.stdout.write(
            f"{len(tally.outcomes)} files have ended before ({KEPT.name}/{of}.jsonl): on with the others\n"
        )
    ended = [f"--ignore={part}" for part in tally.outcomes]
    status = int(pytest.main(["-m", "long", *ended], plugins=[tally]))
    output = result(tally, of, datetime.now(UTC).date().isoformat())
    sys.stdout.write(output + "\n")
    if status == pytest.ExitCode.NO_TESTS_COLLECTED and ended:
        status = 0
    if status in (0, 1):
        PAGE.write_text(f"{HEAD}{output}\n")
        if kept is not None:
            kept.unlink(missing_ok=True)
        return int(any(outcomes["failed"] for outcomes in tally.outcomes.values()))
    return status


def main(arguments: list[str]) -> int:
    """Run the command, and return the exit code."""
    if not arguments:
        return everything()
    tally = Tally()
    status = int(pytest.main(["-m", "long", *arguments], plugins=[tally]))
    sys.stdout.write(result(tally, commit(), datetime.now(UTC).date().isoformat()) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
