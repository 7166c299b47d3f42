"""How a request to a Kafka cluster may fail for the one who asked."""

from __future__ import annotations

from kio.schema.errors import ErrorCode


class KafkaRequestFailed(Exception):
    """A broker refused: its error, with the text it gave."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or error.name.upper())
        self.error = error
        self.message = message or error.name.upper()


class KafkaUnavailable(Exception):
    """No broker that could have answered did, within the time given."""
