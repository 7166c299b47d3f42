"""A console for output to a pipe or a file, and tables that show names in full."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.box import Box
from rich.console import Console
from rich.table import Table

from zabka.cli.broken_pipe import PipeClosed

UNBOUNDED = 10_000
"""Line width for a pipe or a file. Lines are not wrapped there, so each row is one line."""


class PipedConsole(Console):
    """A console that raises PipeClosed if its output pipe is closed. Rich itself would exit with code 1."""

    def on_broken_pipe(self) -> None:
        """Raise PipeClosed. Rich calls this method if the output pipe is closed."""
        raise PipeClosed


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], box: Box | None = None) -> None:
    """Print rows as a table. On a narrow terminal, wrap all columns except the first, which contains the names."""
    listed = list(rows)
    table = Table(box=box)
    table.add_column(columns[0], no_wrap=True, min_width=max(len(row[0]) for row in (columns, *listed)))
    for column in columns[1:]:
        table.add_column(column, overflow="fold")
    for row in listed:
        table.add_row(*row)
    PipedConsole(width=None if sys.stdout.isatty() else UNBOUNDED).print(table)
