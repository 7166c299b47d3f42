"""Finds runs by id: the live run and the stored runs."""

from __future__ import annotations

from collections import OrderedDict

from zabka.api.collector.collector import Collector
from zabka.api.http.problems import Problem
from zabka.api.runs.kept import JOURNAL, KeptRuns
from zabka.api.runs.rewind import Rewind
from zabka.api.runs.run_file import RunFile
from zabka.api.runs.run_models import Run
from zabka.api.runs.uploads import Uploads
from zabka.api.runs.why import Whys
from zabka.journal.reader import decode_line

LIVE = "live"
OPEN_MAX = 6
"""Maximum number of stored runs that are open at the same time. Open runs have folded states in memory."""


class Runs:
    """Finds runs by id, and provides each run's `Rewind` (states) and `Whys` (causes)."""

    def __init__(self, collector: Collector, kept: KeptRuns) -> None:
        self.kept = kept
        self.uploads = Uploads(kept)
        self._collector = collector
        self._open: OrderedDict[str, Rewind] = OrderedDict()
        self._whys: OrderedDict[str, Whys] = OrderedDict()

    def all(self) -> list[Run]:
        """Return the live run, then the stored ones, newest first."""
        return [self._live(), *reversed(self.kept.all())]

    def get(self, run_id: str) -> Run:
        """Return a run. Raises Problem 404."""
        return self._live() if run_id == LIVE else self.kept.get(run_id)

    def _live(self) -> Run:
        collector = self._collector
        history = collector.rewind.history
        first = history.first_seq
        oldest = history.read(first, 1)
        first_us = decode_line(oldest[0].json).wall_us if oldest else 0
        return Run(
            id=LIVE,
            kind="live",
            title="The live cluster",
            first_seq=first,
            last_seq=collector.last_seq,
            first_us=first_us,
            last_us=max(first_us, collector.state.at_us),
            events=collector.last_seq + 1 - first,
            messages=True,
            created_ms=first_us // 1000,
        )

    def rewind(self, run_id: str) -> Rewind:
        """Return a run's Rewind, which computes its states. Raises Problem 404."""
        if run_id == LIVE:
            return self._collector.rewind
        path = self.kept.path(run_id) / JOURNAL
        if run_id not in self._open:
            try:
                self._open[run_id] = Rewind(RunFile(path))
            except OSError as reason:
                raise Problem(404, f"the journal of {run_id} cannot be read: {reason.strerror}") from None
            while len(self._open) > OPEN_MAX:
                self._open.popitem(last=False)
        self._open.move_to_end(run_id)
        return self._open[run_id]

    def whys(self, run_id: str) -> Whys:
        """Return a run's Whys, which finds the causes of its events. Raises Problem 404."""
        history = self.rewind(run_id).history
        if run_id not in self._whys:
            self._whys[run_id] = Whys(history)
            while len(self._whys) > OPEN_MAX:
                self._whys.popitem(last=False)
        self._whys.move_to_end(run_id)
        return self._whys[run_id]

    def delete(self, run_id: str) -> None:
        """Delete a stored run. Raises Problem: 404, or 409 for the live run."""
        if run_id == LIVE:
            raise Problem(409, "the live run is the cluster's own history and is deleted only with its data directory")
        self.kept.delete(run_id)
        self._open.pop(run_id, None)
        self._whys.pop(run_id, None)
