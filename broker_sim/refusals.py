"""Rejections of changes to the cluster, with Kafka's error code and Kafka's message."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as KafkaError


class Refused(Exception):
    """Raised when Kafka's rules reject a part of a request. Contains the error code and message for the response."""

    def __init__(self, error: KafkaError, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
