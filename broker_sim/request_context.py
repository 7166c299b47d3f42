"""The context of a request for its handler, and exceptions for requests without a response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from zabka.broker_sim.principals import ANONYMOUS, KafkaPrincipal
from zabka.kafka.ports import KafkaMessage


class RequestRefused(Exception):
    """The connection must be closed without a response. Clients treat this as a retriable error."""


class Unanswered(Exception):
    """Raised by a handler if no response must be sent, as if the response had been lost.

    If `for_good` is set, later requests of the connection are not processed either.
    """

    def __init__(self, for_good: bool = False) -> None:
        super().__init__("a request fault left the request without a response")
        self.for_good = for_good


class RequestClock(Protocol):
    """Measures the time spent on a request. Time in which the request waited, for example for a follower, is
    excluded.
    """

    def spent_ns(self) -> int:
        """Return the nanoseconds spent so far."""


class Costless:
    """A clock that measures nothing, because no client has a request quota."""

    def spent_ns(self) -> int:
        """Return 0, because nothing is measured."""
        return 0


COSTLESS = Costless()


class RequestContext:
    """Context of a request: the client's id, listener, and address in the format of Kafka's tools.

    `connection` is the number of the client's connection in the order of acceptance; 0 if there is none. `muted_ms` is
    set if the client is throttled: after the response, the connection is not read for that time. `truncated` is set if
    a request fault truncates the response and closes the connection. `principal` is the authenticated identity of the
    connection. `addresses` are those of the two ends of the connection, as in Kafka's connection ids. `asked_bytes` is
    the size of a Produce request before the authorizer removed topics from it; 0 if it removed none.
    """

    __slots__ = (
        "addresses", "asked_bytes", "client_host", "client_id", "clock", "connection", "listener", "muted_ms",
        "principal", "truncated",
    )  # fmt: skip

    def __init__(
        self,
        client_id: str,
        listener: str,
        client_host: str = "",
        clock: RequestClock = COSTLESS,
        connection: int = 0,
        principal: KafkaPrincipal = ANONYMOUS,
        addresses: str = "",
    ) -> None:
        self.client_id = client_id
        self.listener = listener
        self.client_host = client_host
        self.clock = clock
        self.connection = connection
        self.principal = principal
        self.muted_ms = 0
        self.truncated = False
        self.addresses = addresses
        self.asked_bytes = 0


Handler = Callable[[KafkaMessage, RequestContext], Awaitable[KafkaMessage | None]]
"""Processes one kind of request. Returns None if no response is expected. Raises RequestRefused, Unanswered."""
