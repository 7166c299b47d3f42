"""What `up` tells while it works: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import Protocol


class Progress(Protocol):
    """Where `up` reports to."""

    def say(self, text: str) -> None: ...
    def waiting(self, text: str) -> None: ...
    def ready(self, url: str, notes: list[str]) -> None: ...
    def error(self, text: str) -> None: ...


class PlainProgress:
    """Plain lines, flushed one by one."""

    def say(self, text: str) -> None:
        """One line."""
        print(f"  {text}", flush=True)  # noqa: T201

    def waiting(self, text: str) -> None:
        """What is being waited for."""
        self.say(f"waiting: {text}")

    def ready(self, url: str, notes: list[str]) -> None:
        """The cluster serves; the line stands alone."""
        for note in notes:
            self.say(note)
        print(f"zabka is ready: {url}", flush=True)  # noqa: T201

    def error(self, text: str) -> None:
        """Trouble."""
        print(f"zabka: {text}", file=sys.stderr, flush=True)  # noqa: T201

    def close(self) -> None:
        """Nothing more is told."""


class TerminalProgress(PlainProgress):
    """A spinner while waiting, colour where the terminal has it."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False)
        self._status = self._console.status("starting")
        self._status.start()

    def say(self, text: str) -> None:
        """One line, above the spinner."""
        self._console.print(f"  {text}", markup=False)

    def waiting(self, text: str) -> None:
        """What is being waited for, beside the spinner."""
        self._status.update(f"waiting: {text}")

    def ready(self, url: str, notes: list[str]) -> None:
        """The cluster serves; the line stands alone."""
        self._status.stop()
        super().ready(url, notes)
        self.say("press Ctrl-C to stop")

    def error(self, text: str) -> None:
        """Trouble, on standard error."""
        self._status.stop()
        super().error(text)

    def close(self) -> None:
        """The spinner is gone, and the cursor back."""
        self._status.stop()
