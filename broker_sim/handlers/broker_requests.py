"""What every request handler works with, and the one way a request may end without an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from controller.ports import KafkaMessage


class RequestRefused(Exception):
    """There is no answer to give: the connection is closed instead, which the client takes for a retriable error."""


class RequestContext(NamedTuple):
    """Who asks: the client's own name, the listener it came in by, and its address as Kafka's tools show it."""

    client_id: str
    listener: str
    client_host: str = ""


Handler = Callable[[KafkaMessage, RequestContext], Awaitable[KafkaMessage | None]]
"""Answers one kind of request; None where the client expects no answer.  Raises RequestRefused."""
