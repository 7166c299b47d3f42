"""Choice sequences as files: the findings and kept choice sequences of a search.

`zabka replay FILE` runs such a file.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from zabka.simulation.choices import Choices


class ChoicesFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A choice sequence and the world in which it runs.

    `settings` are KEY=VALUE, `plant` names the context manager that injects a bug (MODULE:NAME), `violated` contains
    the problems of the run, and `actions` describes each action of the run.
    """

    scenario: str
    choices: Choices
    settings: list[str] = []
    injected_bug: str = ""
    violated: list[str] = []
    actions: list[str] = []


def write_choices(file: ChoicesFile, path: Path) -> None:
    """Save a choice sequence as JSON. An existing file is replaced atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n")
    partial.replace(path)


def read_choices(path: Path) -> ChoicesFile:
    """Read a choice sequence from its file. Raises OSError, and msgspec.DecodeError if the file is invalid."""
    return msgspec.json.decode(path.read_bytes(), type=ChoicesFile)
