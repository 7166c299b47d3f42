"""`zabka peer`: run one server of the ensemble."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from zabka.compose.programs import run_peer


def main(arguments: list[str]) -> int:
    """Run the peer until it stops; return the exit code."""
    made = ArgumentParser(
        prog="zabka peer", description="Run one ensemble server in the foreground.", allow_abbrev=False
    )
    made.add_argument("--config", type=Path, required=True, metavar="FILE", help="A ZooKeeper zoo.cfg")
    return run_peer(made.parse_args(arguments).config)
