"""A session's attempt to connect, and the connection that comes of it."""

from __future__ import annotations

from typing import Protocol

from zabka.ensemble.client.service import Connection, FromServer, WatchEvent


class LinkOwner(Protocol):
    """Who hears of a link; it must see for itself whether that is its present one."""

    def on_link_up(self, link: Link) -> None: ...
    def on_link_message(self, link: Link, message: FromServer) -> None: ...
    def on_link_watch(self, link: Link, event: WatchEvent) -> None: ...
    def on_link_down(self, link: Link, reason: str) -> None: ...


class Link:
    """One attempt.  `heard` once the server has said anything beyond its first frame."""

    __slots__ = ("_owner", "connection", "heard")

    def __init__(self, owner: LinkOwner) -> None:
        self._owner = owner
        self.connection: Connection | None = None
        self.heard = False

    def on_connected(self) -> None:
        """The transport stands."""
        self._owner.on_link_up(self)

    def on_message(self, message: FromServer) -> None:
        """A frame came."""
        self._owner.on_link_message(self, message)

    def on_watch(self, event: WatchEvent, zxid: int) -> None:
        """A watch event came."""
        self._owner.on_link_watch(self, event._replace(zxid=zxid))

    def on_disconnected(self, reason: str) -> None:
        """The transport is gone."""
        self._owner.on_link_down(self, reason)
