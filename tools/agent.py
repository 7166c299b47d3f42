"""`zabka agent`: the process that looks after the nodes of one host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(config: Annotated[Path, typer.Option(help="An agent.json, as `up` and the containers write it")]) -> None:
    """Run one host agent in the foreground, as a container's first process."""
    from compose.agent import main as run

    raise typer.Exit(run(config))
