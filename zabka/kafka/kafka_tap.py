"""Records a broker's messages in Kafka's protocol in the broker's message log.

With `zabka.messages=control` these are the messages between controller and brokers, and Fetch requests for which the
connection to the leader was lost. At both ends, a request is identified by its connection and its number on that
connection.
"""

from __future__ import annotations

from zabka.journal.message_log import MessageLine, MessageNotes, Transport
from zabka.kafka import message_names as names
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of


class KafkaTap:
    """Logs the messages on a broker's connections, both those it opened and those it accepted."""

    def __init__(self, notes: MessageNotes) -> None:
        self._notes = notes
        self._hears_everything = notes.hears_everything

    def wants(self, message: KafkaMessage) -> bool:
        """Return whether the message should be logged."""
        return self._hears_everything or message.__api_key__ in names.CONTROL

    def now_us(self) -> int:
        """Return the current time for a message to log."""
        return self._notes.now_us()

    def caller(self, transport: Transport, broker_id: int) -> CallerLine:
        """Return the recorder for a connection that this broker has opened."""
        return CallerLine(self._notes.line(transport, f"broker-{broker_id}"))

    def server(self, transport: Transport) -> ServerLine:
        """Return the recorder for a connection that this broker has accepted."""
        return ServerLine(self, self._notes.line(transport))


class CallerLine:
    """Logs the messages of a connection on which this broker sends requests."""

    __slots__ = ("_asked", "_line")

    def __init__(self, line: MessageLine) -> None:
        self._line = line
        self._asked: dict[int, str] = {}

    def asked(self, number: int, request: KafkaMessage, size: int, us: int | None = None) -> None:
        """Log a request that this broker sends."""
        content = names.request_content(request)
        self._asked[number] = content.group
        content.subject["correlation"] = number
        self._line.sent(content, f"request@{number}", size, us)

    def answered(self, number: int, response: KafkaMessage, size: int) -> None:
        """Log a response that this broker received."""
        group = self._asked.pop(number, None)
        if group is not None:
            self._line.received(names.response_content(response, group), f"answer@{number}", size)

    def broke(self, number: int, request: KafkaMessage, sent_us: int, reason: str) -> None:
        """Log a Fetch request that got no response because the connection was lost."""
        if number not in self._asked and api_key_of(request) == ApiKey.FETCH:
            content = names.request_content(request)
            content.subject["failed"] = reason
            self._line.sent(content, f"request@{number}", None, sent_us)


class ServerLine:
    """Logs the messages of a connection on which this broker receives requests."""

    __slots__ = ("_line", "_tap", "awaits")

    def __init__(self, tap: KafkaTap, line: MessageLine) -> None:
        self._tap = tap
        self._line = line
        self.awaits: dict[int, str] = {}
        """Message classes of logged requests that have no response yet, by request number."""

    def came(self, number: int, client_id: str | None, request: KafkaMessage, size: int) -> None:
        """Log a request that this broker received."""
        if not self._tap.wants(request):
            return
        if self._line.other is None and client_id:
            self._line.other = client_id
        content = names.request_content(request)
        if not (api_key_of(request) == ApiKey.PRODUCE and request.acks == 0):
            self.awaits[number] = content.group
        content.subject["correlation"] = number
        self._line.received(content, f"request@{number}", size)

    def response_sent(self, number: int, response: KafkaMessage, size: int) -> None:
        """Log a response that this broker sends."""
        group = self.awaits.pop(number, None)
        if group is not None:
            self._line.sent(names.response_content(response, group), f"answer@{number}", size)
