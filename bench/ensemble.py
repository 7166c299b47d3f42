"""Throughput and latency of an ensemble beside Apache ZooKeeper (`make bench`) or a commit (`make bench BASE=commit`).

Three servers a side on loopback, measured on small trees and on grown ones.  Beside ZooKeeper the sides take turns, a
fresh ensemble each round.  Beside an earlier commit both ensembles run at the same time and are loaded in turns of a
second or two, so that the drift of the machine within such a pair is small: a regression of 5 % is seen.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer

from bench.load import WORKS, Load, Work, build_zkload, parse_works
from bench.processes import ROOT, CannotMeasure
from bench.results import Figure, Measurement, Side, paired_table, worse
from bench.run import Data, Json, Only, Quick, Run, bench_run
from bench.servers import Ensemble, Shape, node_count, zookeeper_version

FIGURES = (
    Figure("ops_per_s", "ops/s", ",.0f", "more"),
    Figure("p50_ms", "p50 ms", ",.2f"),
    Figure("p99_ms", "p99 ms", ",.2f"),
    Figure("cpu_us_per_op", "CPU µs/op"),
    Figure("rss_mb", "RSS MB", ",.0f"),
    Figure("znodes", "znodes", ",.0f", ""),
)
PAIRED = (FIGURES[3], FIGURES[0], FIGURES[1], FIGURES[2])
JAVA_WARM_UP_S = 8.0
PYTHON_WARM_UP_S = 2.0
"""Load on a fresh ensemble before anything counts: the JVM's compiler needs 8 s, a Python peer has none.  Both sides of
a comparison get the same."""
SETTLE_S = 3.0
"""A grown tree rests for this long before its memory is measured."""

Tree = Literal["small", "grown"]


class Plan(NamedTuple):
    """Works, the ZooKeeper-seconds of each, how often, and the size of grown trees; 0 leaves these out."""

    works: Sequence[Work]
    seconds: float
    rounds: int
    grown: int

    @property
    def trees(self) -> tuple[Tree, ...]:
        """The trees on which the works are measured."""
        return ("small", "grown") if self.grown else ("small",)


class Bench:
    """Measures a plan and records the results in a run."""

    def __init__(self, run: Run, load: Load, plan: Plan) -> None:
        self._run = run
        self._load = load
        self._plan = plan

    def compare(self, sides: Sequence[Side]) -> None:
        """All rounds, one side at a time, in turns.  Raises CannotMeasure."""
        warm_up_s = JAVA_WARM_UP_S if "zookeeper" in sides else PYTHON_WARM_UP_S
        for number in range(self._plan.rounds):
            # The order alternates: a machine that becomes slower then slows both sides.
            for side in reversed(sides) if number % 2 else sides:
                self._one_side(side, number, warm_up_s)

    def _one_side(self, side: Side, number: int, warm_up_s: float) -> None:
        with Ensemble(side, self._run.directory / f"{side}-{number}", Shape(znodes=self._plan.grown)) as ensemble:
            self._load.warm_up(ensemble, self._plan.works, warm_up_s)
            for tree in self._plan.trees:
                if tree == "grown":
                    self._grow(ensemble)
                for work in self._plan.works:
                    self._measure(ensemble, work, tree)

    def pairs(self, base: Ensemble, now: Ensemble) -> None:
        """All pairs, on ensembles that run at the same time.  Raises CannotMeasure."""
        for ensemble in (base, now):
            self._load.warm_up(ensemble, self._plan.works, PYTHON_WARM_UP_S)
        for tree in self._plan.trees:
            for ensemble in (base, now) if tree == "grown" else ():
                self._grow(ensemble)
            for number in range(self._plan.rounds):
                for work in self._plan.works:
                    # The order alternates: what one leaves to the other, each leaves as often.
                    for ensemble in (base, now) if number % 2 else (now, base):
                        self._measure(ensemble, work, tree)

    def _measure(self, ensemble: Ensemble, work: Work, tree: Tree) -> None:
        znodes = node_count(ensemble.hosts[0])
        sample = self._load.measure(ensemble, work, self._plan.seconds)
        figures = {
            "ops_per_s": sample.ops_per_s, "p50_ms": sample.p50_ms, "p99_ms": sample.p99_ms,
            "cpu_us_per_op": sample.cpu_us_per_op, "rss_mb": ensemble.rss_mb(), "znodes": float(znodes),
        }  # fmt: skip
        self._run.add(Measurement(f"{work.title}, {tree} tree", ensemble.side, figures, sample.problems))

    def _grow(self, ensemble: Ensemble) -> None:
        self._run.note(f"{ensemble.title}: growing to {self._plan.grown:,} znodes")
        self._load.grow(ensemble, self._plan.grown)
        time.sleep(SETTLE_S)
        if ensemble.side == "base" or self._run.figures == PAIRED:
            return
        figures = {"rss_mb": ensemble.rss_mb(), "znodes": float(node_count(ensemble.hosts[0]))}
        self._run.add(Measurement("memory, grown tree", ensemble.side, figures))


def check_out(commit: str, into: Path) -> str:
    """Write the files of a commit to a folder; return its short name.  Raises CannotMeasure."""
    try:
        name = _git("rev-parse", "--verify", "--short", f"{commit}^{{commit}}").decode().strip()
        into.mkdir()
        subprocess.run(["tar", "-x", "-C", str(into)], input=_git("archive", name), capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as failure:
        errors = failure.stderr.decode(errors="replace") if isinstance(failure, subprocess.CalledProcessError) else ""
        raise CannotMeasure(f"cannot check out the commit {commit}: {errors.strip() or failure}") from failure
    return name


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=True).stdout


def main(
    works: Annotated[str, typer.Option(metavar="A,B,…", help=f"Some of {', '.join(WORKS)}")] = ",".join(WORKS),
    seconds: Annotated[
        float | None, typer.Option(min=0.1, max=600, help="Operations that take ZooKeeper so long [5; with --base 2]")
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Rounds [3], or pairs with --base [9, of which 6 prove anything]"),
    ] = None,
    grown: Annotated[
        int | None, typer.Option(min=0, max=10_000_000, help="Znodes of the grown trees [1000000; with --base 200000]")
    ] = None,
    base: Annotated[str | None, typer.Option(help="A commit to compare with, in place of ZooKeeper")] = None,
    only: Only = None,
    quick: Quick = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Measure zabka's ensemble beside Apache ZooKeeper, or beside an earlier commit.  Ctrl-C stops every server."""
    chosen = parse_works("set,get" if quick else works)
    defaults = (1.0, 1, 20_000) if quick else (2.0, 9, 200_000) if base else (5.0, 3, 1_000_000)
    given = (seconds, rounds, grown)
    plan = Plan(chosen, *(d if g is None else g for d, g in zip(defaults, given, strict=True)))  # type: ignore[arg-type]
    with bench_run("ensemble", as_json, data) as run:
        bench = Bench(run, Load(build_zkload(run.directory)), plan)
        if base is None:
            run.compare(f"Three servers, 100-byte values; Apache ZooKeeper {zookeeper_version()}", FIGURES)
            bench.compare(run.sides("zookeeper", only))
        else:
            _beside_commit(run, bench, base, Shape(znodes=plan.grown))


def _beside_commit(run: Run, bench: Bench, commit: str, shape: Shape) -> None:
    source = run.directory / "source"
    name = check_out(commit, source)
    run.figures = PAIRED
    run.tables = lambda: [paired_table(f"This tree ÷ {name}", run.measurements, PAIRED)]
    try:
        with (
            Ensemble("base", run.directory / "base", shape, source) as base,
            Ensemble("ours", run.directory / "ours", shape, ROOT) as now,
        ):
            bench.pairs(base, now)
    finally:
        run.failures += worse(run.measurements, PAIRED)
