"""A console whose output may go to a pipe or a file, and tables whose names are never cut off."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.box import Box
from rich.console import Console
from rich.table import Table

from zabka.cli.broken_pipe import NobodyReads

UNBOUNDED = 10_000
"""The width of a pipe or a file: nothing is wrapped for a terminal that is not there, and each row is one line."""


class PipedConsole(Console):
    """Printing raises NobodyReads where a pipe is closed at its other end; Rich's own ends the process with 1."""

    def on_broken_pipe(self) -> None:
        """Rich asks what to do."""
        raise NobodyReads


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], box: Box | None = None) -> None:
    """Print rows, the name in the first column in full however narrow the terminal is; the others are wrapped."""
    listed = list(rows)
    table = Table(box=box)
    table.add_column(columns[0], no_wrap=True, min_width=max(len(row[0]) for row in (columns, *listed)))
    for column in columns[1:]:
        table.add_column(column, overflow="fold")
    for row in listed:
        table.add_row(*row)
    PipedConsole(width=None if sys.stdout.isatty() else UNBOUNDED).print(table)
