"""`zabka broker`: one broker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zabka.compose.programs import run_broker


def command(config: Annotated[Path, typer.Option(help="A Kafka server.properties")]) -> None:
    """Run one broker in the foreground."""
    raise typer.Exit(run_broker(config))
