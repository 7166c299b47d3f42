"""Callbacks from a session to its users: state changes, watch events, connection and end of the session."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from zabka.ensemble.client.service import SessionState, StateListener, Watcher, WatchEvent
from zabka.ensemble.errors import ZooKeeperError
from zabka.ensemble.ports import Future, Runtime
from zabka.ensemble.records import EventType


class Notices:
    """Runs users' callbacks synchronously when an event is received.

    The paths in events have no `chroot`, except those passed to `on_event`.
    """

    __slots__ = ("_chroot", "_listeners", "_name", "_on_event", "_runtime", "_waiters")

    def __init__(self, runtime: Runtime, name: str, chroot: str, on_event: Callable[[WatchEvent], None] | None) -> None:
        self._runtime = runtime
        self._name = name
        self._chroot = chroot
        self._on_event = on_event
        self._listeners: list[StateListener] = []
        self._waiters: list[Future[None]] = []

    def add_listener(self, listener: StateListener) -> None:
        """Call `listener` at every change of state; listeners are called in the order of registration."""
        self._listeners.append(listener)

    def remove_listener(self, listener: StateListener) -> None:
        """Undo `add_listener`; ignore an unknown listener."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def waiter(self) -> Future[None]:
        """Return a future that resolves when the session is connected, and fails if the session ends instead."""
        waiter = self._runtime.future()
        self._waiters.append(waiter)
        return waiter

    async def until(self, ended: Callable[[], bool]) -> None:
        """Wait until `ended()` returns True, checking it whenever the session connects or ends.

        Errors that report the session's end are ignored.
        """
        while not ended():
            try:
                await self.waiter()
            except ZooKeeperError:
                continue

    def connected(self) -> None:
        """Resolve the futures that wait for a connection."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def take_waiters(self) -> list[Future[None]]:
        """Remove and return the futures that wait for a connection; the caller must fail them."""
        waiters, self._waiters = self._waiters, []
        return waiters

    def state(self, state: SessionState) -> None:
        """Notify the listeners of a new state."""
        for listener in tuple(self._listeners):
            self._call_out(listener, state)

    def event(self, event: WatchEvent) -> None:
        """Pass a watch event to `on_event`, the callback for all watch events."""
        if self._on_event is not None:
            self._call_out(self._on_event, event)

    def fired(self, event: WatchEvent, watchers: Iterable[Watcher]) -> None:
        """Call these watchers with the event."""
        seen = WatchEvent(event.type, self.unchroot(event.path), event.zxid)
        for watcher in watchers:
            self._call_out(watcher, seen)

    def removed(self, path: str, watchers: Iterable[tuple[EventType, Watcher]]) -> None:
        """Notify these watchers that their watch on the path was removed."""
        for event, watcher in watchers:
            self._call_out(watcher, WatchEvent(event, path))

    def expired(self, watches: Iterable[tuple[str, Watcher]]) -> None:
        """Notify every watcher that its watch was lost, because the session expired."""
        for path, watcher in watches:
            self._call_out(watcher, WatchEvent(EventType.NONE, self.unchroot(path)))

    def unchroot(self, path: str) -> str:
        """Return a path received from a server, without the chroot."""
        if not self._chroot or not path.startswith(self._chroot):
            return path
        return path[len(self._chroot) :] or "/"

    def _call_out(self, callback: Callable[[Any], None], argument: object) -> None:
        """Call a user's callback.

        If the callback raises an exception, the node stops with that error after the current event is processed.
        """
        try:
            callback(argument)
        except Exception as wrong:
            self._runtime.spawn(_raise(wrong), f"{self._name} callback")


def fail_all(waiters: Iterable[Future[None]], error: Callable[[], ZooKeeperError]) -> None:
    """Fail each future, because the session has ended."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_exception(error())


async def _raise(wrong: Exception) -> None:
    raise wrong
