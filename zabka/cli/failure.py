"""Error exit of the commands: a message on standard error, and an exit code."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer


def fail(message: object, code: int = 1) -> NoReturn:
    """Print the message on standard error, and exit with `code`."""
    print(f"zabka: {message}", file=sys.stderr)  # noqa: T201
    raise typer.Exit(code)
