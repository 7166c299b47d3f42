"""`zabka status`: print the processes of a cluster."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from zabka.cli.failure import fail
from zabka.cli.options import Data


def command(
    data: Data = Path(".zabka"),
    as_json: Annotated[bool, typer.Option("--json", envvar="ZABKA_JSON", help="Print JSON")] = False,
) -> None:
    """Print the health of a cluster, its processes and their addresses."""
    from zabka.compose.status import read_status, show
    from zabka.compose.topology import BadTopology

    try:
        found = read_status(data.absolute())
    except (BadTopology, OSError) as reason:
        fail(reason)
    if found is None:
        fail(f"there is no cluster in {data}")
    print(json.dumps(found, indent=2) if as_json else show(found, colours=_has_colours()))  # noqa: T201
    raise typer.Exit(0 if found["running"] else 3)


def _has_colours() -> bool:
    """Return whether to print colours: standard output is a terminal and NO_COLOR is not set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
