"""Stored runs, limited in number and total size. Each has a directory with a journal and a description."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec
import structlog
from pydantic import ValidationError

from zabka.api.http.problems import Problem
from zabka.api.runs.origins import origin_in
from zabka.api.runs.run_models import Run
from zabka.journal.events import SCHEMA_VERSION, Entry
from zabka.journal.reader import schema_of

RUNS_MAX = 50
RUNS_BYTES_MAX = 512 * 1024 * 1024
JOURNAL, MESSAGES, ABOUT = "journal.jsonl", "messages.jsonl", "run.json"
_UNFINISHED = ".unfinished"
"""Suffix of incomplete run directories, which are removed when the stored runs are loaded."""
_ID = re.compile(r"r[0-9a-f]{8}(\.bug)?")

_encode = msgspec.json.Encoder().encode
log = structlog.get_logger()


class KeptRuns:
    """The runs stored below a directory, oldest first.

    If there are more than `runs_max` runs or `bytes_max` bytes, the oldest runs are removed. A run whose files are
    missing is removed from the list. Raises OSError if the directory cannot be created or read.
    """

    def __init__(self, directory: Path, runs_max: int = RUNS_MAX, bytes_max: int = RUNS_BYTES_MAX) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._runs_max = runs_max
        self._bytes_max = bytes_max
        self._runs: dict[str, Run] = {}
        self._sizes: dict[str, int] = {}
        found = [run for path in sorted(directory.iterdir()) if (run := self._read(path)) is not None]
        for run in sorted(found, key=lambda run: (run.created_ms, run.id)):
            self._runs[run.id] = run
        self._make_room()

    def _read(self, path: Path) -> Run | None:
        if not _ID.fullmatch(path.name):
            if path.name.endswith(_UNFINISHED):
                shutil.rmtree(path, ignore_errors=True)
            return None
        try:
            run = _with_origin(Run.model_validate_json((path / ABOUT).read_bytes()))
            with (path / JOURNAL).open("rb") as journal:
                schema = schema_of(journal.readline())
            self._sizes[run.id] = _size(path)
        except (OSError, ValidationError) as reason:
            log.warning("skipped a stored run", path=str(path), reason=str(reason))
            return None
        if schema > SCHEMA_VERSION:
            log.warning("set a kept run of a newer zabka aside", path=str(path), schema=schema)
            return None
        return run if run.id == path.name else None

    def all(self) -> list[Run]:
        """Return every stored run, oldest first."""
        self._forget_the_gone()
        return [self._known(run) for run in self._runs.values()]

    def get(self, run_id: str) -> Run:
        """Return a run. Raises Problem 404."""
        return self._known(self._found(run_id))

    def _forget_the_gone(self) -> None:
        for run_id in [each for each in self._runs if not (self._directory / each / ABOUT).is_file()]:
            log.warning("the files of a stored run are missing", run=run_id)
            del self._runs[run_id]
            self._sizes.pop(run_id, None)

    def _found(self, run_id: str) -> Run:
        self._forget_the_gone()
        found = self._runs.get(run_id)
        if found is None:
            raise Problem(404, f"there is no run {run_id}; GET /api/v1/runs lists them")
        return found

    def _known(self, run: Run) -> Run:
        pair = run.pair if run.pair in self._runs else None
        return run.model_copy(update={"pair": pair, "messages": (self.path(run.id) / MESSAGES).is_file()})

    def path(self, run_id: str) -> Path:
        """Return the directory of a stored run."""
        return self._directory / self._found(run_id).id

    def workspace(self, run_id: str) -> Path:
        """Create a directory, next to the stored runs, for the files of a run that will be stored. Raises OSError."""
        path = self._directory / f"{run_id}.play{_UNFINISHED}"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def keep(self, run: Run, history: Iterable[Entry], messages: Path | None = None) -> None:
        """Write a run's files, all or none, with events numbered from 1.

        The run is not listed until `admit` adds it. `messages` is a file with the run's messages, which is moved to the
        run's directory. This method can be called in another thread. Raises OSError.
        """
        unfinished = self._directory / f"{run.id}{_UNFINISHED}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        try:
            with (unfinished / JOURNAL).open("wb") as file:
                for seq, entry in enumerate(history, 1):
                    file.write(_encode({**entry.to_dict(), "seq": seq}) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            if messages is not None:
                shutil.move(messages, unfinished / MESSAGES)
            (unfinished / ABOUT).write_text(run.model_dump_json())
            unfinished.rename(self._directory / run.id)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise

    def admit(self, *runs: Run) -> None:
        """List runs that `keep` has written. If the limits are exceeded, remove the oldest runs."""
        for run in runs:
            self._runs[run.id] = run
            self._sizes[run.id] = _size(self._directory / run.id)
        self._make_room()

    def delete(self, run_id: str) -> None:
        """Remove a run. Raises Problem 404."""
        self._remove(self._found(run_id).id)

    def discard(self, run_id: str) -> None:
        """Remove the files of a run that `keep` wrote but `admit` did not list."""
        self._remove_files(run_id)

    def _remove(self, run_id: str) -> None:
        del self._runs[run_id]
        self._sizes.pop(run_id, None)
        self._remove_files(run_id)

    def _remove_files(self, run_id: str) -> None:
        # Rename the directory first, so that the run disappears at once even if removing its files fails.
        path = self._directory / run_id
        gone = path.with_name(f"{run_id}{_UNFINISHED}")
        shutil.rmtree(gone, ignore_errors=True)
        try:
            path.rename(gone)
        except FileNotFoundError:
            return
        except OSError as reason:
            log.warning("a run's files cannot be removed", path=str(path), reason=str(reason))
            return
        shutil.rmtree(gone, ignore_errors=True)

    def _make_room(self) -> None:
        while len(self._runs) > 1 and (len(self._runs) > self._runs_max or sum(self._sizes.values()) > self._bytes_max):
            oldest = next(iter(self._runs))
            log.info("removed the oldest stored run", run=oldest)
            self._remove(oldest)


def _with_origin(run: Run) -> Run:
    """Add the origin to a run of a seed that was stored before runs had one."""
    if run.kind != "seed" or run.origin is not None:
        return run
    return run.model_copy(update={"origin": origin_in(run.link, run.replay)})


def _size(path: Path) -> int:
    """Return the total size of a run's files; 0 if they are missing."""
    try:
        return sum(each.stat().st_size for each in path.iterdir())
    except FileNotFoundError:
        return 0
