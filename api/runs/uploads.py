"""Accepts uploaded journals, and uploaded HTML files of exported runs."""

from __future__ import annotations

import asyncio
import secrets
import time
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from zabka.api.exports.opened import Opened, is_exported, opened
from zabka.api.http.problems import Problem
from zabka.api.runs.intake import NoHistory, Taken, read_history
from zabka.api.runs.kept import KeptRuns
from zabka.api.runs.run_models import Run
from zabka.journal.messages import message_line

UPLOAD_BYTES_MAX = 32 * 1024 * 1024
"""Maximum size of an upload: about eighty thousand events."""


class Uploads:
    """Accepts journals and exported runs, one at a time, because each is in memory while its events are ordered."""

    def __init__(self, kept: KeptRuns) -> None:
        self._kept = kept
        self._turn = asyncio.Lock()

    async def keep_history(self, data: bytes, name: str) -> Run:
        """Store an uploaded history, or the runs of an uploaded exported file. Return the first stored run.

        Raises Problem: 422 with the invalid lines, 503 if the run cannot be stored.
        """
        async with self._turn:
            try:
                runs = await asyncio.to_thread(self._take, data, name)
            except NoHistory as reason:
                errors = [{"line": line, "what": what} for line, what in reason.bad]
                raise Problem(422, str(reason), errors=errors) from None
            except OSError as reason:
                raise Problem(503, f"it cannot be stored: {reason.strerror or reason}") from None
        self._kept.admit(*runs)
        return self._kept.get(runs[0].id)

    def _take(self, data: bytes, name: str) -> list[Run]:
        if is_exported(data):
            return self._keep_exported(opened(data), sha256(data).hexdigest())
        taken = read_history(data)
        run = _described(_new_id(), taken, sha256(data).hexdigest(), {"title": name, "of": name})
        self._kept.keep(run, taken.entries)
        return [run]

    def _keep_exported(self, found: list[Opened], digest: str) -> list[Run]:
        ids = {each.about.id: _new_id() for each in found}
        kept: list[Run] = []
        try:
            for each in found:
                about = each.about.model_dump(include={"title", "of", "decisive_seq", "variant", "link", "replay"})
                about["pair"] = ids.get(each.about.pair or "")
                run = _described(ids[each.about.id], each.taken, digest, about)
                with TemporaryDirectory() as folder:
                    messages = Path(folder) / "messages.jsonl"
                    messages.write_bytes(b"".join(map(message_line, each.messages)))
                    self._kept.keep(run, each.taken.entries, messages if each.messages else None)
                kept.append(run)
        except BaseException:
            for run in kept:
                self._kept.discard(run.id)
            raise
        return kept


def _new_id() -> str:
    return f"r{secrets.token_hex(4)}"


def _described(run_id: str, taken: Taken, digest: str, about: dict[str, Any]) -> Run:
    return Run(
        id=run_id, kind="upload", first_seq=1, last_seq=len(taken.entries), first_us=taken.first_us,
        last_us=taken.last_us, events=len(taken.entries), sha256=digest, created_ms=time.time_ns() // 1_000_000,
        **about,
    )  # fmt: skip
