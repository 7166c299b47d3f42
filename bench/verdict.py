"""How a bench that judges histories ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import typer


def counted(troubles: Mapping[str, int]) -> str:
    """What was done to the servers, by kind."""
    return ", ".join(f"{count} x {kind}" for kind, count in sorted(troubles.items()))


def end_with(wrong: Sequence[str]) -> None:
    """Print what is wrong, a line each; the exit code is 1 where anything is."""
    for line in wrong:
        typer.echo(line)
    typer.echo("all of it holds" if not wrong else f"{len(wrong)} violations")
    raise typer.Exit(1 if wrong else 0)
