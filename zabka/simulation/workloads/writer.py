"""A client of the ensemble that writes with several requests in flight, and counts acknowledged writes."""

from __future__ import annotations

from contextlib import suppress

from zabka.ensemble.client.client import Client
from zabka.ensemble.errors import NodeExists, NoNode, SessionExpired, ZooKeeperError
from zabka.ensemble.ports import Future, Runtime
from zabka.ensemble.records import Stat

MACHINE = "writer"
PATH = "/zabka-writer"
KEPT = 20
"""Number of children that the writer keeps: when it creates another child, it deletes the oldest one."""


class Writer:
    """Client that sets PATH to 1, 2, 3, …, and creates a child together with every second set.

    The sets overwrite each other, but the children remain. So if a peer applied a transaction that no other peer has,
    its tree stays different.
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
        """Return the id of the client's current session."""
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

    def _change_children(self, number: int) -> tuple[Future[tuple[str, Stat]], Future[None]]:
        """Create a child and delete the oldest child."""
        client = self._client
        return client.create(f"{PATH}/{number}"), client.delete(f"{PATH}/{number - KEPT}")

    async def _write(self) -> None:
        client = self._client
        if self.tried == 0:
            with suppress(NodeExists):
                await client.create(PATH, b"0")
        if self.active:
            self.tried += 1
            number = self.tried
            counted = client.set(PATH, str(number).encode())
            others = self._change_children(number) if number % 2 else ()
            await counted
            self.acknowledged = number
            for other in others:
                with suppress(NodeExists, NoNode):
                    await other
        # After a sync, a read returns a number between the last one acknowledged to this client and the last one that
        # it tried to write.
        await client.sync(PATH)
        data, _ = await client.get(PATH)
        if not self.acknowledged <= int(data) <= self.tried:
            self.violations.append(f"{PATH} is {data.decode()}, acknowledged {self.acknowledged}, tried {self.tried}")
