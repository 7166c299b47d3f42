"""Sends Kafka requests to other brokers over TCP: the asyncio implementation of `BrokerChannel`.

A connection sends its requests in order, and the server replies to each request only after the earlier ones. Kinds of
requests that would block each other therefore use separate connections, as in Kafka (fetchers, the controller's control
requests, requests to the controller).

A connection is encrypted and authenticated as `ChannelSecurity` requires. Until it is authenticated, and while it is
authenticated again because the session's lifetime ends, requests wait:

| state | entered | requests |
|---|---|---|
| opening | at the first request | wait |
| logging in | TCP and TLS are established, or 85 % of the session's lifetime have passed | wait |
| ready | the login is complete, or none is needed | are sent |
| closed | a failure, a timeout, or `close` | raise ChannelBroken |
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, cast

from zabka.ensemble.runtime.disconnect import disconnect
from zabka.ensemble.server.net.peer_security import tls_problem
from zabka.kafka.channel_security import PLAIN_TEXT, ChannelSecurity
from zabka.kafka.kafka_tap import CallerLine, KafkaTap
from zabka.kafka.ports import ChannelBroken, Endpoint, KafkaMessage, NeverSent
from zabka.kafka.sasl_login import AuthenticationFailed, Login
from zabka.kafka.wire.frame_reader import FrameReader, FrameTooLarge
from zabka.kafka.wire.frames import decode_response, encode_request, response_correlation_id
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of
from zabka.kafka.wire.primitives import WireError
from zabka.kafka.wire.request_lanes import lane_of

RESPONSE_BYTES_MAX = 256 * 1024 * 1024
LOGIN_AGAIN_AT = 0.85
"""Share of a session's lifetime after which the next request waits for a new login (SaslClientAuthenticator)."""


class OpenConnection(Protocol):
    """Function that opens a TCP connection to a broker, like `loop.create_connection`, and applies link faults to
    it.
    """

    def __call__(
        self, factory: Callable[[], asyncio.Protocol], to: Endpoint, tls: ssl.SSLContext | None
    ) -> Awaitable[object]:
        """Connect to the broker, with TLS if there is a context, and create the protocol with `factory`.

        Raises OSError.
        """
        ...


async def _open_directly(factory: Callable[[], asyncio.Protocol], to: Endpoint, tls: ssl.SSLContext | None) -> object:
    return await asyncio.get_running_loop().create_connection(factory, to.host, to.port, ssl=tls)


class AsyncioChannel:
    """Implements `zabka.kafka.ports.BrokerChannel` over TCP. It can be used only on the running event loop."""

    def __init__(
        self,
        client_id: str,
        open_connection: OpenConnection | None = None,
        tap: KafkaTap | None = None,
        security: ChannelSecurity = PLAIN_TEXT,
    ) -> None:
        self._client_id = client_id
        self._tap = tap
        self._open = open_connection or _open_directly
        self._security = security
        self._connections: dict[tuple[int, int, str], tuple[Endpoint, _Connection]] = {}

    def call(self, to: Endpoint, request: KafkaMessage, timeout_ms: int) -> Awaitable[KafkaMessage]:
        """Send a request immediately.

        The awaitable returns the response. For Produce with acks=0 it returns None as soon as the request is sent.
        """
        key = (to.broker_id, lane_of(request), to.listener)
        known = self._connections.get(key)
        if known is None or known[1].closed or known[0] != to:
            if known is not None:
                known[1].close("the broker listens elsewhere now")
            known = (to, _Connection(self._client_id, to, self._open, self._tap, self._security))
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
    """A request that waits for its response. `answer` is None for a message of the login."""

    correlation_id: int
    request: KafkaMessage
    answer: asyncio.Future[KafkaMessage] | None
    timer: asyncio.TimerHandle | None
    sent_us: int
    """Time on the wall clock at which the request was sent, if messages are logged."""


class _Held(NamedTuple):
    """A request that waits until the connection is ready. `call` is None if no response is expected."""

    correlation_id: int
    request: KafkaMessage
    frame: bytes
    call: _Call | None


class _Connection(asyncio.Protocol):
    """A connection to one broker. Requests can be queued before it is open."""

    def __init__(
        self,
        client_id: str,
        to: Endpoint,
        open_connection: OpenConnection,
        tap: KafkaTap | None,
        security: ChannelSecurity,
    ) -> None:
        self._tap = tap
        self._line: CallerLine | None = None
        self._loop = asyncio.get_running_loop()
        self._client_id = client_id
        self._to = to
        self._security = security
        self._login: Login | None = None
        """The login in progress."""
        self._login_again_at: float | None = None
        self._ready = False
        self._held: deque[_Held] = deque()
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._flushing = False
        self._calls: deque[_Call] = deque()
        """Requests in flight, in the order in which they were sent."""
        self._correlation_id = 0
        self._reader = FrameReader(RESPONSE_BYTES_MAX)
        self._is_accepted = True
        """False between the TLS handshake and the first response."""
        self.closed = False
        self._opening = self._loop.create_task(self._open(open_connection), name=f"connect to broker {to.broker_id}")

    async def _open(self, open_connection: OpenConnection) -> None:
        try:
            await self._security.prepare(self._to)
        except AuthenticationFailed as failed:
            self._refuse(str(failed))
            return
        context = self._security.context(self._to)
        try:
            await open_connection(lambda: self, self._to, context)
        except (OSError, UnicodeError) as failed:  # UnicodeError: the host name cannot be encoded by IDNA
            if context is not None and isinstance(failed, ConnectionResetError):
                self._refuse("the connection was closed during the TLS handshake")
            self._fail(failed)

    def call(self, request: KafkaMessage, timeout_ms: int) -> Awaitable[KafkaMessage]:
        """Queue a request. The awaitable returns its response."""
        number, frame = self._encode(request)
        answer: asyncio.Future[KafkaMessage] = self._loop.create_future()
        answer.add_done_callback(_retrieved)
        call = None
        if api_key_of(request) == ApiKey.PRODUCE and request.acks == 0:
            answer.set_result(None)
        else:
            timer = self._loop.call_later(timeout_ms / 1000, self._timed_out, answer)
            call = _Call(number, request, answer, timer, 0 if self._tap is None else self._tap.now_us())
        if self._ready and self._login_again_at is not None and self._loop.time() >= self._login_again_at:
            self._log_in()
        held = _Held(number, request, frame, call)
        if self._ready:
            self._send(held)
        else:
            self._held.append(held)
        return answer

    def _encode(self, request: KafkaMessage) -> tuple[int, bytes]:
        """Return the correlation id and the frame of a new request."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id, encode_request(self._correlation_id, self._client_id, request)

    def _send(self, held: _Held) -> None:
        if self._tap is not None and self._line is not None and self._tap.wants(held.request):
            self._line.asked(held.correlation_id, held.request, len(held.frame))
        if held.call is not None:
            self._calls.append(held.call)
        self._unsent.append(held.frame)
        self._schedule_flush()

    # ---- login ------------------------------------------------------------------------------------------------

    def _log_in(self) -> None:
        """Begin a login, if the connection needs one."""
        self._ready, self._login = False, self._security.login(self._to)
        if self._login is None:
            self._send_held()
        else:
            self._advance(None)

    def _advance(self, response: KafkaMessage) -> None:
        """Continue the login with the response to its last message."""
        assert self._login is not None
        try:
            # `send(None)` starts the generator.
            message = self._login.send(response)
        except StopIteration as complete:
            lifetime_ms: int = complete.value
            self._login = None
            at = self._loop.time() + lifetime_ms / 1000 * LOGIN_AGAIN_AT
            self._login_again_at = at if lifetime_ms else None
            self._send_held()
        except AuthenticationFailed as failed:
            self._refuse(str(failed))
        else:
            # The message log does not contain logins, because they contain passwords.
            number, frame = self._encode(message)
            self._calls.append(_Call(number, message, None, None, 0))
            self._unsent.append(frame)
            self._schedule_flush()

    def _send_held(self) -> None:
        self._ready = True
        held, self._held = self._held, deque()
        for each in held:
            self._send(each)

    def _fail(self, failed: Exception) -> None:
        """Close the connection because of an error, and report it if it is one of TLS."""
        problem = tls_problem(failed)
        if problem is not None:
            self._refuse(problem)
        self.close(str(failed) or type(failed).__name__)

    def _refuse(self, reason: str) -> None:
        """Report a failed authentication, and close the connection."""
        if not self.closed:
            self._security.failed(self._to, reason)
            self.close(reason)

    # ---- the end ----------------------------------------------------------------------------------------------

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
            disconnect(self._transport)
        calls, self._calls = self._calls, deque()
        held, self._held = self._held, deque()
        text = f"broker {self._to.broker_id}: {reason}"
        for call in calls:
            self._break(call, ChannelBroken(text))
        for each in held:
            if each.call is not None:
                self._break(each.call, NeverSent(text))

    @staticmethod
    def _break(call: _Call, broken: ChannelBroken) -> None:
        if call.timer is not None:
            call.timer.cancel()
        if call.answer is not None and not call.answer.done():
            call.answer.set_exception(broken)

    def _timed_out(self, answer: asyncio.Future[KafkaMessage]) -> None:
        # Close the connection after a timeout, as Kafka's clients do: later responses cannot arrive before the overdue
        # one.
        if not answer.done():
            self.close("no answer in time")

    # ---- bytes ------------------------------------------------------------------------------------------------

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
        refusal = self._security.refusal(self._to, self._transport)
        if refusal is not None:
            self._refuse(refusal)
            return
        self._is_accepted = transport.get_extra_info("ssl_object") is None
        if self._tap is not None:
            self._line = self._tap.caller(self._transport, self._to.broker_id)
        self._log_in()

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, ssl.SSLError) and (self._login is not None or not self._is_accepted):
            self._fail(exc)
        if self._login is not None:
            self._refuse("the connection was closed during authentication")
        if not self._is_accepted:
            # With TLS 1.3, the server verifies this side's certificate after this side's handshake is complete. Kafka
            # sends an alert then, but a broker on asyncio only closes the connection.
            self._refuse("the connection was closed after the TLS handshake; was this side's certificate refused?")
        self.close("connection lost")

    def data_received(self, data: bytes) -> None:
        self._is_accepted = True
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
        if call.timer is not None:
            call.timer.cancel()
        try:
            response = decode_response(frame, call.request)
        except WireError as malformed:
            self._break(call, ChannelBroken(f"broker {self._to.broker_id}: {malformed}"))
            raise
        if call.answer is None:
            self._advance(response)
            return
        if self._line is not None:
            self._line.answered(correlation_id, response, len(frame) + 4)
        if not call.answer.done():
            call.answer.set_result(response)


def _retrieved(answer: asyncio.Future[KafkaMessage]) -> None:
    # Retrieve the exception, so that asyncio does not log it as never retrieved.
    if not answer.cancelled():
        answer.exception()
