"""What may notice a mutant: the tests of the rooms, and fifty seeds; and which of them execute which line.

`python -m tests.mutation.cases FILE` runs them once and writes that down.  Later it runs those anew whose own file has
changed since, or a module that they execute.
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
"""Those of the rooms, and of the neighbours that hold parts of them: lines of servers, packets and their names, and the
controller's queues."""
SEEDS = {"ensemble": 14, "reconfiguring": 8, "read-only": 8, "disks": 10, "chaos": 10}
"""How many seeds of each scenario; together they take about half a minute."""
PYTEST = ["-o", "addopts=", "-o", "timeout=0", "-m", "not long", "-q", "-s", "-p", "no:cacheprovider"]
SEED = "seed "
USING_S_MAX = 10.0


class Cases:
    """What was written down: every case with its CPU seconds and the lines that it executes."""

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
        """The cases that a mutant could change, quickest first, and their seconds: tests, and of the seeds the first
        so many."""
        left_out = set(list(seed_names())[seeds:])
        names = self._covering.get((mutant.path, mutant.statement), [])
        return {name: self.seconds[name] for name in names if name not in left_out}

    def using(self, mutant: Mutant) -> dict[str, float]:
        """The quickest tests that execute anything of the module, together as long as is allowed to a change of what
        runs on import: a number, or a table.  Of one that has nothing but those they are its room's."""
        names = [name for name in self._covering.get((mutant.path, 0), []) if not name.startswith(SEED)]
        names = names or self._of_room(str(Path(mutant.path).parent))
        totals = accumulate(self.seconds[name] for name in names)
        return {name: self.seconds[name] for name, total in zip(names, totals, strict=True) if total < USING_S_MAX}

    def _of_room(self, folder: str) -> list[str]:
        found = [name for name in self.seconds if any(str(Path(path).parent) == folder for path in self.lines[name])]
        return sorted(
            (name for name in found if not name.startswith(SEED)), key=lambda name: (self.seconds[name], name)
        )

    def runs_on_import(self, mutant: Mutant) -> bool:
        """Does that line run while modules are imported or tests collected?"""
        return not mutant.function or mutant.statement in self.imported.get(mutant.path, [])

    def stale(self) -> list[str]:
        """The files of tests to run anew, and seeds."""
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
        """Write it down, without the cases that are there no more."""
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
    """Of each module of the rooms, and of each file of their tests."""
    files = [*modules(), *(path.relative_to(ROOT).as_posix() for path in _files_of_tests())]
    return {path: sha256((ROOT / path).read_bytes()).hexdigest()[:16] for path in sorted(files)}


def _files_of_tests() -> Iterator[Path]:
    for each in TESTS:
        yield from (ROOT / each).rglob("*.py") if (ROOT / each).is_dir() else (ROOT / each,)


def seed_names() -> Iterator[str]:
    """The seeds, named so that no test is called the same."""
    for scenario, count in SEEDS.items():
        for seed in range(count):
            yield f"{SEED}{scenario} {seed}"


def run_seed_named(name: str) -> list[str]:
    """Run one of them: its problems, or what was raised."""
    from zabka.simulation.run import run_seed

    _, scenario, seed = name.split()
    try:
        return run_seed(int(seed), scenario).problems
    except Exception as error:
        return [repr(error)]


class Repeatable:
    """A pytest plugin: Hypothesis draws the same examples in each run, and minds no clock."""

    def pytest_configure(self) -> None:
        from hypothesis import settings  # Not earlier: pytest wants to rewrite its assertions.

        settings.register_profile("mutation", database=None, derandomize=True, deadline=None)
        settings.load_profile("mutation")


class _Gathering(Repeatable):
    """Takes the marks of each case."""

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
        """What was executed since the last one belongs to this one."""
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
    """Run every case that is stale once with marks, and write down what it executed."""
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
                raise SystemExit(f"without any mutant {name} says {problems[0]}")
            plugin.end(name)
    cases.save(file)


if __name__ == "__main__":
    gather(Path(sys.argv[1]))
