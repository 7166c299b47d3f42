"""The progress output of `up`: one updated line on a terminal, otherwise a line per message."""

from __future__ import annotations

import sys
from typing import Protocol


class Progress(Protocol):
    """Receives the progress of `up`."""

    def print_line(self, text: str) -> None: ...
    def waiting(self, text: str) -> None: ...
    def ready(self, url: str, notes: list[str]) -> None: ...
    def error(self, text: str) -> None: ...


class PlainProgress:
    """Prints a line per message, and flushes the output after each line."""

    def print_line(self, text: str) -> None:
        """Print one line of output."""
        print(f"  {text}", flush=True)  # noqa: T201

    def waiting(self, text: str) -> None:
        """Print what `up` is waiting for."""
        self.print_line(f"waiting: {text}")

    def ready(self, url: str, notes: list[str]) -> None:
        """Print the notes, and then, on a separate line, that the cluster is ready."""
        for note in notes:
            self.print_line(note)
        print(f"zabka is ready: {url}", flush=True)  # noqa: T201

    def error(self, text: str) -> None:
        """Print an error message."""
        print(f"zabka: {text}", file=sys.stderr, flush=True)  # noqa: T201

    def close(self) -> None:
        """Finish the output."""


class TerminalProgress(PlainProgress):
    """Shows a spinner while `up` waits, and colours if the terminal supports them."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False)
        self._status = self._console.status("starting")
        self._status.start()

    def print_line(self, text: str) -> None:
        """Print one line, above the spinner."""
        self._console.print(f"  {text}", markup=False)

    def waiting(self, text: str) -> None:
        """Show what `up` is waiting for, next to the spinner."""
        self._status.update(f"waiting: {text}")

    def ready(self, url: str, notes: list[str]) -> None:
        """Print the notes, and then, on a separate line, that the cluster is ready."""
        self._status.stop()
        super().ready(url, notes)
        self.print_line("press Ctrl-C to stop")

    def error(self, text: str) -> None:
        """Print an error on standard error."""
        self._status.stop()
        super().error(text)

    def close(self) -> None:
        """Remove the spinner, and restore the cursor."""
        self._status.stop()
