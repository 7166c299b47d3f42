"""A uvicorn server that does not wake up while it is idle.

uvicorn itself wakes up ten times a second to check whether it should exit.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from types import FrameType

import uvicorn

TICK_S = 1.0
_TICKS_OF_UVICORN = 10
"""Increment of the tick counter. uvicorn counts ten ticks a second, and updates the Date header at every tenth tick."""


class QuietServer(uvicorn.Server):
    """uvicorn's server, stopped by SIGINT or SIGTERM.

    Before it closes its connections, the server awaits `stop`, and responds to clients during that time.
    """

    def __init__(self, config: uvicorn.Config, stop: Callable[[], Awaitable[None]] | None = None) -> None:
        super().__init__(config)
        self._stop = stop
        self._exiting = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        """Accept requests until a signal arrives."""
        self._loop = asyncio.get_running_loop()
        turn = 0
        while not await self.on_tick(turn):
            turn += _TICKS_OF_UVICORN
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._exiting.wait(), TICK_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the application, then the server."""
        if self._stop is not None:
            await self._stop()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Wake the main loop when a signal arrives, which can be at any time."""
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._exiting.set)
