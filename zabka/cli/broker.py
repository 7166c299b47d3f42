"""`zabka broker`: run one broker."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from zabka.compose.programs import run_broker


def main(arguments: list[str]) -> int:
    """Run the broker until it stops; return the exit code."""
    made = ArgumentParser(prog="zabka broker", description="Run one broker in the foreground.", allow_abbrev=False)
    made.add_argument("--config", type=Path, required=True, metavar="FILE", help="A Kafka server.properties")
    return run_broker(made.parse_args(arguments).config)
