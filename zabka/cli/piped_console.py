"""A console for output to a pipe or a file, and tables that show names in full."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.box import Box
from rich.console import Console
from rich.table import Table

from zabka.cli.broken_pipe import PipeClosed

UNBOUNDED = 10_000
"""The width of a pipe or a file: lines are not wrapped without a terminal, and each row is one line."""


class PipedConsole(Console):
    """Raises PipeClosed when a closed pipe is written to; Rich itself would end the process with 1."""

    def on_broken_pipe(self) -> None:
        """Handle a closed pipe; Rich calls this."""
        raise PipeClosed


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], box: Box | None = None) -> None:
    """Print rows; the first column's names are never wrapped, even on a narrow terminal, but the others are."""
    listed = list(rows)
    table = Table(box=box)
    table.add_column(columns[0], no_wrap=True, min_width=max(len(row[0]) for row in (columns, *listed)))
    for column in columns[1:]:
        table.add_column(column, overflow="fold")
    for row in listed:
        table.add_row(*row)
    PipedConsole(width=None if sys.stdout.isatty() else UNBOUNDED).print(table)
