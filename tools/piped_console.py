"""A console whose output may go to a pipe."""

from __future__ import annotations

from rich.console import Console

from tools.broken_pipe import NobodyReads


class PipedConsole(Console):
    """Printing raises NobodyReads where a pipe is closed at its other end; Rich's own ends the process with 1."""

    def on_broken_pipe(self) -> None:
        """Rich asks what to do."""
        raise NobodyReads
