"""How the parts of a broker that change the cluster say no: with Kafka's error code, and Kafka's text."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as KafkaError


class Refused(Exception):
    """A request's part that Kafka's rules refuse: an error code and a text.  Handlers turn it into an answer."""

    def __init__(self, error: KafkaError, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
