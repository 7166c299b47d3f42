"""One run of a benchmark: its folder, what it prints, and how it ends.

Progress goes to standard error and tables to standard output.  With `--json` standard output has one JSON object a
line (the machine, each measurement, each failure), and the tables go to standard error.  Exit codes: 0; 1 if it cannot
measure, or zabka broke a guarantee; 2 for a bad option; 130 after Ctrl-C, when every server has been stopped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bench.machine import cautions, describe
from bench.processes import CannotMeasure, interruptible
from bench.results import TITLES, Figure, Measurement, Side, comparison_table
from bench.servers import missing

INTERRUPTED = 130
WIDTH = 160
"""Of a table that is written to a file."""

Only = Annotated[Literal["ours", "apache"] | None, typer.Option(help="Measure one side alone")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line on standard output")]
Quick = Annotated[bool, typer.Option("--quick", help="The shortest run: it shows that the bench works, no figures")]
Data = Annotated[
    Path | None, typer.Option(exists=True, file_okay=False, help="Where servers keep their logs meanwhile")
]


class Run:
    """What a benchmark measures with: a folder, and what was found so far."""

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
        """Show all measurements in one table at the end."""
        self.figures = figures
        self.tables = lambda: [comparison_table(title, self.measurements, figures)]

    def note(self, text: str, style: str = "dim") -> None:
        """Say how the run proceeds."""
        self._errors.print(text, style=style, markup=False, soft_wrap=True)

    def result(self, text: str) -> None:
        """A line of the result that is no measurement."""
        self._out.print(text, markup=False, soft_wrap=True)

    def add(self, measurement: Measurement) -> None:
        """Keep a measurement."""
        self.measurements.append(measurement)
        if measurement.side in ("ours", "base"):
            self.failures += [f"{measurement.work}, {TITLES[measurement.side]}: {p}" for p in measurement.problems]
        self.note(measurement.text(self.figures))
        self._print_json(measurement)

    def sides(self, apache: Side, only: Literal["ours", "apache"] | None) -> tuple[Side, ...]:
        """The sides to measure; zabka alone, and a note, if Apache's servers cannot be started here.

        Raises CannotMeasure if Apache's alone are asked for.
        """
        reason = None if only == "ours" else missing(apache)
        if reason and only == "apache":
            raise CannotMeasure(f"{TITLES[apache]} cannot be measured: {reason}")
        if reason:
            self.note(f"{TITLES[apache]} is left out: {reason}", style="yellow")
        wanted: dict[str | None, tuple[Side, ...]] = {"ours": ("ours",), "apache": (apache,), None: ("ours", apache)}
        return wanted["ours" if reason else only]

    def end(self, machine: dict[str, object], code: int) -> int:
        """Print the tables and failures; return the exit code."""
        if self.measurements:
            for table in self.tables():
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
    """A run in a temporary folder below `data`; it ends the command with the exit code.  Raises typer.Exit."""
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
