"""The agent's connection to one node: JSON lines over the node's control socket.

The agent sends two kinds of lines. `{"faults": …, "node": …, "names": …}` is the complete list of link faults, sent
after connecting and after every change. `{"status": true}` requests the node's status. The agent sends this request to
all nodes of its host at the same time, twice a second. Only one status request is open at a time, so requests do not
accumulate at a paused node.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

# The delay is short, because a restarted node has no link faults until the agent has reconnected.
RECONNECT_S = 0.02
LINE_BYTES_MAX = 8 * 1024 * 1024


class ControlLink:
    """Maintains the control connection to one node while it runs.

    `clock_ms` is a monotonic clock; `faults_line` returns the faults to apply, as JSON without the newline.
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
        self._answered = asyncio.Event()

    def age_ms(self) -> int:
        """Return the time since the node's last response, in milliseconds."""
        return self._clock_ms() - self._answered_ms

    def forget(self) -> None:
        """Discard the last status, because it is from the node's previous process."""
        self.status = {}

    def push_faults(self) -> None:
        """Send the current faults if there is a connection. If there is none, the next connection begins with the
        faults.
        """
        if self._writer is not None:
            self._applied.clear()
            self._writer.write(self._faults_line() + b"\n")

    async def applied(self, timeout_s: float) -> bool:
        """Wait until the node confirms the faults that were sent last. Return False on timeout."""
        if self._writer is None:
            return False
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._applied.wait(), timeout_s)
        return self._applied.is_set()

    def ask(self) -> None:
        """Request the node's status if there is a connection and no request is open."""
        if self._writer is not None and not self._asked:
            self._asked = True
            self._writer.write(b'{"status":true}\n')

    async def refresh(self, timeout_s: float) -> None:
        """Request the status now. Wait for the response, at most for the timeout."""
        if self._writer is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                if self._asked:
                    # An earlier request is still in flight; wait for its response first.
                    self._answered.clear()
                    await self._answered.wait()
                self._answered.clear()
                self.ask()
                await self._answered.wait()

    async def run(self) -> None:
        """Connect, send requests, receive responses, and reconnect, until cancelled."""
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(str(self._path), limit=LINE_BYTES_MAX)
            except OSError:
                await asyncio.sleep(RECONNECT_S)
                continue
            self._writer = writer
            try:
                await self._talk(reader)
            except (OSError, ValueError, RecursionError, asyncio.IncompleteReadError):
                # The connection was closed or violated the protocol (a line too long or nested too deeply). Reconnect.
                await asyncio.sleep(RECONNECT_S)
            finally:
                self._writer = None
                writer.close()

    async def _talk(self, reader: asyncio.StreamReader) -> None:
        self._asked = False
        self.push_faults()
        self.ask()
        while True:
            self._take(await reader.readuntil(b"\n"))

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
