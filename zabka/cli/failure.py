"""How a verb that looks after clusters says that it cannot, and ends."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer


def fail(message: object, code: int = 1) -> NoReturn:
    """Say why on standard error, and exit."""
    print(f"zabka: {message}", file=sys.stderr)  # noqa: T201
    raise typer.Exit(code)
