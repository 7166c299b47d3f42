"""Uploaded journals."""

from __future__ import annotations

import asyncio
import secrets
import time
from hashlib import sha256

from zabka.api.http.problems import Problem
from zabka.api.runs.intake import NoHistory, read_history
from zabka.api.runs.kept import KeptRuns
from zabka.api.runs.run_models import Run

UPLOAD_BYTES_MAX = 32 * 1024 * 1024
"""About eighty thousand events."""


class Uploads:
    """Accepts journals, one at a time: each is in memory while it is ordered."""

    def __init__(self, kept: KeptRuns) -> None:
        self._kept = kept
        self._turn = asyncio.Lock()

    async def keep_history(self, data: bytes, name: str) -> Run:
        """Store the history in these JSON Lines.

        Raises Problem: 422 with the invalid lines, 503 if it cannot be stored.
        """
        async with self._turn:
            try:
                run = await asyncio.to_thread(self._take, data, name)
            except NoHistory as reason:
                errors = [{"line": line, "what": what} for line, what in reason.bad]
                raise Problem(422, str(reason), errors=errors) from None
            except OSError as reason:
                raise Problem(503, f"it cannot be stored: {reason.strerror or reason}") from None
        self._kept.admit(run)
        return run

    def _take(self, data: bytes, name: str) -> Run:
        taken = read_history(data)
        run = Run(
            id=f"r{secrets.token_hex(4)}",
            kind="upload",
            title=name,
            of=name,
            first_seq=1,
            last_seq=len(taken.entries),
            first_us=taken.first_us,
            last_us=taken.last_us,
            events=len(taken.entries),
            sha256=sha256(data).hexdigest(),
            created_ms=time.time_ns() // 1_000_000,
        )
        self._kept.keep(run, taken.entries)
        return run
