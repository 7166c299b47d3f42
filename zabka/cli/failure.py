"""The error exit of the verbs that manage clusters."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer


def fail(message: object, code: int = 1) -> NoReturn:
    """Print the reason on standard error, and exit."""
    print(f"zabka: {message}", file=sys.stderr)  # noqa: T201
    raise typer.Exit(code)
