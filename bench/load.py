"""The load generator: built from zkload.c when it is first needed, then run for one measurement at a time."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench.interrupts import held
from bench.works import Work

SOURCE = Path(__file__).with_name("zkload.c")
COMPILERS = ("cc", "gcc", "clang")
BUILD_TIMEOUT_S = 120
RUN_MARGIN_S = 60.0
"""How much longer than asked for zkload may take: it writes its keys one by one first."""

LOAD_S_MAX = 600.0
"""A load that has not come to its end by then will not do so in a time that anybody waits."""


class CannotMeasure(Exception):
    """Something that the measurement needs is missing or failed; the message says what."""


class Sample(msgspec.Struct, frozen=True, rename={"cpu_us": "cpu_us_per_op"}):
    """What zkload says of one measurement; `cpu_us` is the CPU time of all servers together per operation."""

    ops: int
    ops_per_s: float
    errors: int
    order_errors: int
    dropped: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    longest_gap_ms: float
    cpu_us: float = 0.0

    @property
    def faults(self) -> str:
        """What went wrong, in words; empty where nothing did."""
        counts = {
            "error replies": self.errors,
            "replies out of order": self.order_errors,
            "dropped connections": self.dropped,
        }
        found = [f"{count} {name}" for name, count in counts.items() if count]
        return ", ".join(found if self.ops else [*found, "not one reply"])


def find_compiler() -> str | None:
    """A C compiler: what CC names, else cc, gcc or clang."""
    candidates = (os.environ["CC"],) if os.environ.get("CC") else COMPILERS
    return next((found for name in candidates if (found := shutil.which(name))), None)


def default_cache() -> Path:
    """Where the built program is kept."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "zabka"


def build_zkload(cache: Path) -> Path:
    """Build zkload into `cache` unless this very source was built there before.  Raises CannotMeasure."""
    if not sys.platform.startswith("linux"):
        raise CannotMeasure("the load generator needs Linux (epoll, /proc)")
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    program = cache / f"zkload-{digest}"
    if program.exists():
        return program
    compiler = find_compiler()
    if compiler is None:
        raise CannotMeasure(
            "no C compiler found (cc, gcc or clang, or name one with CC=…): the load generator is written in C, "
            "so that it takes next to nothing of the cores it shares with the servers"
        )
    try:
        cache.mkdir(parents=True, exist_ok=True)
        # Built beside its place and renamed: two runs at once must not execute each other's half-written program.
        with tempfile.TemporaryDirectory(dir=cache) as made:
            output = Path(made) / "zkload"
            command = [compiler, "-O2", "-o", str(output), str(SOURCE)]
            built = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
            if built.returncode:
                raise CannotMeasure(f"{compiler} cannot build {SOURCE.name}:\n{built.stderr.strip()}")
            output.rename(program)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise CannotMeasure(f"cannot build the load generator: {failure}") from failure
    return program


def run_load(program: Path, work: Work, hosts: list[str], pids: list[int], ops: int, warm_up_ops: int) -> Sample:
    """Measure so many operations of a work, after others of it that do not count.  Raises CannotMeasure."""
    options = {"ops": ops, "skip": warm_up_ops, "seconds": LOAD_S_MAX, "pids": ",".join(map(str, pids))}
    return _run(program, work, hosts, options, LOAD_S_MAX + RUN_MARGIN_S)


def fill(program: Path, work: Work, hosts: list[str], znodes: int) -> Sample:
    """Make so many znodes with a work that creates.  Raises CannotMeasure."""
    return _run(program, work, hosts, {"ops": znodes, "seconds": LOAD_S_MAX}, LOAD_S_MAX + RUN_MARGIN_S)


def _run(program: Path, work: Work, hosts: list[str], more: dict[str, object], patience_s: float) -> Sample:
    options = {"hosts": ",".join(hosts), "op": work.op, "conns": work.connections, "window": work.window, **more}
    command = [str(program), *(part for key, value in options.items() for part in (f"--{key}", str(value)))]
    with ExitStack() as stopping:
        with held():
            load = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            # Run in the reverse order: where an interrupt or the time-out ends the wait it must not go on loading.
            stopping.enter_context(load)
            stopping.callback(load.kill)
        try:
            result, said = load.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            raise CannotMeasure(f"{work.title}: no result after {patience_s:.0f} s; do the servers answer?") from None
    if load.returncode:
        raise CannotMeasure(f"{work.title}: {said.strip() or f'zkload ended with {load.returncode}'}")
    return msgspec.json.decode(result, type=Sample)
