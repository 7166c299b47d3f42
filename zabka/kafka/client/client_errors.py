"""Errors that the client raises for requests to a Kafka cluster."""

from __future__ import annotations

from kio.schema.errors import ErrorCode


class KafkaRequestFailed(Exception):
    """A broker rejected the request, with this error code and message."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or error.name.upper())
        self.error = error
        self.message = message or error.name.upper()


class KafkaUnavailable(Exception):
    """None of the brokers to which the request could be sent replied in time."""


class KafkaFateUnknown(KafkaUnavailable):
    """The broker that received a request for a change did not reply, so it may have made the change."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: the change may have been made")
