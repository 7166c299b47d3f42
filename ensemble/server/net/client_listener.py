"""Interface of the listener to which a client port passes its events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from zabka.ensemble.auth.schemes import AuthId
from zabka.ensemble.ids import ConnectionId, SessionId
from zabka.ensemble.records import ClientMessage


class Newcomer(NamedTuple):
    """Connection that has not requested a session yet. `asks` is True while a four-letter word is processed on it."""

    remote: str
    asks: bool


class ClientListener(Protocol):
    """Receiver of a client port's events."""

    def on_client_connected(self, connection: ConnectionId, identities: tuple[AuthId, ...]) -> None: ...
    def on_client_refused(self, remote: str, reason: str) -> None:
        """Report that a TLS connection failed, or that a connection sent invalid data."""
        ...

    def on_client_messages(self, connection: ConnectionId, messages: list[ClientMessage]) -> None: ...
    def on_client_closed(self, connection: ConnectionId) -> None: ...
    def answer_word(self, word: str, argument: bytes) -> str | None:
        """Return the output of a four-letter word, or None if the word is unknown.

        `argument` contains the bytes after the word.
        """
        ...

    def proved(self, connection: ConnectionId) -> Sequence[AuthId]:
        """Return the identities that a connection has proved."""
        ...

    def session(self, connection: ConnectionId) -> SessionId:
        """Return the session id of a connection; 0 while it has no session."""
        ...

    def is_session_of_broker(self, session_id: SessionId) -> bool:
        """Return whether a broker is registered with that session."""
        ...

    def outstanding(self, connection: ConnectionId) -> int:
        """Return the number of a connection's requests that have no reply yet."""
        ...
