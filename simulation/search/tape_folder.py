"""The directory of a search: what it was asked, the tapes that it kept, what it found, and how far it came.

`search.json` is the question and the count of runs, `kept/` has the tapes that reached something new, `found/` what was
violated, each as a tape that `zabka replay` plays.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from simulation.kernel.tape import Tape
from simulation.search.corpus import Kept
from simulation.search.tape_file import TapeFile, write_tape
from simulation.search.tape_search import Found, Wanted

STATE, KEPT, FOUND = "search.json", "kept", "found"


class State(msgspec.Struct):
    """What was asked, and how far the search came."""

    scenario: str
    settings: list[str]
    plant: str
    seed: int
    runs: int = 0
    cpu_s: float = 0.0


class OtherSearch(Exception):
    """The directory holds a search that was asked something else."""


class TapeFolder:
    """One such directory; it is made where it is missing."""

    def __init__(self, path: Path, wanted: Wanted) -> None:
        """Raises OtherSearch, OSError, and msgspec.DecodeError where a file is none of ours."""
        self.path = path
        self._wanted = wanted
        self.state = State(wanted.scenario, list(wanted.settings), wanted.plant, wanted.seed)
        (path / KEPT).mkdir(parents=True, exist_ok=True)
        (path / FOUND).mkdir(exist_ok=True)
        if (path / STATE).exists():
            before = msgspec.json.decode((path / STATE).read_bytes(), type=State)
            asked = before.scenario, before.settings, before.plant, before.seed
            if asked != (self.state.scenario, self.state.settings, self.state.plant, self.state.seed):
                raise OtherSearch(f"{path} holds a search of {before.scenario} with other options; take another --out")
            self.state = before

    def kept(self) -> list[Kept]:
        """The tapes that were kept so far, in order."""
        return [msgspec.json.decode(file.read_bytes(), type=Kept) for file in sorted((self.path / KEPT).glob("*.json"))]

    def keep(self, run: int, kept: Kept) -> None:
        """One more of them."""
        (self.path / KEPT / f"{run:08}.json").write_bytes(msgspec.json.encode(kept))

    def save(self, runs: int, cpu_s: float) -> None:
        """How far the search has come."""
        self.state.runs, self.state.cpu_s = runs, cpu_s
        partial = self.path / f"{STATE}.part"
        partial.write_bytes(msgspec.json.encode(self.state) + b"\n")
        partial.replace(self.path / STATE)

    def found(self, found: Found, tape: Tape, problems: list[str], acts: list[str]) -> Path:
        """Write down what was found; where that stands."""
        path = self.path / FOUND / f"{found.run:08}.json"
        wanted = self._wanted
        write_tape(TapeFile(wanted.scenario, tape, list(wanted.settings), wanted.plant, problems, acts), path)
        return path
