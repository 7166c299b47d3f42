"""Stores runs from the journals that the scenario process wrote.

These are the runs of a scenario with and without its bug, or the run of a seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from zabka.api.runs.intake import NoHistory, folded, on_one_clock
from zabka.api.runs.kept import KeptRuns
from zabka.api.runs.origins import Origin
from zabka.api.runs.run_models import Kind, Run, Verdict
from zabka.journal.reader import read_file

BUG = ".bug"


class Play(NamedTuple):
    """Description of a run to store. `name` is the name of the run's journal file, without `.jsonl`."""

    name: str
    id: str
    kind: Kind
    title: str
    of: str
    verdict: Verdict
    sha256: str
    replay: str
    decisive_seq: int | None = None
    variant: str | None = None
    link: str | None = None
    origin: Origin | None = None
    pair: str | None = None
    """A stored run to compare it with, if there is only this run to store."""


class NotKept(Exception):
    """A run could not be stored. The message is the reason, in one line."""


@contextlib.contextmanager
def workspace(kept: KeptRuns, run_id: str) -> Iterator[Path]:
    """Provide a directory for the scenario process's files. Remove it at the end of the block."""
    path = kept.workspace(run_id)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


async def keep(kept: KeptRuns, directory: Path, plays: list[Play]) -> None:
    """Store the files of the scenario process, `NAME.jsonl` and optionally `NAME.messages.jsonl`: all or none.

    If there are two runs, the first becomes the pair of the second. Raises NotKept.
    """
    try:
        # Store all runs in a single call to a worker thread, so that both runs of a pair are stored even if the caller
        # is cancelled.
        runs = await asyncio.to_thread(_keep_all, kept, directory, plays)
    except (OSError, NoHistory) as reason:
        raise NotKept(f"its journal cannot be stored: {reason}") from None
    kept.admit(*runs)


def _keep_all(kept: KeptRuns, directory: Path, plays: list[Play]) -> list[Run]:
    ids = [play.id for play in plays]
    runs: list[Run] = []
    try:
        for play in plays:
            runs.append(_keep(kept, directory, play, next((i for i in ids if i != play.id), play.pair)))
    except BaseException:
        for run in runs:
            kept.discard(run.id)
        raise
    return runs


def _keep(kept: KeptRuns, directory: Path, play: Play, pair: str | None) -> Run:
    taken = folded(on_one_clock(list(read_file(directory / f"{play.name}.jsonl"))))
    messages = directory / f"{play.name}.messages.jsonl"
    run = Run(
        id=play.id,
        kind=play.kind,
        title=play.title,
        of=play.of,
        pair=pair,
        first_seq=1,
        last_seq=len(taken.entries),
        first_us=taken.first_us,
        last_us=taken.last_us,
        events=len(taken.entries),
        verdict=play.verdict,
        sha256=play.sha256,
        replay=play.replay,
        decisive_seq=play.decisive_seq,
        variant=play.variant,
        link=play.link,
        origin=play.origin,
        created_ms=time.time_ns() // 1_000_000,
    )
    # Message times stay on the simulated world's clock; readers convert them to the run's clock
    # (`zabka.api.runs.messages`).
    kept.keep(run, taken.entries, messages if messages.is_file() else None)
    return run
