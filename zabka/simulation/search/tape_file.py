"""Tapes as files: findings and kept tapes of a search, which `zabka replay FILE` plays again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from zabka.simulation.choices import Tape


class TapeFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tape and its world.

    `settings` are KEY=VALUE, `plant` is the context of an injected bug (MODULE:NAME), `violated` holds the problems of
    the run, `acts` a description of its actions.
    """

    scenario: str
    tape: Tape
    settings: list[str] = []
    plant: str = ""
    violated: list[str] = []
    acts: list[str] = []


def write_tape(file: TapeFile, path: Path) -> None:
    """Save it as JSON. An existing file is replaced atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n")
    partial.replace(path)


def read_tape(path: Path) -> TapeFile:
    """Read a tape from its file. Raises OSError, and msgspec.DecodeError if it is invalid."""
    return msgspec.json.decode(path.read_bytes(), type=TapeFile)
