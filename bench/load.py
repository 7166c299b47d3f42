"""Closed-loop load on an ensemble: zkload, which takes little of the cores that it shares with the servers.

Each side does the same number of operations, so that the trees remain equal: in a fixed time the faster side would make
the larger tree, and be measured on it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec
import typer

from bench.processes import CannotMeasure, held
from bench.servers import Ensemble, node_count

SOURCE = Path(__file__).with_name("zkload.c")
LOAD_S_MAX = 600.0
MARGIN_S = 60.0
"""zkload may take this much longer than its own limit: it writes its keys one by one first."""
WARM_UP_SHARE = 8
"""One operation in eight precedes each measurement uncounted, to open connections and fill pipelines."""


class Work(NamedTuple):
    """A kind of load: zkload's operation, connections, requests in flight on each, and about how many operations Apache
    ZooKeeper does in a second on two cores, from which the number of operations follows."""

    name: str
    op: str
    connections: int
    window: int
    title: str
    usual_per_s: int

    def ops(self, seconds: float) -> int:
        """The number of operations that take ZooKeeper about that long."""
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
"""By name, in the order of the table.  16 x 32 is 16 connections with 32 requests in flight on each."""


def parse_works(text: str) -> list[Work]:
    """Works by their names, separated by commas, in the order of the table.  Raises BadParameter."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in WORKS]
    if unknown or not names:
        wrong = f"unknown work: {', '.join(unknown)}" if unknown else "no work is named"
        raise typer.BadParameter(f"{wrong}; the works are {', '.join(WORKS)}")
    return [work for work in WORKS.values() if work.name in names]


class Sample(msgspec.Struct, frozen=True):
    """What zkload reports of one measurement; `cpu_us_per_op` is CPU time of all servers together."""

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
        """Broken guarantees of the protocol."""
        counts = {
            "error replies": self.errors,
            "replies out of order": self.order_errors,
            "dropped connections": self.dropped,
        }
        found = [f"{count} {name}" for name, count in counts.items() if count]
        return found if self.ops else [*found, "not one reply"]


def build_zkload(directory: Path) -> Path:
    """Build zkload in `directory`.  Raises CannotMeasure."""
    if not sys.platform.startswith("linux"):
        raise CannotMeasure("the load generator needs Linux (epoll, /proc)")
    compiler = next(filter(shutil.which, (os.environ.get("CC", "cc"), "cc", "gcc", "clang")), None)
    if compiler is None:
        raise CannotMeasure("no C compiler found: install cc, gcc or clang, or set CC")
    program = directory / "zkload"
    built = subprocess.run([compiler, "-O2", "-o", program, SOURCE], capture_output=True, text=True, check=False)
    if built.returncode:
        raise CannotMeasure(f"{compiler} cannot build {SOURCE.name}:\n{built.stderr.strip()}")
    return program


class Load:
    """Loads ensembles with zkload.  All methods raise CannotMeasure."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def warm_up(self, ensemble: Ensemble, works: Sequence[Work], seconds: float) -> None:
        """Run each kind of operation for its share of the time; the JVM compiles each separately."""
        operations = {work.op: WORKS[work.op] for work in works}
        for work in operations.values():
            self._run(work, ensemble, work.ops(seconds / len(operations)), 0)

    def measure(self, ensemble: Ensemble, work: Work, seconds: float) -> Sample:
        """Measure as many operations as take ZooKeeper that long."""
        ops = work.ops(seconds)
        return self._run(work, ensemble, ops, ops // WARM_UP_SHARE)

    def grow(self, ensemble: Ensemble, znodes: int) -> None:
        """Create znodes of 100 bytes until the tree has that many."""
        missing = znodes - node_count(ensemble.hosts[0])
        if missing > 0:
            sample = self._run(WORKS["create"], ensemble, missing, 0)
            if sample.ops != missing or sample.problems:
                raise CannotMeasure(f"{sample.ops:,} of {missing:,} znodes created; {', '.join(sample.problems)}")

    def _run(self, work: Work, ensemble: Ensemble, ops: int, warm_up_ops: int) -> Sample:
        options = {
            "hosts": ",".join(ensemble.hosts), "op": work.op, "conns": work.connections, "window": work.window,
            "ops": ops, "skip": warm_up_ops, "seconds": LOAD_S_MAX, "pids": ",".join(map(str, ensemble.pids)),
        }  # fmt: skip
        command = [str(self._program), *(part for key, value in options.items() for part in (f"--{key}", str(value)))]
        with ExitStack() as stopping:
            with held():
                load = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                # Exits run in reverse order: after an interrupt or a timeout the load must stop.
                stopping.enter_context(load)
                stopping.callback(load.kill)
            try:
                result, errors = load.communicate(timeout=LOAD_S_MAX + MARGIN_S)
            except subprocess.TimeoutExpired:
                raise CannotMeasure(f"{work.title}: no result after {LOAD_S_MAX + MARGIN_S:.0f} s") from None
        if load.returncode:
            raise CannotMeasure(f"{work.title}: {errors.strip() or f'zkload ended with {load.returncode}'}")
        return msgspec.json.decode(result, type=Sample)
