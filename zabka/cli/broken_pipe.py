"""Output to a pipe that is closed at its other end (`| head -1`).

Typer ends with 1 there, which is some verbs' verdict: `NobodyReads` passes through it.
"""

from __future__ import annotations

from typing import Any

from zabka.cli.command_group import CommandGroup


class NobodyReads(Exception):
    """What is written is read by nobody any more."""


class PipedGroup(CommandGroup):
    """Verbs whose output may go to a pipe."""

    def invoke(self, ctx: Any) -> Any:
        """Call the verb.  Raises NobodyReads."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as failed:
            raise NobodyReads from failed
