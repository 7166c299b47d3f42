"""A console for output to a pipe or a file, and tables that show names in full."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.box import Box
from rich.console import Console
from rich.table import Table

from zabka.cli.broken_pipe import PipeClosed

UNBOUNDED = 10_000
"""The line width for a pipe or a file, so that each row is one line: without a terminal, lines are not wrapped."""


class PipedConsole(Console):
    """A console that raises PipeClosed for a closed pipe; Rich itself would end the process with exit code 1."""

    def on_broken_pipe(self) -> None:
        """Raise PipeClosed; Rich calls this for a closed pipe."""
        raise PipeClosed


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], box: Box | None = None) -> None:
    """Print rows. On a narrow terminal all columns but the first, which contains the names, are wrapped."""
    listed = list(rows)
    table = Table(box=box)
    table.add_column(columns[0], no_wrap=True, min_width=max(len(row[0]) for row in (columns, *listed)))
    for column in columns[1:]:
        table.add_column(column, overflow="fold")
    for row in listed:
        table.add_row(*row)
    PipedConsole(width=None if sys.stdout.isatty() else UNBOUNDED).print(table)
