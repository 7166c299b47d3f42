"""Ensemble throughput and latency compared with Apache ZooKeeper (`make bench`) or a commit (`make bench BASE=…`).

Each of the two sides has three servers on loopback, and is measured with a small and with a grown znode tree. In the
comparison with ZooKeeper, the two sides alternate, and each round starts a fresh ensemble. In the comparison with a
commit, both ensembles run at the same time and receive load in turns of a second or two. The speed of the machine
changes little within such a pair of measurements, so that a regression of 5 % is detected.

The load generator is zkload, which uses little CPU time of the cores that it shares with the servers.  Both sides
execute the same number of operations, so that their trees have the same size.  If both ran for the same time, the
faster side would create a larger tree and would then be measured on that tree.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
import typer

from bench.results import Figure, Measurement, Side, paired_table, worse
from bench.run import Data, Json, Only, Quick, Run, bench_run
from bench.servers import ROOT, CannotMeasure, Ensemble, Shape, held, node_count, zookeeper_version

SOURCE = Path(__file__).with_name("zkload.c")
LOAD_S_MAX = 600.0
LOAD_TIMEOUT_S = 660.0
"""The time limit for zkload.  It is longer than zkload's own limit, because zkload first writes its keys one by one."""
WARM_UP_SHARE = 8
"""The warm-up before each measurement runs 1/8 as many operations as the measurement. It opens connections and fills
pipelines.
"""
FIGURES = (
    Figure("ops_per_s", "ops/s", ",.0f", "more"),
    Figure("p50_ms", "p50 ms", ",.2f"),
    Figure("p99_ms", "p99 ms", ",.2f"),
    Figure("cpu_us_per_op", "CPU µs/op"),
    Figure("rss_mb", "RSS MB", ",.0f"),
    Figure("znodes", "znodes", ",.0f", ""),
)
PAIRED = (FIGURES[3], FIGURES[0], FIGURES[1], FIGURES[2])
JAVA_WARM_UP_S, PYTHON_WARM_UP_S = 8.0, 2.0
"""Seconds of load on a fresh ensemble before the measurements.

The JVM's compiler needs 8 s. Our ensemble gets the same time if it is compared with ZooKeeper's.
"""
SETTLE_S = 3.0
"""Idle time after the znode tree has grown, before the servers' memory is measured."""
Tree = Literal["small", "grown"]


class Work(NamedTuple):
    """A workload for zkload: operation, number of connections, and requests in flight on each connection.

    It also contains how many of these operations Apache ZooKeeper executes a second.
    """

    name: str
    op: str
    connections: int
    window: int
    title: str
    usual_per_s: int

    def ops(self, seconds: float) -> int:
        """Return the number of operations that Apache ZooKeeper executes in about that many seconds."""
        return max(1, round(self.usual_per_s * seconds))


WORKS = {
    work.name: work
    for work in (
        Work("set", "set", 16, 32, "set, 16 x 32", 16_000),
        Work("create", "create", 16, 32, "create, 16 x 32", 14_000),
        Work("get", "get", 16, 32, "get, 16 x 32", 50_000),
        Work("mix", "mix", 16, 32, "mix 2:1, 16 x 32", 20_000),
        Work("set64", "set", 64, 1, "set, 64 x 1", 8_500),
        Work("set1", "set", 1, 1, "set, 1 x 1", 2_000),
    )
}
"""Workloads by name, in the order of the table.  16 x 32 is 16 connections with 32 requests in flight on each."""


def parse_works(text: str) -> list[Work]:
    """Return the workloads of a comma-separated list of names, in the order of the table.  Raises BadParameter."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in WORKS]
    if unknown or not names:
        wrong = f"unknown work: {', '.join(unknown)}" if unknown else "no work is named"
        raise typer.BadParameter(f"{wrong}; the works are {', '.join(WORKS)}")
    return [work for work in WORKS.values() if work.name in names]


class Sample(msgspec.Struct, frozen=True):
    """The output of zkload for one measurement; `cpu_us_per_op` is the CPU time of all servers together."""

    ops: int
    ops_per_s: float
    errors: int
    order_errors: int
    dropped: int
    p50_ms: float
    p99_ms: float
    cpu_us_per_op: float = 0.0

    @property
    def problems(self) -> list[str]:
        """Broken guarantees of the protocol, such as lost writes."""
        names = ("error replies", "replies out of order", "dropped connections")
        counts = zip((self.errors, self.order_errors, self.dropped), names, strict=True)
        return [f"{count} {name}" for count, name in counts if count] + ([] if self.ops else ["not one reply"])


def build_zkload(directory: Path) -> Path:
    """Build zkload in `directory`.  Raises CannotMeasure."""
    compiler = next(filter(shutil.which, (os.environ.get("CC", "cc"), "cc", "gcc", "clang")), None)
    if compiler is None:
        raise CannotMeasure("no C compiler found: install cc, gcc or clang, or set CC")
    program = directory / "zkload"
    built = subprocess.run([compiler, "-O2", "-o", program, SOURCE], capture_output=True, text=True, check=False)
    if built.returncode:
        raise CannotMeasure(f"{compiler} cannot build {SOURCE.name}:\n{built.stderr.strip()}")
    return program


class Plan(NamedTuple):
    """The plan of a benchmark.

    It contains the workloads, the number of rounds, and the size of grown trees (0: none). Each workload has the number
    of operations that Apache ZooKeeper executes in about `seconds`.
    """

    works: Sequence[Work]
    seconds: float
    rounds: int
    grown: int

    @property
    def trees(self) -> tuple[Tree, ...]:
        """The znode trees on which the workloads are measured: a small tree, and a tree that has grown."""
        return ("small", "grown") if self.grown else ("small",)


class Bench:
    """Applies load to ensembles as planned, and records the results in the benchmark's `Run`.  All methods raise
    CannotMeasure.
    """

    def __init__(self, run: Run, program: Path, plan: Plan) -> None:
        self._run = run
        self._program = program
        self._plan = plan

    def compare(self, sides: Sequence[Side]) -> None:
        """Measure the sides alternately, for all rounds."""
        warm_up_s = JAVA_WARM_UP_S if "zookeeper" in sides else PYTHON_WARM_UP_S
        for number in range(self._plan.rounds):
            # Alternate which side goes first, so that a machine that becomes slower affects both sides equally.
            for side in reversed(sides) if number % 2 else sides:
                shape = Shape(znodes=self._plan.grown)
                with Ensemble(side, self._run.directory / f"{side}-{number}", shape) as ensemble:
                    self._warm_up(ensemble, warm_up_s)
                    for tree in self._plan.trees:
                        if tree == "grown":
                            self._grow(ensemble)
                            figures = {"rss_mb": ensemble.rss_mb(), "znodes": node_count(ensemble.hosts[0])}
                            self._run.add(Measurement("memory, grown tree", side, figures))
                        for work in self._plan.works:
                            self._measure(ensemble, work, tree)

    def pairs(self, base: Ensemble, now: Ensemble) -> None:
        """Measure all pairs on two ensembles that run at the same time: the base commit and the current code."""
        for ensemble in (base, now):
            self._warm_up(ensemble, PYTHON_WARM_UP_S)
        for tree in self._plan.trees:
            for ensemble in (base, now) if tree == "grown" else ():
                self._grow(ensemble)
            for number in range(self._plan.rounds):
                for work in self._plan.works:
                    # Alternate which side goes first, so that effects of one measurement on the next affect both sides
                    # equally.
                    for ensemble in (base, now) if number % 2 else (now, base):
                        self._measure(ensemble, work, tree)

    def _warm_up(self, ensemble: Ensemble, seconds: float) -> None:
        """Run each kind of operation for an equal share of the time, because the JVM compiles each separately."""
        operations = {work.op: WORKS[work.op] for work in self._plan.works}
        for work in operations.values():
            self._load(work, ensemble, work.ops(seconds / len(operations)), 0)

    def _measure(self, ensemble: Ensemble, work: Work, tree: Tree) -> None:
        znodes, ops = node_count(ensemble.hosts[0]), work.ops(self._plan.seconds)
        sample = self._load(work, ensemble, ops, ops // WARM_UP_SHARE)
        figures = {
            "ops_per_s": sample.ops_per_s, "p50_ms": sample.p50_ms, "p99_ms": sample.p99_ms,
            "cpu_us_per_op": sample.cpu_us_per_op, "rss_mb": ensemble.rss_mb(), "znodes": znodes,
        }  # fmt: skip
        self._run.add(Measurement(f"{work.title}, {tree} tree", ensemble.side, figures, sample.problems))

    def _grow(self, ensemble: Ensemble) -> None:
        """Create znodes of 100 bytes until the tree has the planned size."""
        self._run.note(f"{ensemble.title}: growing to {self._plan.grown:,} znodes")
        missing = self._plan.grown - node_count(ensemble.hosts[0])
        if missing > 0:
            sample = self._load(WORKS["create"], ensemble, missing, 0)
            if sample.ops != missing or sample.problems:
                raise CannotMeasure(f"{sample.ops:,} of {missing:,} znodes created; {', '.join(sample.problems)}")
        time.sleep(SETTLE_S)

    def _load(self, work: Work, ensemble: Ensemble, ops: int, warm_up_ops: int) -> Sample:
        options = {
            "hosts": ",".join(ensemble.hosts), "op": work.op, "conns": work.connections, "window": work.window,
            "ops": ops, "skip": warm_up_ops, "seconds": LOAD_S_MAX, "pids": ",".join(map(str, ensemble.pids)),
        }  # fmt: skip
        command = [str(self._program), *(part for key, value in options.items() for part in (f"--{key}", str(value)))]
        with ExitStack() as stopping:
            with held():
                load = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                # The callbacks run in reverse order at the end of the block, so the load generator is killed before the
                # process is awaited, also after an interrupt or a timeout.
                stopping.enter_context(load)
                stopping.callback(load.kill)
            try:
                result, errors = load.communicate(timeout=LOAD_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                raise CannotMeasure(f"{work.title}: no result after {LOAD_TIMEOUT_S:.0f} s") from None
        if load.returncode:
            raise CannotMeasure(f"{work.title}: {errors.strip() or f'zkload ended with {load.returncode}'}")
        return msgspec.json.decode(result, type=Sample)


def check_out(commit: str, into: Path) -> str:
    """Write the files of a commit to a folder, and return the commit's short name.  Raises CannotMeasure."""
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
    """Compare zabka's ensemble with Apache ZooKeeper, or with an earlier commit.  Ctrl-C stops every server."""
    chosen = parse_works("set,get" if quick else works)
    defaults = (1.0, 1, 20_000) if quick else (2.0, 9, 200_000) if base else (5.0, 3, 1_000_000)
    given = (seconds, rounds, grown)
    plan = Plan(chosen, *(d if g is None else g for d, g in zip(defaults, given, strict=True)))  # type: ignore[arg-type]
    with bench_run("ensemble", as_json, data) as run:
        bench = Bench(run, build_zkload(run.directory), plan)
        if base is None:
            run.compare(f"Three servers, 100-byte values; Apache ZooKeeper {zookeeper_version()}", FIGURES)
            bench.compare(run.sides("zookeeper", only))
        else:
            _with_commit(run, bench, base, Shape(znodes=plan.grown))


def _with_commit(run: Run, bench: Bench, commit: str, shape: Shape) -> None:
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
