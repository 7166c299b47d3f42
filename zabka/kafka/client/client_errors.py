"""Errors of requests to a Kafka cluster, as the client reports them."""

from __future__ import annotations

from kio.schema.errors import ErrorCode


class KafkaRequestFailed(Exception):
    """A broker rejected the request, with this error and message."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or error.name.upper())
        self.error = error
        self.message = message or error.name.upper()


class KafkaUnavailable(Exception):
    """No broker that could have replied did so in time."""


class KafkaFateUnknown(KafkaUnavailable):
    """A broker did not reply to a request for a change, so it is unknown whether it made the change."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: the change may have been made")
