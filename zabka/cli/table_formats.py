"""Prints the rows of a table as text, CSV or JSON."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
from rich.box import HEAVY_HEAD
from rich.console import Console
from rich.markup import escape

from zabka.cli.piped_console import PipedConsole, print_table
from zabka.journal.printable import printable

_BORDER = 3
"""Width of the border between two columns, including its spaces."""


class Format(StrEnum):
    """An output format of a table."""

    TEXT = "text"
    CSV = "csv"
    JSON = "json"


def print_rows(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], form: Format) -> None:
    """Print rows on standard output as text, CSV or JSON.

    Text has one line per row and omits columns that repeat another column. If the terminal is too narrow, each value
    has its own line. CSV begins with the column names. JSON is an array with one object per line. A missing value is
    empty in text and CSV, and null in JSON.
    """
    if form is Format.CSV:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([[_cell(row[name]) for name in columns] for row in rows])
    elif form is Format.JSON:
        lines = ",\n".join(msgspec.json.encode(dict(row)).decode() for row in rows)
        sys.stdout.write(f"[\n{lines}\n]\n" if rows else "[]\n")
    else:
        shown = [name for name in columns if not _is_repeated(name, columns)]
        _print_text(shown, [[printable(_cell(row[name])) for name in shown] for row in rows])
    sys.stdout.flush()


def print_summaries(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows of the table `incidents` as sentences: a headline for each incident, and a line for each
    effect.
    """
    several = len({row["run"] for row in rows}) > 1
    console = PipedConsole(highlight=False, soft_wrap=True)
    for row in rows:
        run = f" of run {row['run']}" if several else ""
        console.print(printable(f"incident {row['number']}{run}: {row['headline']}"), style="bold", markup=False)
        for line in row["summary"].split("\n"):
            console.print(f"  {printable(line)}", markup=False)
    if not rows:
        console.print("no incidents")


def _is_repeated(name: str, columns: Sequence[str]) -> bool:
    """Return whether text output omits the column, because another column has the same value.

    These columns are `cluster_run` and `simulated_run` (repeat `run`), and times in microseconds (repeat timestamps).
    """
    if name in ("cluster_run", "simulated_run"):
        return "run" in columns
    return name.endswith("_us") and f"{name.removesuffix('_us')}_ts" in columns


def _cell(value: Any) -> str:
    """Return a value as the text of a cell: lists and structs as JSON, a missing value as an empty string."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return msgspec.json.encode(value).decode()


def _print_text(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, each)) for each in zip(columns, *rows, strict=True)]
    if not sys.stdout.isatty() or sum(widths) + _BORDER * len(widths) < Console().width:
        print_table(columns, [[escape(cell) for cell in row] for row in rows], HEAVY_HEAD)
        return
    console, width = PipedConsole(highlight=False, soft_wrap=True), max(map(len, columns))
    for number, row in enumerate(rows, start=1):
        console.print(f"row {number}", style="bold")
        for name, cell in zip(columns, row, strict=True):
            console.print(f"  {name:{width}}  {cell}", markup=False)
