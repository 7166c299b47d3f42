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


class KafkaFateUnknown(KafkaUnavailable):
    """A broker was asked for a change and did not answer, and nobody can tell whether it was made."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: the change may have been made")
