"""Refusals of changes to the cluster, with Kafka's error code and Kafka's text."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as KafkaError


class Refused(Exception):
    """A part of a request that Kafka's rules reject: an error code and a text. Handlers turn it into a response."""

    def __init__(self, error: KafkaError, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
