"""Plays that are kept: a script with and without its bug, or a seed, as the player wrote their journals."""

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
from zabka.api.runs.run_models import Kind, Run, Verdict
from zabka.journal.reader import read_file

BUG = ".bug"


class Play(NamedTuple):
    """What is to be known of a play that is kept; `name` is that of its journal's file, without `.jsonl`."""

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


class NotKept(Exception):
    """A play could not be kept; why, in one line."""


@contextlib.contextmanager
def workspace(kept: KeptRuns, run_id: str) -> Iterator[Path]:
    """A directory for what the player writes; it goes with the block."""
    path = kept.workspace(run_id)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


async def keep(kept: KeptRuns, directory: Path, plays: list[Play]) -> None:
    """Keep what the player wrote there, `NAME.jsonl` and where it is `NAME.messages.jsonl`: all of them or none; the
    first is the pair of the second.  Raises NotKept."""
    try:
        # In one piece beside the event loop: who stops waiting for it leaves no half of a pair.
        runs = await asyncio.to_thread(_keep_all, kept, directory, plays)
    except (OSError, NoHistory) as reason:
        raise NotKept(f"its journal cannot be stored: {reason}") from None
    kept.admit(*runs)


def _keep_all(kept: KeptRuns, directory: Path, plays: list[Play]) -> list[Run]:
    ids = [play.id for play in plays]
    runs: list[Run] = []
    try:
        for play in plays:
            runs.append(_keep(kept, directory, play, next((i for i in ids if i != play.id), None)))
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
        created_ms=time.time_ns() // 1_000_000,
    )
    # They stay on their world's clock; who reads them puts them on the run's (`zabka.api.runs.messages`).
    kept.keep(run, taken.entries, messages if messages.is_file() else None)
    return run
