"""Sends Kafka requests to other brokers over TCP: the asyncio implementation of `BrokerChannel`.

A connection sends its requests in order, and the server replies to each request only after the earlier ones. Kinds of
requests that would block each other therefore use separate connections, as in Kafka (fetchers, the controller's control
requests, requests to the controller).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, cast

from zabka.kafka.kafka_tap import CallerLine, KafkaTap
from zabka.kafka.ports import ChannelBroken, Endpoint, KafkaMessage, NeverSent
from zabka.kafka.wire.frame_reader import FrameReader, FrameTooLarge
from zabka.kafka.wire.frames import decode_response, encode_request, response_correlation_id
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of
from zabka.kafka.wire.primitives import WireError
from zabka.kafka.wire.request_lanes import lane_of

RESPONSE_BYTES_MAX = 256 * 1024 * 1024


class OpenConnection(Protocol):
    """Function that opens a TCP connection to a broker, like `loop.create_connection`, and applies link faults to
    it.
    """

    def __call__(self, factory: Callable[[], asyncio.Protocol], to: Endpoint) -> Awaitable[object]:
        """Connect to the broker, and create the protocol with `factory`. Raises OSError."""
        ...


async def _open_directly(factory: Callable[[], asyncio.Protocol], to: Endpoint) -> object:
    return await asyncio.get_running_loop().create_connection(factory, to.host, to.port)


class AsyncioChannel:
    """Implements `zabka.kafka.ports.BrokerChannel` over TCP. It can be used only on the running event loop."""

    def __init__(
        self, client_id: str, open_connection: OpenConnection | None = None, tap: KafkaTap | None = None
    ) -> None:
        self._client_id = client_id
        self._tap = tap
        self._open = open_connection or _open_directly
        self._connections: dict[tuple[int, int], tuple[Endpoint, _Connection]] = {}

    def call(self, to: Endpoint, request: KafkaMessage, timeout_ms: int) -> Awaitable[KafkaMessage]:
        """Send a request immediately.

        The awaitable returns the response. For Produce with acks=0 it returns None as soon as the request is sent.
        """
        key = (to.broker_id, lane_of(request))
        known = self._connections.get(key)
        if known is None or known[1].closed or known[0] != to:
            if known is not None:
                known[1].close("the broker listens elsewhere now")
            known = (to, _Connection(self._client_id, to, self._open, self._tap))
            self._connections[key] = known
        return known[1].call(request, timeout_ms)

    def forget(self, broker_id: int) -> None:
        """Close every connection to that broker. Calls that wait for its response raise ChannelBroken."""
        for key in [key for key in self._connections if key[0] == broker_id]:
            self._connections.pop(key)[1].close("disconnected")

    def close(self) -> None:
        """Close every connection."""
        for _, connection in self._connections.values():
            connection.close("disconnected")
        self._connections.clear()


class _Call(NamedTuple):
    correlation_id: int
    request: KafkaMessage
    answer: asyncio.Future[KafkaMessage]
    timer: asyncio.TimerHandle
    sent_us: int
    """Time on the wall clock at which the request was sent, if messages are logged."""


class _Connection(asyncio.Protocol):
    """A connection to one broker. Requests can be queued before it is open."""

    def __init__(self, client_id: str, to: Endpoint, open_connection: OpenConnection, tap: KafkaTap | None) -> None:
        self._tap = tap
        self._line: CallerLine | None = None
        self._unlogged: list[tuple[int, KafkaMessage, int]] = []
        """Requests queued before the connection is open. They are logged as sent when it opens."""
        self._loop = asyncio.get_running_loop()
        self._client_id = client_id
        self._to = to
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._flushing = False
        self._calls: deque[_Call] = deque()
        self._correlation_id = 0
        self._reader = FrameReader(RESPONSE_BYTES_MAX)
        self.closed = False
        self._opening = self._loop.create_task(self._open(open_connection), name=f"connect to broker {to.broker_id}")

    async def _open(self, open_connection: OpenConnection) -> None:
        try:
            await open_connection(lambda: self, self._to)
        except (OSError, UnicodeError) as failed:  # UnicodeError: the host name cannot be encoded by IDNA
            self.close(str(failed) or type(failed).__name__)

    def call(self, request: KafkaMessage, timeout_ms: int) -> Awaitable[KafkaMessage]:
        """Queue a request. The awaitable returns its response."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = encode_request(self._correlation_id, self._client_id, request)
        self._unsent.append(frame)
        sent_us = 0 if self._tap is None else self._log_sent(self._tap, request, len(frame))
        answer: asyncio.Future[KafkaMessage] = self._loop.create_future()
        answer.add_done_callback(_retrieved)
        if api_key_of(request) == ApiKey.PRODUCE and request.acks == 0:
            answer.set_result(None)
        else:
            timer = self._loop.call_later(timeout_ms / 1000, self._timed_out, answer)
            self._calls.append(_Call(self._correlation_id, request, answer, timer, sent_us))
        self._schedule_flush()
        return answer

    def _log_sent(self, tap: KafkaTap, request: KafkaMessage, size: int) -> int:
        """Log that a request is sent, and return the time."""
        if tap.wants(request):
            if self._line is None:
                self._unlogged.append((self._correlation_id, request, size))
            else:
                self._line.asked(self._correlation_id, request, size)
        return tap.now_us()

    def close(self, reason: str) -> None:
        """Disconnect. Calls that wait for a response raise ChannelBroken."""
        if self.closed:
            return
        self.closed = True
        if self._line is not None and self._calls:
            first = self._calls[0]
            self._line.broke(first.correlation_id, first.request, first.sent_us, reason)
        self._opening.cancel()
        if self._transport is not None:
            self._transport.close()
        calls, self._calls = self._calls, deque()
        for call in calls:
            call.timer.cancel()
            if not call.answer.done():
                broken = ChannelBroken if self._transport is not None else NeverSent
                call.answer.set_exception(broken(f"broker {self._to.broker_id}: {reason}"))

    def _timed_out(self, answer: asyncio.Future[KafkaMessage]) -> None:
        # Close the connection after a timeout, as Kafka's clients do: later responses cannot arrive before the overdue
        # one.
        if not answer.done():
            self.close("no answer in time")

    def _schedule_flush(self) -> None:
        if not self._flushing and self._transport is not None:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._transport is not None and not self._transport.is_closing():
            with contextlib.suppress(RuntimeError):  # uvloop raises this while the transport is closing
                self._transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of uvloop and of links with faults implement asyncio's interface but are not subclasses of it.
        self._transport = cast(asyncio.Transport, transport)
        if self.closed:
            transport.close()
            return
        if self._tap is not None:
            self._line = self._tap.caller(self._transport, self._to.broker_id)
            for number, request, size in self._unlogged:
                self._line.asked(number, request, size)
            self._unlogged.clear()
        self._schedule_flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.close("connection lost")

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._reader.feed(data):
                self._take(frame)
        except (FrameTooLarge, WireError) as malformed:
            self.close(f"it sent {malformed}")

    def _take(self, frame: bytes) -> None:
        correlation_id = response_correlation_id(frame)
        if not self._calls or self._calls[0].correlation_id != correlation_id:
            raise WireError(f"an answer to request {correlation_id}, which is not the one it owes")
        call = self._calls.popleft()
        call.timer.cancel()
        try:
            response = decode_response(frame, call.request)
        except WireError as malformed:
            if not call.answer.done():
                call.answer.set_exception(ChannelBroken(f"broker {self._to.broker_id}: {malformed}"))
            raise
        if self._line is not None:
            self._line.answered(correlation_id, response, len(frame) + 4)
        if not call.answer.done():
            call.answer.set_result(response)


def _retrieved(answer: asyncio.Future[KafkaMessage]) -> None:
    # Retrieve the exception, so that asyncio does not log it as never retrieved.
    if not answer.cancelled():
        answer.exception()
