"""A client of the ensemble that reads and watches a znode, owns an ephemeral, and checks ZooKeeper's guarantees.

A watch event arrives before the read that shows its change.  Reads never return older data than earlier reads.  A read
after a sync shows all writes that were acknowledged to any client before the sync.  An ephemeral is deleted when its
session ends.
"""

from __future__ import annotations

from collections.abc import Callable

from zabka.ensemble.client.client import Client
from zabka.ensemble.client.service import WatchEvent
from zabka.ensemble.errors import NodeExists, NoNode, SessionExpired, ZooKeeperError
from zabka.ensemble.ports import Runtime
from zabka.ensemble.records import EventType
from zabka.simulation.workloads.writer import PATH

MACHINE = "watcher"
EPHEMERAL = "/zabka-watcher"
PAUSE_MS = 150


class Watching:
    """Client that reads PATH repeatedly, with a watch on it."""

    def __init__(self, client: Client, runtime: Runtime, acknowledged: Callable[[], int]) -> None:
        self._runtime = runtime
        self._client = client
        self._fired = False
        self._acknowledged = acknowledged
        self._seen_zxid = 0
        self._seen_number = 0
        self.watches_fired = 0
        self.violations: list[str] = []
        runtime.spawn(self._run(), MACHINE)

    def _changed(self, event: WatchEvent) -> None:
        self._fired = True
        self.watches_fired += event.type is not EventType.NONE

    async def _run(self) -> None:
        await self._client.start()
        expired = True
        while True:
            try:
                if expired:
                    await self._own()
                    expired = False
                await self._watch()
            except SessionExpired:
                await self._client.renew()
                expired = True
            except ZooKeeperError:
                await self._runtime.sleep(PAUSE_MS)

    async def _own(self) -> None:
        """Create the ephemeral.  If it exists with another owner, report that it outlived its session."""
        session = self._client.session_id
        try:
            await self._client.create(EPHEMERAL, b"%d" % session, ephemeral=True)
        except NodeExists:
            _, stat = await self._client.get(EPHEMERAL)
            if stat.ephemeral_owner != session:
                self.violations.append(f"{EPHEMERAL} outlives its session 0x{stat.ephemeral_owner:x}")

    async def _watch(self) -> None:
        """Set a watch, then read until it fires.  It must fire before a read shows a change."""
        self._fired = False
        try:
            promised = self._acknowledged()
            await self._client.sync(PATH)
            data, armed = await self._client.get(PATH, self._changed)
        except NoNode:
            await self._runtime.sleep(PAUSE_MS)
            return
        if int(data) < promised:
            self.violations.append(f"behind a sync {PATH} is {data.decode()}, {promised} was acknowledged before")
        self._note(armed.mzxid, int(data))
        while not self._fired:
            await self._runtime.sleep(PAUSE_MS)
            data, stat = await self._client.get(PATH)
            self._note(stat.mzxid, int(data))
            if stat.mzxid != armed.mzxid and not self._fired:
                self.violations.append(f"a read showed 0x{stat.mzxid:x} of {PATH} before the watch told of it")
                return

    def _note(self, zxid: int, number: int) -> None:
        """Check that neither the znode's mzxid nor the writer's number decreases."""
        if zxid < self._seen_zxid or number < self._seen_number:
            self.violations.append(
                f"{PATH} went back from {self._seen_number} (0x{self._seen_zxid:x}) to {number} (0x{zxid:x})"
            )
        self._seen_zxid, self._seen_number = max(zxid, self._seen_zxid), max(number, self._seen_number)
