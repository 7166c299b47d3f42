"""The directory of a search: the parameters, the kept choice sequences, the findings and the progress.

`search.json` contains the parameters and the number of runs, `kept/` the choice sequences that reached new features,
and `found/` the violations, each as a choice sequence that `zabka replay` can run.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from zabka.simulation.choices import Choices
from zabka.simulation.search.choice_search import Found, Requested, kind_of
from zabka.simulation.search.choices_file import ChoicesFile, read_choices, write_choices
from zabka.simulation.search.corpus import Kept

T = TypeVar("T")

STATE, KEPT, FOUND = "search.json", "kept", "found"


class State(msgspec.Struct):
    """The parameters and progress of a search."""

    scenario: str
    settings: list[str]
    injected_bug: str
    seed: int
    runs: int = 0
    cpu_s: float = 0.0


class OtherSearch(Exception):
    """The directory belongs to a search with other parameters or to a running search, or contains unrelated files."""


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Lock the directory of a search for this process, and create it if missing. Raises OtherSearch, OSError."""
    path.mkdir(parents=True, exist_ok=True)
    with (path / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OtherSearch(f"another process searches in {path}; take another --out") from None
        yield


class ChoicesFolder:
    """The directory of one search, created if missing."""

    def __init__(self, path: Path, wanted: Requested) -> None:
        """Open the directory. Raises OtherSearch (also if a file has unexpected contents) and OSError."""
        self.path = path
        self._wanted = wanted
        self.state = State(wanted.scenario, list(wanted.settings), wanted.injected_bug, wanted.seed)
        (path / KEPT).mkdir(parents=True, exist_ok=True)
        (path / FOUND).mkdir(exist_ok=True)
        if (path / STATE).exists():
            before = _decoded(path / STATE, State)
            asked = before.scenario, before.settings, before.injected_bug, before.seed
            if asked != (self.state.scenario, self.state.settings, self.state.injected_bug, self.state.seed):
                raise OtherSearch(f"{path} holds a search of {before.scenario} with other options; take another --out")
            self.state = before

    def kept(self) -> list[Kept]:
        """Return the choice sequences kept so far, in order. Raises OtherSearch, OSError."""
        return [_decoded(file, Kept) for file in _files(self.path / KEPT)]

    def findings(self) -> dict[Path, Found]:
        """Return the findings so far, keyed by the paths of their files, in order. Raises OtherSearch, OSError."""
        found: dict[Path, Found] = {}
        for path in _files(self.path / FOUND):
            try:
                file = read_choices(path)
                found[path] = Found(int(path.stem), kind_of(file.violated[0]), file.violated, file.choices)
            except (ValueError, IndexError) as reason:
                raise OtherSearch(f"{path} is no finding: {reason}") from None
        return found

    def keep(self, run: int, kept: Kept) -> None:
        """Save a choice sequence that the corpus has kept."""
        _write(self.path / KEPT / f"{run:08}.json", msgspec.json.encode(kept))

    def save(self, runs: int, cpu_s: float) -> None:
        """Save the progress of the search."""
        self.state.runs, self.state.cpu_s = runs, cpu_s
        _write(self.path / STATE, msgspec.json.encode(self.state) + b"\n")

    def found(self, found: Found, choices: Choices, problems: list[str], actions: list[str]) -> Path:
        """Save a finding, and return the path of its file."""
        path = self.path / FOUND / f"{found.run:08}.json"
        wanted = self._wanted
        write_choices(
            ChoicesFile(wanted.scenario, choices, list(wanted.settings), wanted.injected_bug, problems, actions), path
        )
        return path


def _files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.json"))


def _decoded(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.DecodeError as reason:
        raise OtherSearch(f"{path} is not a file of a search: {reason}") from None


def _write(path: Path, data: bytes) -> None:
    """Replace the file atomically, because the search can be killed at any time and resumed later."""
    partial = path.with_suffix(".part")
    partial.write_bytes(data)
    partial.replace(path)
