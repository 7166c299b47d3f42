"""Run one mutant of code that runs on import: `python -m tests.mutation.fresh MODULE NUMBER CASES ANSWER`.

CASES is a file with the names of cases. The name of the case that detected the mutant is written to the file ANSWER.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.mutation.cases import PYTEST, Repeatable
from tests.mutation.coverage import ChangedSources
from tests.mutation.mutants import mutated


class _OnlyThese(Repeatable):
    """Pytest plugin that deselects all tests except the given ones."""

    def __init__(self, selected: set[str]) -> None:
        self._selected = selected
        self.failed = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._selected]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid


def main(path: str, number: str, selected: str, answer: str) -> None:
    """Run the selected cases with the mutant, and write the name of the case that detected it to the file `answer`."""
    names = Path(selected).read_text().splitlines()
    ChangedSources({path: mutated(path, int(number))})
    only = _OnlyThese(set(names))
    files = sorted({name.partition("::")[0] for name in names})
    base = f"--basetemp={Path(answer).parent}/tests"
    status = pytest.main([*PYTEST, "-x", base, *files], plugins=[only]) if files else 0
    by = only.failed or ("import" if status not in (0, 5) else "")
    Path(answer).write_text(by or "survived")
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:5])
