"""Count the mutants that the packages' tests or fifty seeds detect, and list the others.

`python -m tests.mutation.run --sample 200 --seed 1`. Results are stored in a file and reused while the module is
unchanged, so that a stopped run can be continued. `--again` tries the surviving mutants once more, after tests were
added. The exit code is 1 if fewer than 92 percent are detected.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path

from tests.mutation.cases import Cases
from tests.mutation.mutants import ROOT, Mutant, modules, mutants_of
from tests.mutation.trial import SURVIVED, Verdict, try_all

REQUIRED_PERCENT = 92


class Results:
    """Results of mutants, stored in a file with one line per mutant.

    A line is valid as long as the mutant's module has the same bytes.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._digests = {path: sha256((ROOT / path).read_bytes()).hexdigest()[:16] for path in modules()}
        self.by: dict[str, str] = {}
        for line in file.read_text().splitlines() if file.exists() else ():
            kept = json.loads(line)
            if self._digests.get(kept["path"]) == kept["digest"]:
                self.by[kept["name"]] = kept["by"]

    def add(self, mutant: Mutant, verdict: Verdict) -> None:
        """Store one result."""
        self.by[mutant.name] = verdict.by
        kept = {
            "name": mutant.name, "path": mutant.path, "digest": self._digests[mutant.path], "by": verdict.by,
            "seconds": verdict.wall_s,
        }  # fmt: skip
        with self._file.open("a") as out:
            out.write(json.dumps(kept) + "\n")


class Progress:
    """Print, after each mutant, how many are done, the rate and the expected end."""

    def __init__(self, results: Results, count: int) -> None:
        self._results = results
        self._begin = time.time()
        self._count = count
        self._done = 0
        self._survived = 0

    def add(self, mutant: Mutant, verdict: Verdict) -> None:
        """Add a result and report the progress."""
        self._results.add(mutant, verdict)
        self._done += 1
        took_s = time.time() - self._begin
        if verdict.by.startswith(SURVIVED):
            self._survived += 1
            _print(f"{verdict.by:9} {mutant.function}  {mutant.name}")
        if self._done % 10 == 0 or self._done == self._count:
            end = time.strftime("%H:%M", time.localtime(self._begin + took_s * self._count / self._done))
            rate = 60 * self._done / took_s
            _print(f"{self._done}/{self._count}, {self._survived} survived, {rate:.0f} a minute, done at {end}")


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _gathered(file: Path) -> Cases:
    """Return the stored lines of all cases, after running the cases whose lines are out of date."""
    if stale := Cases(file).stale():
        _print(f"to see which lines they execute, the tests of {len(stale)} files and seeds run once")
        subprocess.run(
            [sys.executable, "-m", "tests.mutation.cases", str(file)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
        )
    return Cases(file)


def _report(mutants: list[Mutant], results: Results) -> float:
    """Print the table of packages and the mutants that survived. Return the percentage of detected mutants."""
    known = [mutant for mutant in mutants if mutant.name in results.by]
    tried, noticed = Counter[str](), Counter[str]()
    for mutant in known:
        package = mutant.path.rpartition("/")[0]
        tried[package] += 1
        noticed[package] += not results.by[mutant.name].startswith(SURVIVED)
    for mutant in sorted(known):
        if results.by[mutant.name].startswith(SURVIVED):
            _print(f"{results.by[mutant.name]}: {mutant.function or 'on import'}  {mutant.name}")
    for package, count in sorted(tried.items()):
        _print(f"{package:24} {noticed[package]:5} of {count:5} noticed, {100 * noticed[package] / count:.1f} %")
    percent = 100 * noticed.total() / max(1, tried.total())
    seeds = sum(results.by[mutant.name].startswith("seed ") for mutant in known)
    _print(f"{noticed.total()} of {tried.total()} noticed, {percent:.1f} %; {seeds} of them by seeds alone")
    return percent


def main() -> int:
    """Run the command. Return 0 if enough mutants were detected."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sample", type=int, default=0, help="how many mutants, drawn by --seed; 0: all of them")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", nargs="*", default=[""], help="those whose names begin so: folders or modules")
    options.add_argument("--seeds", type=int, default=50, help="how many seeds try what the tests let live")
    options.add_argument("--again", action="store_true", help="try once more what survived")
    options.add_argument("--kept", type=Path, default=ROOT / ".mutants", help="the folder of what is known")
    chosen = options.parse_args()
    chosen.kept.mkdir(parents=True, exist_ok=True)
    mutants = [each for path in modules() for each in mutants_of(path) if each.name.startswith(tuple(chosen.only))]
    draws = random.Random(chosen.seed)
    if chosen.sample:
        mutants = draws.sample(mutants, min(chosen.sample, len(mutants)))
    results = Results(chosen.kept / "results.jsonl")
    left = [
        each
        for each in mutants
        if each.name not in results.by or (chosen.again and results.by[each.name].startswith(SURVIVED))
    ]
    left.sort(key=lambda mutant: not mutant.function)  # Try mutants of import-time code last, because they take long.
    _print(f"{len(mutants)} mutants, {len(left)} to try")
    if left:
        try_all(left, _gathered(chosen.kept / "cases.json"), chosen.seeds, Progress(results, len(left)).add)
    return 0 if _report(mutants, results) >= REQUIRED_PERCENT else 1


if __name__ == "__main__":
    sys.exit(main())
