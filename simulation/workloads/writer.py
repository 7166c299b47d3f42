"""A writing client of the ensemble: keeps writing, several requests in flight, and knows what was acknowledged."""

from __future__ import annotations

from contextlib import suppress

from ensemble.client.client import Client
from ensemble.errors import NodeExists, NoNode, SessionExpired, ZooKeeperError
from ensemble.ports import Runtime

MACHINE = "writer"
PATH = "/zabka-writer"
KEPT = 20
"""How many of its children the writer keeps."""


class Writer:
    """Sets PATH to 1, 2, 3, … and creates a child for each number.

    The set overwrites, the child stays: a peer that took on a transaction nobody else has keeps another tree for good.
    """

    def __init__(self, client: Client, runtime: Runtime, pause_ms: int = 100) -> None:
        self._runtime = runtime
        self._pause_ms = pause_ms
        self._client = client
        self.active = True
        self.tried = 0
        self.acknowledged = 0
        self.violations: list[str] = []
        runtime.spawn(self._run(), "writer")

    @property
    def session_id(self) -> int:
        """The id of the client's session."""
        return self._client.session_id

    async def _run(self) -> None:
        await self._client.start()
        while True:
            try:
                await self._write()
            except SessionExpired:
                await self._client.renew()
            except ZooKeeperError:
                await self._runtime.sleep(self._pause_ms)
            await self._runtime.sleep(self._pause_ms)

    async def _write(self) -> None:
        client = self._client
        if self.tried == 0:
            with suppress(NodeExists):
                await client.create(PATH, b"0")
        if self.active:
            self.tried += 1
            number = self.tried
            counted = client.set(PATH, str(number).encode())
            born = client.create(f"{PATH}/{number}")
            gone = client.delete(f"{PATH}/{number - KEPT}")
            await counted
            self.acknowledged = number
            with suppress(NodeExists):
                await born
            with suppress(NoNode):
                await gone
        # A synced read sees at least what was acknowledged to this client, and nothing it never tried.
        await client.sync(PATH)
        data, _ = await client.get(PATH)
        if not self.acknowledged <= int(data) <= self.tried:
            self.violations.append(f"{PATH} is {data.decode()}, acknowledged {self.acknowledged}, tried {self.tried}")
