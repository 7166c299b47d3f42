"""What every request handler works with, and the one way a request may end without an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from zabka.kafka.ports import KafkaMessage


class RequestRefused(Exception):
    """There is no answer to give: the connection is closed instead, which the client takes for a retriable error."""


class RequestClock(Protocol):
    """How long a request has been worked on: not the time it waited, for a follower, say."""

    def spent_ns(self) -> int:
        """Nanoseconds so far."""


class Costless:
    """Nobody measures: no client has a quota of time."""

    def spent_ns(self) -> int:
        """Nothing."""
        return 0


COSTLESS = Costless()


class RequestContext:
    """Who asks: the client's own name, the listener it came in by, and its address as Kafka's tools show it.

    `connection` is the number of its connection, in the order in which they were accepted; 0 where there is none.
    `client_software` is the name of the client library, if ApiVersions 3 or later has given one on this connection
    (KIP-511).
    `muted_ms` is set by whoever throttles the client: once it has been answered, nothing is heard from it for so long.
    """

    __slots__ = ("client_host", "client_id", "client_software", "clock", "connection", "listener", "muted_ms")

    def __init__(
        self,
        client_id: str,
        listener: str,
        client_host: str = "",
        clock: RequestClock = COSTLESS,
        connection: int = 0,
        client_software: str = "",
    ) -> None:
        self.client_id = client_id
        self.listener = listener
        self.client_host = client_host
        self.clock = clock
        self.connection = connection
        self.client_software = client_software
        self.muted_ms = 0


Handler = Callable[[KafkaMessage, RequestContext], Awaitable[KafkaMessage | None]]
"""Answers one kind of request; None where the client expects no answer.  Raises RequestRefused."""
