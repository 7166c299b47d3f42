"""The agent's line to one node: JSON lines over the node's control socket.

Two lines go down: `{"faults": …, "node": …, "names": …}`, the full state of link faults, sent at every connect and
change; and `{"status": true}`, asked twice a second.  Only one status question is ever open, so a paused node does not
pile them up: its last answer simply ages.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

POLL_INTERVAL_S = 0.5
# Short: until a restarted node is reached again, it does not feel the faults that hold.
RECONNECT_S = 0.02
LINE_BYTES_MAX = 8 * 1024 * 1024


class ControlLink:
    """Keeps talking to one node while it runs.

    `clock_ms` is a monotonic clock; `faults_line` gives the state to apply, as JSON without the newline.
    """

    def __init__(self, path: Path, clock_ms: Callable[[], int], faults_line: Callable[[], bytes]) -> None:
        self.status: dict[str, Any] = {}
        self._path = path
        self._clock_ms = clock_ms
        self._faults_line = faults_line
        self._answered_ms = 0
        self._writer: asyncio.StreamWriter | None = None
        self._applied = asyncio.Event()
        self._asked = False
        self._wanted = asyncio.Event()
        self._answered = asyncio.Event()

    def age_ms(self) -> int:
        """How old the node's last answer is."""
        return self._clock_ms() - self._answered_ms

    def forget(self) -> None:
        """A new process begins: what the one before it said is not its word."""
        self.status = {}

    def push_faults(self) -> None:
        """Send the present faults, if there is a connection; a later connection begins with them anyway."""
        if self._writer is not None:
            self._applied.clear()
            self._writer.write(self._faults_line() + b"\n")

    async def applied(self, timeout_s: float) -> bool:
        """Whether the node has taken the faults pushed last, waiting for its word."""
        if self._writer is None:
            return False
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._applied.wait(), timeout_s)
        return self._applied.is_set()

    async def refresh(self, timeout_s: float) -> None:
        """Ask now instead of at the next turn, and wait for the answer; a node that does not answer is left alone."""
        if self._writer is None:
            return
        self._answered.clear()
        self._wanted.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._answered.wait(), timeout_s)

    async def run(self) -> None:
        """Connect, poll, reconnect; until cancelled."""
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(str(self._path), limit=LINE_BYTES_MAX)
            except OSError:
                await asyncio.sleep(RECONNECT_S)
                continue
            self._writer = writer
            try:
                await self._talk(reader, writer)
            except (OSError, ValueError, RecursionError, asyncio.IncompleteReadError):
                # Closed, or not the protocol (a line beyond the limit, or nested too deeply): start afresh.
                await asyncio.sleep(RECONNECT_S)
            finally:
                self._writer = None
                writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._asked = False
        self.push_faults()
        asking = asyncio.create_task(self._ask_always(writer))
        try:
            while True:
                self._take(await reader.readuntil(b"\n"))
        finally:
            asking.cancel()

    async def _ask_always(self, writer: asyncio.StreamWriter) -> None:
        while True:
            if not self._asked:
                self._asked = True
                writer.write(b'{"status":true}\n')
            self._wanted.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), POLL_INTERVAL_S)

    def _take(self, line: bytes) -> None:
        answer = msgspec.json.decode(line)
        if not isinstance(answer, dict):
            raise ValueError("not an object")
        if isinstance(answer.get("ok"), bool):
            self._applied.set()
            return
        self._asked = False
        self.status = answer
        self._answered_ms = self._clock_ms()
        self._answered.set()
