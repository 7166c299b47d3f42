"""Whom a client port tells what comes in."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from zabka.ensemble.auth.schemes import AuthId
from zabka.ensemble.ids import ConnectionId
from zabka.ensemble.records import ClientMessage


class Newcomer(NamedTuple):
    """A connection on which no session has been asked for; on one that `asks` a four-letter word is being answered."""

    remote: str
    asks: bool


class ClientListener(Protocol):
    """Who serves clients."""

    def on_client_connected(self, connection: ConnectionId, identities: tuple[AuthId, ...]) -> None: ...
    def on_client_refused(self, remote: str, reason: str) -> None:
        """A TLS connection did not come about, or what came on a connection cannot be taken."""
        ...

    def on_client_messages(self, connection: ConnectionId, messages: list[ClientMessage]) -> None: ...
    def on_client_closed(self, connection: ConnectionId) -> None: ...
    def answer_word(self, word: str, argument: bytes) -> str | None:
        """The answer to a four-letter word, None where it is none; `argument` is what came behind it."""
        ...

    def outstanding(self, connection: ConnectionId) -> int:
        """How many requests of a connection wait for an answer."""
        ...
