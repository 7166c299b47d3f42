"""`zabka down`: stop a cluster."""

from __future__ import annotations

from pathlib import Path

from zabka.cli.failure import fail
from zabka.cli.options import Data


def command(data: Data = Path(".zabka")) -> None:
    """Stop the cluster of a data directory."""
    from zabka.compose.up import CannotStart
    from zabka.compose.up import down as run

    try:
        stopped = run(data.absolute())
    except (CannotStart, OSError) as reason:
        fail(reason)
    print("stopped" if stopped else f"no cluster is running in {data}")  # noqa: T201
