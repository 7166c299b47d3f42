"""`zabka peer`: one server of the ensemble."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zabka.compose.programs import run_peer


def command(config: Annotated[Path, typer.Option(help="A ZooKeeper zoo.cfg")]) -> None:
    """Run one ensemble server in the foreground."""
    raise typer.Exit(run_peer(config))
