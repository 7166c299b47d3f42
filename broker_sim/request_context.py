"""The context of a request for its handler, and the exception for a request without a response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from zabka.kafka.ports import KafkaMessage


class RequestRefused(Exception):
    """Raised to close the connection without a response, which the client treats as a retriable error."""


class Unanswered(Exception):
    """Raised to send no response, as if it was lost. With `for_good`, later requests of the connection are not read."""

    def __init__(self, for_good: bool = False) -> None:
        super().__init__("a request fault left the request without a response")
        self.for_good = for_good


class RequestClock(Protocol):
    """The time spent on a request, without the time that the request waited, for example for a follower."""

    def spent_ns(self) -> int:
        """Return the nanoseconds spent so far."""


class Costless:
    """A clock that measures nothing, because no client has a request quota."""

    def spent_ns(self) -> int:
        """Return 0, because nothing is measured."""
        return 0


COSTLESS = Costless()


class RequestContext:
    """The client of a request: its client id, its listener, and its address as Kafka's tools show it.

    `connection` is the number of its connection in the order of acceptance; 0 if there is none. `muted_ms` is set if
    the client is throttled: after its response, its connection is not read for that time. `truncated` is set if a
    request fault truncates the response and closes the connection.
    """

    __slots__ = ("client_host", "client_id", "clock", "connection", "listener", "muted_ms", "truncated")

    def __init__(
        self,
        client_id: str,
        listener: str,
        client_host: str = "",
        clock: RequestClock = COSTLESS,
        connection: int = 0,
    ) -> None:
        self.client_id = client_id
        self.listener = listener
        self.client_host = client_host
        self.clock = clock
        self.connection = connection
        self.muted_ms = 0
        self.truncated = False


Handler = Callable[[KafkaMessage, RequestContext], Awaitable[KafkaMessage | None]]
"""Processes one kind of request. Returns None if no response is expected. Raises RequestRefused, Unanswered."""
