"""One run of a benchmark: its temporary folder, its output, and its exit code.

Progress goes to standard error and tables to standard output.  With `--json`, standard output has one JSON object per
line (the machine, each measurement, each failure), and the tables go to standard error.  Exit codes: 0 for success; 1
if the benchmark cannot measure or zabka broke a guarantee; 2 for an invalid option; 130 after Ctrl-C, once every server
has been stopped.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bench.results import TITLES, Figure, Measurement, Side, comparison_table
from bench.servers import CannotMeasure, interruptible, java_major, missing, zookeeper_version
from scripts.setup.compiled_with_profiles import compiled_with_profiles

INTERRUPTED = 130
WIDTH = 160
"""Width of a table, in characters, if it is written to a file instead of a terminal."""

Only = Annotated[Literal["ours", "apache"] | None, typer.Option(help="Measure one side alone")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line on standard output")]
Quick = Annotated[bool, typer.Option("--quick", help="The shortest run: it shows that the bench works, no figures")]
Data = Annotated[
    Path | None, typer.Option(exists=True, file_okay=False, help="Where servers keep their logs meanwhile")
]


class Run:
    """The state of a run: its folder, measurements and failures."""

    def __init__(self, directory: Path, as_json: bool) -> None:
        self.directory = directory
        self.measurements: list[Measurement] = []
        self.failures: list[str] = []
        self.tables: Callable[[], Sequence[Table]] = list
        self.figures: Sequence[Figure] = ()
        self._json = as_json
        self._errors = Console(stderr=True, highlight=False)
        self._out = self._errors if as_json else Console(highlight=False)
        for console in (self._errors, self._out):
            if not console.is_terminal:
                console.width = WIDTH

    def compare(self, title: str, figures: Sequence[Figure]) -> None:
        """Show all measurements in one comparison table when the run ends."""
        self.figures = figures
        self.tables = lambda: [comparison_table(title, self.measurements, figures)]

    def note(self, text: str, style: str = "dim") -> None:
        """Print a line about the progress of the run."""
        self._errors.print(text, style=style, markup=False, soft_wrap=True)

    def result(self, text: str) -> None:
        """Print a line of the result that is not a measurement."""
        self._out.print(text, markup=False, soft_wrap=True)

    def add(self, measurement: Measurement) -> None:
        """Add a measurement to the run."""
        self.measurements.append(measurement)
        if measurement.side in ("ours", "base"):
            self.failures += [f"{measurement.work}, {TITLES[measurement.side]}: {p}" for p in measurement.problems]
        self.note(measurement.text(self.figures))
        self._print_json(measurement)

    def sides(self, apache: Side, only: Literal["ours", "apache"] | None) -> tuple[Side, ...]:
        """Return the sides to measure.

        If Apache's servers cannot be started on this machine, print a note and return only zabka. Raises CannotMeasure
        if only Apache's servers are requested.
        """
        reason = None if only == "ours" else missing(apache)
        if reason and only == "apache":
            raise CannotMeasure(f"{TITLES[apache]} cannot be measured: {reason}")
        if reason:
            self.note(f"{TITLES[apache]} is left out: {reason}", style="yellow")
        wanted: dict[str | None, tuple[Side, ...]] = {"ours": ("ours",), "apache": (apache,), None: ("ours", apache)}
        return wanted["ours" if reason else only]

    def end(self, machine: dict[str, object], code: int) -> int:
        """Print the tables and failures of the run; return its exit code."""
        if self.measurements:
            for table in (table for table in self.tables() if table.row_count):
                self._out.print(table)
            self.result(", ".join(f"{key.replace('_', ' ')} {value}" for key, value in machine.items()))
        for failure in self.failures:
            self._out.print(failure, style="red", markup=False, soft_wrap=True)
            self._print_json({"failure": failure})
        return code or (1 if self.failures else 0)

    def _print_json(self, value: object) -> None:
        if self._json:
            print(msgspec.json.encode(value).decode(), flush=True)


@contextmanager
def bench_run(name: str, as_json: bool = False, data: Path | None = None) -> Iterator[Run]:
    """Yield a run whose temporary folder is below `data`.  At the end, raise typer.Exit with the run's exit code."""
    code = 0
    with interruptible(), tempfile.TemporaryDirectory(prefix=f"zabka-{name}-", dir=data) as directory:
        run = Run(Path(directory), as_json)
        machine = describe(run.directory)
        run._print_json({"machine": machine})
        for caution in cautions(machine):
            run.note(caution, style="yellow")
        try:
            yield run
        except CannotMeasure as reason:
            run.note(f"bench {name}: {reason}", style="red")
            code = 1
        except KeyboardInterrupt:
            run.note("interrupted: every server is stopped; this was measured so far", style="yellow")
            code = INTERRUPTED
    raise typer.Exit(run.end(machine, code))


def fdatasync_ms(directory: Path) -> float:
    """Return the median time of a small append with fdatasync in `directory`."""
    times = []
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(50):
            begin = time.perf_counter()
            os.write(file.fileno(), b"x" * 512)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begin)
    return median(times) * 1000


def describe(directory: Path) -> dict[str, object]:
    """Return a description of the machine: cores, load, disk and versions."""
    cpus = Path("/proc/cpuinfo").read_text()
    return {
        "processor": found[1] if (found := re.search(r"model name\s*: (.*)", cpus)) else "unknown",
        "cores": len(os.sched_getaffinity(0)),
        "load_before": round(os.getloadavg()[0], 2),
        "fdatasync_ms": round(fdatasync_ms(directory), 3),
        "python": platform.python_version(),
        "python_with_profiles": compiled_with_profiles(),
        "java": java_major(),
        "zookeeper": zookeeper_version(),
    }


def cautions(machine: dict[str, object]) -> list[str]:
    """Return warnings about conditions that make the figures less reliable, such as load on the machine."""
    cores, load = machine["cores"], machine["load_before"]
    found = []
    if isinstance(cores, int) and isinstance(load, float) and load > cores * 0.25:
        found.append(
            f"noisy: other programs already keep the machine busy (load {load:.1f} on {cores} cores); "
            "ratios of CPU per operation are more reliable than those of throughput"
        )
    if not machine["python_with_profiles"]:
        found.append(
            f"slow Python: {sys.base_prefix} was compiled without profiles and takes a fifth more time; "
            "rm -r .venv && make setup takes a distribution's Python of the same version if there is one"
        )
    return found
