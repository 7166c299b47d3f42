"""How a run goes, on standard error: a bar with the time that is left, and a line per measurement that stays."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class BarProgress:
    """Use with `with`.  Where standard error is no terminal there is no bar, only the lines."""

    def __init__(self, console: Console, expected_s: float) -> None:
        self._console = console
        columns = (BarColumn(20), TimeRemainingColumn(), TextColumn("{task.description}"))
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("starting", total=expected_s)

    def __enter__(self) -> BarProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def doing(self, text: str) -> None:
        """What is going on."""
        self._bar.update(self._task, description=text)

    def done(self, text: str, seconds: float) -> None:
        """A step is done that was to take so many seconds; `text` stays on the screen."""
        self._bar.advance(self._task, seconds)
        if text:
            self._console.print(text, markup=False)
