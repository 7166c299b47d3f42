"""Runs what is marked `long`, from one command to its end, and keeps the result where everybody can read it.

`python -m tests.long_run` (or `make test-long`).  A run of everything writes its table into ARCHITECTURE.md, with the
date and the commit; a run with arguments, which are pytest's, only prints it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- the long run -->", "<!-- end of the long run -->"
OUTCOMES = ("passed", "failed", "skipped")
REASON_MAX = 100


class Tally:
    """A pytest plugin: what became of the tests of each file, how long they took, and why some were skipped."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        part = report.nodeid.partition("::")[0]
        self.seconds[part] += report.duration  # type: ignore[assignment]
        if report.when == "call" or not report.passed:
            self.outcomes[part][report.outcome] += 1
        if report.skipped and isinstance(report.longrepr, tuple):
            self.reasons[report.longrepr[2].removeprefix("Skipped: ")[:REASON_MAX]] += 1

    def table(self) -> str:
        """A line for each file, and one for each reason."""
        lines = [f"| part | {' | '.join(OUTCOMES)} | minutes |", "|---|--:|--:|--:|--:|"]
        for part, outcomes in sorted(self.outcomes.items()):
            lines.append(_line(f"`{part}`", outcomes, self.seconds[part]))
        total = sum(self.outcomes.values(), Counter[str]())
        lines.append(_line("all", total, self.seconds.total()))
        if self.reasons:
            lines += [
                "",
                "Skipped: " + "; ".join(f"{reason} ({n})" for reason, n in sorted(self.reasons.items())) + ".",
            ]
        return "\n".join(lines)


def _line(part: str, outcomes: Counter[str], seconds: float) -> str:
    return f"| {part} | {' | '.join(str(outcomes[each]) for each in OUTCOMES)} | {seconds / 60:.1f} |"


def result(tally: Tally, wall_s: float, commit: str, today: str) -> str:
    """What stands in ARCHITECTURE: when, of which commit, and the table."""
    return f"{today}, commit {commit}, {wall_s / 60:.0f} minutes:\n\n{tally.table()}"


def placed(page: str, said: str) -> str:
    """The page with that result in the place that it keeps for it."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{said}\n\n{END}{after}"


def commit() -> str:
    """What is checked out, and whether files differ from it."""
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return said.stdout.strip() or "unknown"


def main(arguments: list[str]) -> int:
    """pytest's exit code."""
    of = commit()
    tally, begin = Tally(), time.monotonic()
    status = int(pytest.main(["-m", "long", *arguments], plugins=[tally]))
    said = result(tally, time.monotonic() - begin, of, datetime.now(UTC).date().isoformat())
    sys.stdout.write(said + "\n")
    if not arguments and status in (0, 1):
        PAGE.write_text(placed(PAGE.read_text(), said))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
