"""A process of its own for what takes seconds of a processor: listing and playing the outage library.

It runs `zabka scenarios`, and dies with this process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import structlog

PATIENCE_S = 120.0
_HELD, _VIOLATED = 0, 1

log = structlog.get_logger()


class PlayerFailed(Exception):
    """The process came to no answer; why, in one line."""


class ScenarioProcess:
    """Runs `argv` with the arguments of `zabka scenarios`, each time anew."""

    def __init__(self, argv: Sequence[str], patience_s: float = PATIENCE_S) -> None:
        self._argv = list(argv)
        self._patience_s = patience_s

    async def ask(self, *arguments: str) -> bytes:
        """What it writes.  A cancelled caller's process is killed.  Raises PlayerFailed."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv, *arguments,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                env={**os.environ, "ZABKA_PARENT": str(os.getpid())},
            )  # fmt: skip
        except OSError as reason:
            raise PlayerFailed(f"the player cannot be started: {reason}") from None
        try:
            async with asyncio.timeout(self._patience_s):
                answer, complaint = await process.communicate()
        except TimeoutError:
            raise PlayerFailed(f"it was not played to its end within {self._patience_s:.0f} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode not in (_HELD, _VIOLATED) or not answer:
            said = complaint.decode(errors="replace").strip()
            log.error("scenario player failed", arguments=arguments, code=process.returncode, said=said)
            last = said.splitlines()[-1] if said else "it said nothing"
            raise PlayerFailed(f"the player ended with code {process.returncode}: {last}")
        return answer
