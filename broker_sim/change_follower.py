"""Follows the change notifications of Kafka's configurations and ACLs in ZooKeeper.

A watch reports that there are new notifications. After a new session, whose watches are gone, everything is read again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from zabka.ensemble.client.service import WatchEvent
from zabka.ensemble.errors import SessionExpired, ZooKeeperError
from zabka.ensemble.ports import Future, Runtime

RETRY_MS = 1_000
"""Time until everything is read again after an error of ZooKeeper."""


class ChangeFollower(ABC):
    """Reads everything once, and then what the change notifications name.

    A subclass sets `_on_change` as the watch of the notifications, and sets `_reload` to False in `load`.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._wake: Future[None] | None = None
        self._dirty = True
        self._reload = True

    @abstractmethod
    async def load(self) -> None:
        """Read everything. Raises ZooKeeperError."""

    @abstractmethod
    async def _process_changes(self) -> None:
        """Read what the new notifications name. Raises ZooKeeperError."""

    def reload_later(self) -> None:
        """Make `follow` set its watches and read everything again, because a new session has begun."""
        self._reload = True
        self._wake_up()

    async def follow(self) -> None:
        """Watch for change notifications and apply the changes, until cancelled."""
        while True:
            while not self._dirty and not self._reload:
                self._wake = self._runtime.future()
                await self._wake
                self._wake = None
            self._dirty = False
            try:
                if self._reload:
                    await self.load()
                await self._process_changes()
            except SessionExpired:
                # Try again when the next session is open; `reload_later` is called then.
                continue
            except ZooKeeperError:
                self._reload = True
                await self._runtime.sleep(RETRY_MS)

    def _on_change(self, event: WatchEvent) -> None:
        self._dirty = True
        self._wake_up()

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
