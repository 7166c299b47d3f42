"""Tapes as files: what a search found, or kept, to be played again by `zabka replay FILE`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from zabka.simulation.kernel.tape import Tape


class TapeFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tape, and the world that it is for.

    `settings` are KEY=VALUE, `plant` is the context in which a bug was planted (MODULE:NAME), `violated` the problems
    of the run, `acts` what is done, in words.
    """

    scenario: str
    tape: Tape
    settings: list[str] = []
    plant: str = ""
    violated: list[str] = []
    acts: list[str] = []


def write_tape(file: TapeFile, path: Path) -> None:
    """Save it as JSON.  What was there is replaced whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n")
    partial.replace(path)


def read_tape(path: Path) -> TapeFile:
    """A tape from its file.  Raises OSError, and msgspec.DecodeError where it is none."""
    return msgspec.json.decode(path.read_bytes(), type=TapeFile)
