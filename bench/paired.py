"""`make bench BASE=<commit>`: this tree and an earlier commit, side by side, so that a regression of 5 % is seen.

Both ensembles stand at the same time, with equal trees, and are loaded in turns of a second or two: what drifts on the
machine within such a pair is little.  Each pair gives a ratio, now divided by base; many pairs give their median and
how sure it is.  Exit code 0, 1 where it cannot measure or something became slower, 2 for a bad option, 130 after
Ctrl-C.
"""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from bench.ensembles import ROOT, Ensemble, Shape, Side, running
from bench.interrupts import interruptible
from bench.load import CannotMeasure, Sample, build_zkload, default_cache
from bench.machine import cautions, describe
from bench.rounds import PYTHON_WARM_UP_S, Tree, grow, measure_once, warm_up
from bench.works import WORKS, Work, parse_works

SEEN = 0.05
"""A change by this much counts, where the pairs leave no doubt that there is one."""
DOUBT = 0.05
INTERRUPTED = 130

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


class Ratio(NamedTuple):
    """The median of the pairs' ratios, and between which two the true one lies, but for one case in twenty."""

    median: float
    low: float
    high: float

    @property
    def is_worse(self) -> bool:
        """Whether now takes more than base, by as much as counts and beyond doubt."""
        return self.low > 1 and self.median >= 1 + SEEN

    @property
    def is_better(self) -> bool:
        """Whether now takes less, as surely."""
        return self.high < 1 and self.median <= 1 - SEEN

    def __str__(self) -> str:
        colour = "red" if self.is_worse else "green" if self.is_better else "default"
        return f"[{colour}]{self.median:.3f}[/] ({self.low:.2f} to {self.high:.2f})"


def ratio_of(found: list[float]) -> Ratio:
    """The median with the order statistics around it, which need no bell curve: of n pairs each lies on either side of
    the true median as a coin falls."""
    if not found:
        return Ratio(math.nan, math.nan, math.nan)
    ordered, count = sorted(found), len(found)
    outside = 0
    while 2 * sum(math.comb(count, k) for k in range(outside + 1)) <= DOUBT * 2**count:
        outside += 1
    # With five pairs or fewer not even the outermost are sure: then nothing is.
    if not outside:
        return Ratio(median(ordered), 0.0, math.inf)
    return Ratio(median(ordered), ordered[outside - 1], ordered[count - outside])


class Pair(NamedTuple):
    """The same work on both, one right after the other."""

    tree: Tree
    work: str
    base: Sample
    now: Sample


FIGURES: tuple[tuple[str, Callable[[Sample], float]], ...] = (
    ("CPU/op", lambda sample: sample.cpu_us),
    ("time/op", lambda sample: 1 / sample.ops_per_s),
    ("p50", lambda sample: sample.p50_ms),
    ("p99", lambda sample: sample.p99_ms),
)
"""Of all of them less is better."""


def check_out(commit: str, into: Path) -> str:
    """The files of a commit, in a folder; its short name.  Raises CannotMeasure."""
    try:
        name = _git("rev-parse", "--verify", "--short", f"{commit}^{{commit}}").decode().strip()
        into.mkdir()
        subprocess.run(["tar", "-x", "-C", str(into)], input=_git("archive", name), capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as failure:
        said = (
            failure.stderr.decode(errors="replace").strip()
            if isinstance(failure, subprocess.CalledProcessError)
            else ""
        )
        raise CannotMeasure(f"the commit {commit} cannot be had: {said or failure}") from failure
    return name


def _git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=True).stdout


class Pairs:
    """Loads two ensembles in turns; `found` gathers, so that a run that is broken off keeps what it has."""

    def __init__(self, program: Path, works: list[Work], count: int, seconds: float, errors: Console) -> None:
        self.found: list[Pair] = []
        self._program = program
        self._works = works
        self._count = count
        self._seconds = seconds
        self._errors = errors

    def measure(self, base: Ensemble, now: Ensemble, grown: int) -> None:
        """All pairs on small trees, and on grown ones.  Raises CannotMeasure."""
        for each in (base, now):
            warm_up(self._program, each, self._works, PYTHON_WARM_UP_S)
        self._all_works(base, now, "small")
        if grown:
            self._errors.print(f"growing both to {grown:,} znodes", style="dim")
            for each in (base, now):
                grow(self._program, each, grown)
            self._all_works(base, now, "grown")

    def _all_works(self, base: Ensemble, now: Ensemble, tree: Tree) -> None:
        for number in range(self._count):
            for work in self._works:
                # Who goes first alternates: what the one leaves behind for the other, each leaves as often.
                order = (base, now) if number % 2 else (now, base)
                samples = {each.side: measure_once(self._program, each, work, self._seconds) for each in order}
                pair = Pair(tree, work.name, samples["base"], samples["ours"])
                for side, sample in samples.items():
                    if sample.faults:
                        raise CannotMeasure(f"{work.title}, {side}: {sample.faults}")
                self.found.append(pair)
                told = f"pair {number + 1}/{self._count}, {tree} trees, {work.title}"
                self._errors.print(
                    f"{told}: CPU/op {pair.base.cpu_us:.1f} then, {pair.now.cpu_us:.1f} now", style="dim"
                )


def verdicts(pairs: list[Pair]) -> dict[tuple[Tree, str], dict[str, Ratio]]:
    """Each figure of each work, on each kind of tree."""
    groups: dict[tuple[Tree, str], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.tree, pair.work), []).append(pair)
    return {
        key: {name: ratio_of([of(p.now) / of(p.base) for p in group if of(p.base)]) for name, of in FIGURES}
        for key, group in groups.items()
    }


def table(found: dict[tuple[Tree, str], dict[str, Ratio]], base: str, pairs: int, grown: int) -> Table:
    """What each work takes now, divided by what it took then."""
    caption = f"The medians of {pairs} pairs, and where they lie with 95 % certainty; red is worse by 5 % beyond doubt."
    made = Table(title=f"Now ÷ {base}: less than 1 is better", caption=caption, caption_justify="left")
    made.add_column("work")
    for name, _ in FIGURES:
        made.add_column(name, justify="right")
    for (tree, work), ratios in found.items():
        where = f"{grown:,} znodes" if tree == "grown" else "small tree"
        made.add_row(f"{WORKS[work].title}, {where}", *map(str, ratios.values()))
    return made


@app.command()
def main(
    base: Annotated[str, typer.Argument(help="A commit of this repository")],
    works: Annotated[str, typer.Option(metavar="A,B,…", help=f"Some of {', '.join(WORKS)}")] = ",".join(WORKS),
    pairs: Annotated[
        int, typer.Option(min=1, max=1000, help="How often both are measured; six at least say anything")
    ] = 9,
    seconds: Annotated[float, typer.Option(min=0.1, max=60, help="As many operations as take ZooKeeper so long")] = 2.0,
    grown: Annotated[
        int, typer.Option(min=0, max=10_000_000, help="Measure again with so many znodes; 0 = not")
    ] = 200_000,
    data: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="Where the servers keep their logs meanwhile")
    ] = None,
) -> None:
    """Measure this tree beside an earlier commit.  Ctrl-C stops every server."""
    out, errors = Console(highlight=False), Console(stderr=True, highlight=False)
    try:
        chosen = parse_works(works)
    except ValueError as reason:
        raise typer.BadParameter(str(reason), param_hint="--works") from None
    ended = 0
    try:
        program = build_zkload(default_cache())
        measuring = Pairs(program, chosen, pairs, seconds, errors)
        with interruptible(), ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zabka-bench-", dir=data)))
            name = check_out(base, directory / "source")
            for note in cautions(describe(directory)):
                errors.print(note, style="yellow", markup=False)
            ended = _run(measuring, directory, grown, errors)
    except CannotMeasure as reason:
        errors.print(f"bench: {reason}", style="red", markup=False)
        raise typer.Exit(1) from None
    found = verdicts(measuring.found)
    if found:
        out.print(table(found, name, pairs, grown))
    worse = any(ratio.is_worse for ratios in found.values() for ratio in ratios.values())
    raise typer.Exit(ended or worse)


def _run(measuring: Pairs, directory: Path, grown: int, errors: Console) -> int:
    """Start both and measure; the exit code where that ended early."""
    sources: dict[Side, Path] = {"base": directory / "source", "ours": ROOT}
    try:
        with ExitStack() as stack:
            base, now = (
                stack.enter_context(running(side, directory / side, Shape(znodes=grown), source))
                for side, source in sources.items()
            )
            measuring.measure(base, now, grown)
    except KeyboardInterrupt:
        errors.print("interrupted: every server is stopped; this was measured so far", style="yellow")
        return INTERRUPTED
    except CannotMeasure as reason:
        errors.print(f"bench: {reason}", style="red", markup=False)
        return 1
    return 0


if __name__ == "__main__":
    app(prog_name="bench")
