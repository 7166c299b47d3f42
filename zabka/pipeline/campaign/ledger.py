"""Stores the finished runs of a campaign in a file as they arrive, so that a killed campaign can resume.

The file has one line per run, and is synced before the run counts as finished. When the file is opened again, a torn
last line is removed, and its run counts as not executed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Lock

import msgspec

from zabka.pipeline.campaign.play import Played, decoded

RUNS = "runs.jsonl"
DEFINITION = "campaign.toml"
CODE = "code"
"""Ledger key for the digest of the code version that executed the runs."""
PACKAGES = ("journal", "ensemble", "kafka", "controller", "broker_sim", "simulation")
"""The packages that make up the simulated world."""
MEASURES = (
    "clients", "evictions", "failovers", "figures", "lives", "measures", "partition_times", "play", "record_losses",
)  # fmt: skip
"""Modules of this package that compute the figures of a run."""


class NotThisCampaign(Exception):
    """The directory contains the runs of another campaign, or another process is using it."""


class Ledger:
    """Runs of one campaign, by point and seed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self.runs: dict[tuple[int, int], Played] = {}
        self._file = path.open("ab+")
        try:
            self._load()
        except BaseException:
            self._file.close()
            raise

    def _load(self) -> None:
        data = self._path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            self._file.truncate(whole)
        for number, line in enumerate(data[:whole].split(b"\n")[:-1], start=1):
            try:
                played = decoded(line)
            except msgspec.MsgspecError as reason:
                raise NotThisCampaign(f"{self._path}:{number} is not a run: {reason}") from None
            self.runs[played.point, played.seed] = played

    def keep(self, line: bytes) -> Played | None:
        """Store the encoded row of a run, and return it decoded; return None if the run is already stored."""
        played = decoded(line)
        with self._lock:
            if (played.point, played.seed) in self.runs:
                return None
            self._file.write(line + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
            self.runs[played.point, played.seed] = played
        return played

    def close(self) -> None:
        """Close the ledger's file."""
        self._file.close()


@contextmanager
def opened(directory: Path, definition: str) -> Iterator[Ledger]:
    """Open the ledger in a campaign's directory; only one process at a time can have it open. Raises
    NotThisCampaign.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise NotThisCampaign(f"another process runs the campaign in {directory}") from None
        _agree(
            directory / DEFINITION, definition,
            f"{directory} holds the runs of another campaign ({DEFINITION} differs)",
        )  # fmt: skip
        _agree(
            directory / CODE, code_digest(),
            f"{directory} holds runs that another version of zabka played, which are not compared with new ones",
        )  # fmt: skip
        ledger = Ledger(directory / RUNS)
        try:
            yield ledger
        finally:
            ledger.close()


def _agree(place: Path, text: str, otherwise: str) -> None:
    """Store `text`, on which the runs depend, before the first run.

    Raises NotThisCampaign if a different text is already stored.
    """
    written = place.read_text() if place.exists() else None
    played = place.with_name(RUNS)
    if written != text and (written is not None or (played.exists() and played.stat().st_size)):
        raise NotThisCampaign(f"{otherwise}: name another --out, or remove it")
    if written is None:
        aside = place.with_name(f".{place.name}")
        aside.write_text(text)
        aside.replace(place)


def code_digest() -> str:
    """Return the digest of all code in this process that affects a run's result; it is the same in any directory.

    Runs of two code versions are not compared: a change in a broker or in a measure must not count as a difference
    between settings.
    """
    root = Path(__file__).parents[2]
    files = [path for package in PACKAGES for path in (root / package).rglob("*.py")]
    files += [Path(__file__).with_name(f"{name}.py") for name in MEASURES]
    found = sha256()
    for path in sorted(files):
        data = path.read_bytes()
        found.update(f"{path.relative_to(root).as_posix()} {len(data)}\n".encode() + data)
    return found.hexdigest()
