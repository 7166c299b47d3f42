"""Body of an HTTP request that is too large for memory, and is written to a file while it arrives."""

from __future__ import annotations

import asyncio
from pathlib import Path

from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.runtime.workers import THREADS, Workers

PART_BYTES = 256 * 1024
PART_TIMEOUT_S = 10.0
ROOM_BYTES = 64 * 1024 * 1024
"""Minimum space that must stay free on the disk."""
DISCARDED_BYTES_MAX = 16 * 1024 * 1024
DISCARD_TIMEOUT_S = 2.0
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class BodyRefused(Exception):
    """The body is incomplete, or there is not enough disk space for it."""


class Body:
    """Body of a request, of `length` bytes. It can be read once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int, *, waits: bool) -> None:
        self.length = length
        self._reader = reader
        self._writer = writer
        self._waits = waits
        self._left = length

    async def save(self, path: Path, files: Files = HOST, workers: Workers = THREADS) -> None:
        """Write the body to a file.

        Raises BodyRefused and OSError.
        """
        free = files.room(path.parent)
        if self.length > free - ROOM_BYTES:
            raise BodyRefused(f"{self.length} bytes are too many for the {free} that are free on the disk")
        if self._waits:
            self._writer.write(_CONTINUE)
        with await workers.call(files.stream, path, "wb") as file:
            while self._left:
                part = await self._part()
                await workers.call(file.write, part)

    async def _part(self) -> bytes:
        try:
            async with asyncio.timeout(PART_TIMEOUT_S):
                part = await self._reader.read(min(PART_BYTES, self._left))
        except TimeoutError:
            raise BodyRefused(f"nothing came for {PART_TIMEOUT_S:g} s") from None
        if not part:
            raise BodyRefused(f"{self._left} of {self.length} bytes did not come")
        self._left -= len(part)
        return part

    async def discard(self) -> None:
        """Read and discard a little of an unread body.

        If the connection were closed with unread bytes, the client might lose the response.
        """
        if self._waits:
            return
        try:
            async with asyncio.timeout(DISCARD_TIMEOUT_S):
                while self._left and self.length - self._left < DISCARDED_BYTES_MAX:
                    await self._part()
        except (TimeoutError, BodyRefused):
            return
