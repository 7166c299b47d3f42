"""Reasons why a broker rejects produced records: Kafka's error, and the message in the Produce response (KIP-467)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

UNKNOWN_SERVER_ERROR = -1
CORRUPT_MESSAGE = 2
MESSAGE_TOO_LARGE = 10
INVALID_TIMESTAMP = 32
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
UNSUPPORTED_COMPRESSION_TYPE = 76
INVALID_RECORD = 87

RECORD_ERRORS_MAX = 1_000
"""Maximum number of rejected records that a response lists per batch. Kafka lists all of them, even millions."""
_SHOWN = 3


class RecordError(NamedTuple):
    """A rejected record, identified by its index in the batch."""

    batch_index: int
    message: str

    def __str__(self) -> str:
        return f"RecordError(batchIndex={self.batch_index}, message='{self.message}')"


class RecordsRefused(Exception):
    """The produced records are rejected and not appended.

    `error` is Kafka's error code. `message` is sent to the client only if individual records caused the error, as in
    Kafka. `says_log_start` means that the response contains the log start offset.
    """

    def __init__(
        self,
        error: int,
        reason: str,
        message: str | None = None,
        record_errors: Sequence[RecordError] = (),
        says_log_start: bool = True,
    ) -> None:
        super().__init__(reason)
        self.error = error
        self.message = message
        self.record_errors = tuple(record_errors)
        self.says_log_start = says_log_start


def invalid(reason: str) -> RecordsRefused:
    """Return the error INVALID_RECORD for a whole batch (InvalidRecordException)."""
    return RecordsRefused(INVALID_RECORD, reason)


def corrupt(reason: str) -> RecordsRefused:
    """Return the error CORRUPT_MESSAGE (CorruptRecordException)."""
    return RecordsRefused(CORRUPT_MESSAGE, reason, says_log_start=False)


def too_large(reason: str) -> RecordsRefused:
    """Return the error MESSAGE_TOO_LARGE (RecordTooLargeException)."""
    return RecordsRefused(MESSAGE_TOO_LARGE, reason, says_log_start=False)


def unexpected(reason: str) -> RecordsRefused:
    """Return the error UNKNOWN_SERVER_ERROR, for an input on which Kafka's own code fails with that error."""
    return RecordsRefused(UNKNOWN_SERVER_ERROR, reason)


class RecordErrors:
    """Rejected records of a batch (LogValidator.processRecordErrors)."""

    __slots__ = ("_count", "_is_about_time", "_named")

    def __init__(self) -> None:
        self._named: list[RecordError] = []
        self._count = 0
        self._is_about_time = False

    def __bool__(self) -> bool:
        return self._count > 0

    def note(self, batch_index: int, message: str, error: int = INVALID_RECORD) -> None:
        """Add the error of one record."""
        self._count += 1
        self._is_about_time = self._is_about_time or error == INVALID_TIMESTAMP
        if len(self._named) < RECORD_ERRORS_MAX:
            self._named.append(RecordError(batch_index, message))

    def check(self) -> None:
        """Raise RecordsRefused if any record has an error."""
        if not self._count:
            return
        if self._is_about_time:
            text = "One or more records have been rejected due to invalid timestamp"
            raise RecordsRefused(INVALID_TIMESTAMP, text, text, self._named)
        shown = ", ".join(map(str, self._named[:_SHOWN]))
        text = (
            f"One or more records have been rejected due to {self._count} record errors in total, and only showing "
            f"the first three errors at most: [{shown}]"
        )
        raise RecordsRefused(INVALID_RECORD, text, text, self._named)
