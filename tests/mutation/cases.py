"""Cases that can detect a mutant, and the lines that each case executes.

A case is a test file of the packages or one of fifty seeds. `python -m tests.mutation.cases FILE` runs all cases once
and stores the executed lines. A later run repeats the cases whose own file or an executed module has changed.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from hashlib import sha256
from itertools import accumulate
from pathlib import Path

import pytest

from tests.mutation.coverage import Marks
from tests.mutation.mutants import ROOT, Mutant, modules

TESTS = (
    "tests/controller", "tests/broker_sim", "tests/ensemble/zab", "tests/ensemble/txnlog", "tests/ensemble/tree",
    "tests/ensemble/server/config", "tests/ensemble/server/net/test_wire.py", "tests/journal/test_message_log.py",
    "tests/kafka/zk/test_coordination.py",
)  # fmt: skip
"""Tests of the mutated packages, and tests of other packages that execute parts of the mutated ones.

Those parts are the server lines of a configuration, packets and their names, and the controller's queues.
"""
SEEDS = {"ensemble": 14, "reconfiguring": 8, "read-only": 8, "disks": 10, "chaos": 10}
"""Number of seeds of each simulation scenario. All of them together take about half a minute."""
PYTEST = ["-o", "addopts=", "-o", "timeout=0", "-m", "not long", "-q", "-s", "-p", "no:cacheprovider"]
SEED = "seed "
USING_S_MAX = 10.0


class Cases:
    """The stored cases, each with its CPU time in seconds and the lines that it executes."""

    def __init__(self, file: Path) -> None:
        kept = json.loads(file.read_text()) if file.exists() else {}
        self.files: dict[str, str] = kept.get("files", {})
        self.seconds: dict[str, float] = kept.get("seconds", {})
        self.lines: dict[str, dict[str, list[int]]] = kept.get("lines", {})
        self.imported: dict[str, list[int]] = kept.get("imported", {})
        self._covering: dict[tuple[str, int], list[str]] = defaultdict(list)
        for name in sorted(self.seconds, key=lambda name: (self.seconds[name], name)):
            for path, lines in self.lines[name].items():
                for line in {0, *lines}:
                    self._covering[path, line].append(name)

    def covering(self, mutant: Mutant, seeds: int) -> dict[str, float]:
        """Return the cases that execute the mutant's line, with their CPU seconds, fastest first.

        The cases are tests, and runs of the first `seeds` seeds.
        """
        left_out = set(list(seed_names())[seeds:])
        names = self._covering.get((mutant.path, mutant.statement), [])
        return {name: self.seconds[name] for name in names if name not in left_out}

    def using(self, mutant: Mutant) -> dict[str, float]:
        """Return the fastest tests that execute code of the mutant's module, up to a limit of total time.

        They are used for mutants of code that runs on import. If no test executes the module, return the tests of its
        package.
        """
        names = [name for name in self._covering.get((mutant.path, 0), []) if not name.startswith(SEED)]
        names = names or self._of_package(str(Path(mutant.path).parent))
        totals = accumulate(self.seconds[name] for name in names)
        return {name: self.seconds[name] for name, total in zip(names, totals, strict=True) if total < USING_S_MAX}

    def _of_package(self, folder: str) -> list[str]:
        found = [name for name in self.seconds if any(str(Path(path).parent) == folder for path in self.lines[name])]
        return sorted(
            (name for name in found if not name.startswith(SEED)), key=lambda name: (self.seconds[name], name)
        )

    def runs_on_import(self, mutant: Mutant) -> bool:
        """Return whether the mutant's line runs while modules are imported or tests are collected."""
        return not mutant.function or mutant.statement in self.imported.get(mutant.path, [])

    def stale(self) -> list[str]:
        """Return the test files and seeds whose executed lines are out of date."""
        changed = {path for path, digest in digests().items() if self.files.get(path) != digest}
        folders = {str(Path(path).parent) for path in changed if not Path(path).name.startswith("test_")}
        tests = {
            path
            for path in digests()
            if Path(path).name.startswith("test_") and (path in changed or path.startswith(tuple(folders)))
        }
        touched = {name for name, lines in self.lines.items() if changed & lines.keys()}
        seeds = [name for name in seed_names() if name in touched or name not in self.seconds]
        return sorted(tests | {_file_of(name) for name in touched if not name.startswith(SEED)}) + seeds

    def save(self, file: Path) -> None:
        """Write all cases whose tests and seeds still exist to the file."""
        present = {name for name in self.seconds if name.startswith(SEED) or _file_of(name) in self.files}
        kept = {
            "files": self.files,
            "seconds": {name: self.seconds[name] for name in present},
            "lines": {name: self.lines[name] for name in present},
            "imported": self.imported,
        }
        file.write_text(json.dumps(kept))


def _file_of(name: str) -> str:
    return name.partition("::")[0]


def digests() -> dict[str, str]:
    """Return the digests of all modules of the packages and of all test files."""
    files = [*modules(), *(path.relative_to(ROOT).as_posix() for path in _files_of_tests())]
    return {path: sha256((ROOT / path).read_bytes()).hexdigest()[:16] for path in sorted(files)}


def _files_of_tests() -> Iterator[Path]:
    for each in TESTS:
        yield from (ROOT / each).rglob("*.py") if (ROOT / each).is_dir() else (ROOT / each,)


def seed_names() -> Iterator[str]:
    """Yield the names of the cases that are seeds. These names differ from all test names."""
    for scenario, count in SEEDS.items():
        for seed in range(count):
            yield f"{SEED}{scenario} {seed}"


def run_seed_named(name: str) -> list[str]:
    """Run the seed with this name. Return its violations, or the exception that it raised."""
    from zabka.simulation.run import run_seed

    _, scenario, seed = name.split()
    try:
        return run_seed(int(seed), scenario).problems
    except Exception as error:
        return [repr(error)]


class Repeatable:
    """Pytest plugin that makes Hypothesis generate the same examples in each run, without a deadline."""

    def pytest_configure(self) -> None:
        from hypothesis import settings  # Import this late, because pytest must rewrite its assertions first.

        settings.register_profile("mutation", database=None, derandomize=True, deadline=None)
        settings.load_profile("mutation")


class _Gathering(Repeatable):
    """Pytest plugin that records which lines each case executes."""

    def __init__(self, marks: Marks, cases: Cases) -> None:
        self._marks = marks
        self._cases = cases
        self._begin = 0.0

    def pytest_collection_finish(self) -> None:
        for path, lines in self._taken().items():
            self._cases.imported[path] = sorted({*lines, *self._cases.imported.get(path, [])})
        self._begin = time.process_time()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.end(nodeid)

    def end(self, name: str) -> None:
        """Store the lines that were executed since the end of the previous case as the lines of the case `name`."""
        self._cases.seconds[name] = round(time.process_time() - self._begin, 4)
        self._cases.lines[name] = self._taken()
        self._begin = time.process_time()

    def _taken(self) -> dict[str, list[int]]:
        taken: dict[str, set[int]] = defaultdict(set)
        for place in self._marks.take():
            path, line = self._marks.places[place]
            taken[path].add(line)
        return {path: sorted(lines) for path, lines in taken.items()}


def gather(file: Path) -> None:
    """Run each test case whose record is outdated once, and store the source lines that it executes."""
    cases = Cases(file)
    stale = cases.stale()
    cases.files = digests()
    marks = Marks(modules())
    plugin = _Gathering(marks, cases)
    tests = [name for name in stale if not name.startswith(SEED)]
    if tests and (status := pytest.main([*PYTEST, *tests], plugins=[plugin])) not in (0, 5):
        raise SystemExit(f"without any mutant the tests end with {status}")
    for name in stale:
        if name.startswith(SEED):
            if problems := run_seed_named(name):
                raise SystemExit(f"without any mutant {name} reports {problems[0]}")
            plugin.end(name)
    cases.save(file)


if __name__ == "__main__":
    gather(Path(sys.argv[1]))
