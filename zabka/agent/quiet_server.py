"""A web server that sleeps while nothing is asked: uvicorn wakes ten times a second to see whether it is to end."""

from __future__ import annotations

import asyncio
import contextlib
from types import FrameType

import uvicorn

TICK_S = 1.0
_TICKS_OF_UVICORN = 10
"""So many of its turns make a second; in the first of them it writes the date that its answers carry."""


class QuietServer(uvicorn.Server):
    """uvicorn's server, to be told by SIGINT or SIGTERM to end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told_to_end = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        """Serve until told to end."""
        self._loop = asyncio.get_running_loop()
        turn = 0
        while not await self.on_tick(turn):
            turn += _TICKS_OF_UVICORN
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._told_to_end.wait(), TICK_S)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal, which may come at any moment, and wake the loop for it."""
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._told_to_end.set)
