"""The Kafka port: asyncio connections that send responses in the order of their requests.

As in Kafka, a connection's requests are processed one after another: the next request waits until the response to the
previous one is written. All complete frames of a read are processed as one group, and all responses of an event loop
iteration are sent in one write. If a frame is not a valid request, its connection is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, cast

from zabka.broker_sim.principals import ANONYMOUS, KafkaPrincipal, NoPrincipal
from zabka.broker_sim.quotas.connection_quotas import ConnectionQuotas, ConnectionThrottled, TooManyConnections
from zabka.broker_sim.request_context import COSTLESS, RequestContext, RequestRefused, Unanswered
from zabka.broker_sim.request_times import RequestTimes, ThreadClock
from zabka.ensemble.runtime.client_end import IPV4_IN_IPV6
from zabka.ensemble.runtime.client_links import ClientLink, ClientLinks, KnownClient
from zabka.ensemble.runtime.descriptors import may_stay
from zabka.ensemble.runtime.supervisor import report_task_failure
from zabka.kafka.kafka_tap import KafkaTap, ServerLine
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.request_faults.subjects import OWN_CLIENTS
from zabka.kafka.wire import api_versions
from zabka.kafka.wire.frame_reader import FrameReader, FrameTooLarge
from zabka.kafka.wire.frames import (
    DecodedRequest,
    ResponseEncoder,
    UnsupportedVersion,
    decode_request,
    takes_long,
)
from zabka.kafka.wire.kafka_schema import ApiKey
from zabka.kafka.wire.primitives import WireError

Handle = Callable[[KafkaMessage, RequestContext], Coroutine[Any, Any, KafkaMessage | None]]
"""Processes a request with its context. Returns the response, or None if the client expects none."""
Broken = Callable[[str, str], None]
"""Called with (remote address, reason) after a connection was closed because the client violated the protocol."""

JOINED_BYTES_MAX = 32 * 1024
"""Responses that are together larger than this are not copied into one buffer before they are sent."""
WAITING_MAX = 512
"""Maximum number of connections that wait to be admitted. Further connections are closed."""
_CLIENT_ID_AT = 14
"""Position of the client id in a request frame: after the size, API key, version, correlation id and the client id's
length.
"""
_TLS_HELLO = b"\x16\x03"
"""First bytes of a TLS handshake: the record type, and the major version.

A frame whose size begins with these bytes would be larger than 352 MiB.
"""
REQUESTS_QUEUED_MAX = 64
"""Maximum number of waiting request frames per connection. With more, no further data are read."""


class KafkaPort:
    """Accepts the connections of one listener of a broker.

    `frame_bytes_max` is socket.request.max.bytes, `idle_ms_max` is connections.max.idle.ms (0 or less: never). `failed`
    is called if a bug raises an exception during a request; that connection is closed. `times` measures requests while
    clients have request quotas. `connect` creates the connections of a listener with SASL.
    """

    def __init__(
        self,
        listener: str,
        handle: Handle,
        broken: Broken,
        failed: Callable[[str, Exception], None],
        quotas: ConnectionQuotas,
        times: RequestTimes | None = None,
        *,
        frame_bytes_max: int,
        idle_ms_max: int,
        tap: KafkaTap | None = None,
        connect: Callable[[KafkaPort], Connection] | None = None,
    ) -> None:
        self.tap = tap
        self._connect = connect or Connection
        self.listener = listener
        self.handle = handle
        self.broken = broken
        self.failed = failed
        self.frame_bytes_max = frame_bytes_max
        self.encoder = ResponseEncoder()
        self.connections: dict[int, Connection] = {}
        self.times = times
        self.links: ClientLinks | None = None
        """The faults of links to clients, or None while there are none, to avoid their overhead."""
        self._quotas = quotas
        self._arrivals: asyncio.Queue[Connection] = asyncio.Queue()
        self._accepting: asyncio.Task[None] | None = None
        self._turned_away: dict[int, Connection] = {}
        """Connections that exceeded a connection rate, until they are closed."""
        self._idle_ms_max = idle_ms_max
        self._server: asyncio.AbstractServer | None = None
        self._sweep: asyncio.TimerHandle | None = None

    async def start(self, host: str, port: int) -> int:
        """Start to listen. Return the actual port, which differs from `port` if that is 0. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._quotas.add_listener(self.listener, self._evict)
        self._accepting = loop.create_task(self._accept(), name=f"accept {self.listener}")
        report_task_failure(self._accepting)
        bound = await self._open(host, port)
        self._schedule_sweep()
        return bound

    async def _open(self, host: str, port: int) -> int:
        """Open the port, and return its actual number. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self.connection, host or None, port, backlog=512)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def connection(self) -> asyncio.Protocol:
        """Return a protocol for a new connection."""
        return self._connect(self)

    def identify(self, transport: asyncio.BaseTransport) -> KafkaPrincipal:
        """Return the principal of a new connection. Raises NoPrincipal if the connection must be closed."""
        return ANONYMOUS

    def unidentified(self, remote: str, reason: str) -> None:
        """Report a new connection that has no principal."""
        self.broken(remote, reason)

    async def close(self) -> None:
        """Stop listening and close every connection."""
        if self._sweep is not None:
            self._sweep.cancel()
        if self._server is not None:
            self._server.close()
        if self._accepting is not None:
            self._accepting.cancel()
        while not self._arrivals.empty():
            self._arrivals.get_nowait().close()
        for connection in [*self.connections.values(), *self._turned_away.values()]:
            connection.close()
        if self._server is not None:
            await self._server.wait_closed()

    def hold_links(self, links: ClientLinks) -> None:
        """Apply these faults to links with clients from now on, also to open connections."""
        self.links = links if links.is_needed else None
        for connection in self.connections.values() if self.links is not None else ():
            connection.join(links)

    # ---- admission ----------------------------------------------------------------------------------------------

    @property
    def is_of_few(self) -> bool:
        """Whether only other brokers use this listener.

        In that case, client listeners leave some file descriptors free for this listener.
        """
        return self._quotas.is_protected(self.listener)

    def arrive(self, connection: Connection) -> None:
        """Queue a new connection. Its data is read once the connection is admitted."""
        connection.number = self._quotas.number()
        if self._arrivals.qsize() < WAITING_MAX:
            self._arrivals.put_nowait(connection)
        else:
            connection.close()

    def leave(self, connection: Connection) -> None:
        """Handle the end of a connection."""
        self._turned_away.pop(id(connection), None)
        if self.connections.pop(id(connection), None) is not None:
            self._quotas.release(self.listener, connection.address)

    async def _accept(self) -> None:
        """Admit connections in order. While a connection waits to be admitted, all later connections wait too."""
        loop = asyncio.get_running_loop()
        while True:
            connection = await self._arrivals.get()
            try:
                await self._quotas.admit(self.listener, connection.address)
            except TooManyConnections:
                connection.close()
            except ConnectionThrottled as throttled:
                self._turned_away[id(connection)] = connection
                loop.call_later(throttled.throttle_ms / 1000, connection.close)
            except asyncio.CancelledError:
                connection.close()
                raise
            else:
                self.connections[id(connection)] = connection
                connection.start_reading()

    def _evict(self) -> str | None:
        """Close the connection that has been idle longest, to make room for another. Return its address."""
        found = min(self.connections.values(), key=lambda connection: connection.last_active, default=None)
        if found is None:
            return None
        del self.connections[id(found)]
        found.close()
        return found.address

    def _schedule_sweep(self) -> None:
        if self._idle_ms_max > 0:
            period_s = min(self._idle_ms_max / 2000, 30.0)
            self._sweep = asyncio.get_running_loop().call_later(period_s, self._close_idle)

    def _close_idle(self) -> None:
        idle_since = asyncio.get_running_loop().time() - self._idle_ms_max / 1000
        for connection in list(self.connections.values()):
            if connection.idle_since(idle_since):
                connection.close()
        self._schedule_sweep()


def known_client(client_id: str) -> KnownClient:
    """Return the client with this client id, and whether it is a broker or zabka itself."""
    return KnownClient(client_id, OWN_CLIENTS.fullmatch(client_id) is not None)


def first_client(data: bytes) -> KnownClient | None:
    """Return the client that a connection's first request identifies, or None if more bytes are needed."""
    if len(data) < _CLIENT_ID_AT:
        return None
    size = int.from_bytes(data[_CLIENT_ID_AT - 2 : _CLIENT_ID_AT], signed=True)
    if len(data) < _CLIENT_ID_AT + size:
        return None
    return known_client(data[_CLIENT_ID_AT : _CLIENT_ID_AT + max(0, size)].decode("utf-8", "replace"))


class _Unread:
    """Replaces a connection's frame reader after a request that is not answered. Drops all data after that request."""

    def feed(self, data: bytes) -> list[bytes]:
        """Drop the data and return no frame."""
        return []


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, port: KafkaPort) -> None:
        self._port = port
        self._loop = asyncio.get_running_loop()
        self._reader: FrameReader | _Unread = FrameReader(port.frame_bytes_max)
        self._frames: deque[bytes] = deque()
        self._arrived: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._muted: asyncio.Future[None] | None = None
        self._replies: list[bytes] = []
        self._flushing = False
        self._reading = True
        self._busy = False
        self.last_active = self._loop.time()
        self.number = 0
        self.address = ""
        self.principal = ANONYMOUS
        self._remote = "?"
        self._client_host = ""
        self._addresses = ""
        self._line: ServerLine | None = None
        self._client_id: str | None = None
        """The client id of the first request."""
        self._link: ClientLink | None = None
        self._transport: asyncio.Transport | None = None
        # Store the task, because the event loop itself has only a weak reference to it.
        self._task: asyncio.Task[None] | None = None

    # ---- called by asyncio ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Cast the transport: uvloop's transports have the same methods as asyncio's, but not their types.
        self._transport = transport = cast(asyncio.Transport, transport)
        if not may_stay(transport, is_of_few=self._port.is_of_few):
            transport.abort()
            return
        if self._port.tap is not None:
            self._line = self._port.tap.server(transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self._remote = f"{peer[0]}:{peer[1]}"
            here = transport.get_extra_info("sockname")
            self._addresses = f"{here[0]}:{here[1]}-{self._remote}" if here else self._remote
            self.address = str(peer[0]).removeprefix(IPV4_IN_IPV6)
            # Use the format in which Kafka's tools show a member's host (Java's InetAddress): a slash and the address.
            self._client_host = f"/{self.address}"
        try:
            self.principal = self._port.identify(transport)
        except NoPrincipal as unmapped:
            self._port.unidentified(self._remote, str(unmapped))
            transport.abort()
            return
        transport.pause_reading()
        self._port.arrive(self)

    def connection_lost(self, exc: Exception | None) -> None:
        # As in Kafka, complete the current request, but drop its response.
        self._transport = None
        self._port.leave(self)
        self._frames.clear()
        for waiting in (self._arrived, self._writable, self._muted):
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

    def data_received(self, data: bytes) -> None:
        self.last_active = self._loop.time()
        try:
            self._frames += self._reader.feed(data)
        except FrameTooLarge as refused:
            is_hello = data.startswith(_TLS_HELLO)
            self._drop(f"a TLS handshake on the plain listener {self._port.listener}" if is_hello else str(refused))
            return
        if self._arrived is not None and self._frames and not self._arrived.done():
            self._arrived.set_result(None)
        if self._reading and len(self._frames) > REQUESTS_QUEUED_MAX and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # ---- methods for the port -----------------------------------------------------------------------------------

    def start_reading(self) -> None:
        """Start to read requests, because the connection was admitted."""
        if self._transport is None or self._transport.is_closing():
            self._port.leave(self)
            return
        self.last_active = self._loop.time()
        if self._port.links is not None:
            self._port.links.attach(self, self._transport, None)
        self._transport.resume_reading()
        self._task = self._loop.create_task(self._serve(), name=f"kafka connection {self._remote}")
        report_task_failure(self._task, self._failed)

    def join(self, links: ClientLinks) -> None:
        """Apply the faults of links with this client, also to a connection that is already open."""
        if self._link is None and self._transport is not None:
            links.attach(self, self._transport, known_client(self._client_id or ""))

    def use_transport(self, transport: asyncio.Transport, link: ClientLink | None) -> None:
        """Switch to another transport for reading and writing. `link` is set if it is the transport of a faulty
        link.
        """
        self._transport, self._link = transport, link

    def _named(self, client_id: str) -> None:
        self._client_id = client_id
        if self._link is not None:
            self._link.name_client(known_client(client_id))

    def close(self) -> None:
        """Disconnect after the responses have been sent."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def _failed(self, name: str, failure: BaseException) -> None:
        """Close the connection after a bug that occurred outside of a request.

        The bug has ended the task that reads the connection.
        """
        assert isinstance(failure, Exception)
        self._port.failed(name, failure)
        self.close()

    def idle_since(self, moment: float) -> bool:
        """Return whether no data has arrived since `moment` and no request is in progress.

        A muted connection also counts as idle, even if it has requests: the broker does not read from it, so it would
        not notice that the client has closed it.
        """
        is_quiet = self._muted is not None or (not self._busy and not self._frames)
        return is_quiet and self.last_active < moment

    async def _serve(self) -> None:
        while self._transport is not None:
            if not self._frames:
                self._arrived = self._loop.create_future()
                await self._arrived
                self._arrived = None
                continue
            frame = self._frames.popleft()
            if not self._reading and len(self._frames) < REQUESTS_QUEUED_MAX // 2 and self._transport is not None:
                self._reading = True
                self._transport.resume_reading()
            self._busy = True
            if not await self._carry_out(frame):
                return
            self._busy = False
            # The request may have taken long, so restart the idle time at the response (IdleExpiryManager.update).
            self.last_active = self._loop.time()
            if self._writable is not None:
                await self._writable

    async def _carry_out(self, frame: bytes) -> bool:
        """Process one request. Return False if the connection was closed instead of sending a response."""
        times = self._port.times
        clock = None if times is None else times.clock()
        try:
            request = decode_request(frame)
        except UnsupportedVersion as unsupported:
            if unsupported.api_key != ApiKey.API_VERSIONS:
                self._drop(str(unsupported))
                return False
            answer = api_versions.answer_unknown_version()
            parts = self._port.encoder.encode_parts(unsupported.correlation_id, answer)
            self._reply(unsupported.correlation_id, answer, parts)
            return True
        except WireError as malformed:
            self._drop(str(malformed))
            return False
        if self._line is not None:
            self._line.came(request.correlation_id, request.client_id, request.payload, len(frame) + 4)
        return await self._answer(request, clock)

    async def _answer(self, request: DecodedRequest, clock: ThreadClock | None) -> bool:
        port = self._port
        client_id = request.client_id or ""
        if self._client_id is None:
            self._named(client_id)
        measured = COSTLESS if clock is None else clock
        context = RequestContext(
            client_id,
            port.listener,
            self._client_host,
            measured,
            connection=self.number,
            principal=self.principal,
            addresses=self._addresses,
        )
        try:
            work = port.handle(request.payload, context)
            response = await (work if clock is None else clock.measure(work))
            if response is not None:
                answered_ns = 0 if clock is None else clock.spent_ns()
                if takes_long(response):
                    encoding = self._encoded_in_slices(request.correlation_id, response)
                    parts = await (encoding if clock is None else clock.measure(encoding))
                else:
                    parts = port.encoder.encode_parts(request.correlation_id, response)
                if context.truncated:
                    self._send_half(parts)
                    return False
                self._reply(request.correlation_id, response, parts)
                if clock is not None and port.times is not None:
                    port.times.sent(client_id, clock.spent_ns() - answered_ns, self.principal.name)
            if context.muted_ms:
                await self._mute(context.muted_ms)
        except Unanswered as unanswered:
            if unanswered.for_good:
                await self._hang()
        except RequestRefused:
            # As in Kafka, close the connection, because this is how a client that expects no response learns of the
            # error.
            self.close()
            return False
        except Exception as failure:
            port.failed(f"{type(request.payload).__name__} of {self._remote}", failure)
            self.close()
            return False
        return True

    async def _encoded_in_slices(self, correlation_id: int, response: KafkaMessage) -> list[bytes]:
        work = self._port.encoder.encode_in_slices(correlation_id, response)
        while True:
            try:
                next(work)
            except StopIteration as ended:
                parts: list[bytes] = ended.value
                return parts
            await asyncio.sleep(0)

    async def _hang(self, duration_ms: int | None = None) -> None:
        """Drop all further data until the client closes the connection, or for `duration_ms`."""
        self._reader = _Unread()
        self._frames.clear()
        if not self._reading and self._transport is not None and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()
        self._muted = self._loop.create_future()
        timer = None if duration_ms is None else self._loop.call_later(duration_ms / 1000, self._unmute)
        if self._transport is not None:
            await self._muted
        if timer is not None:
            timer.cancel()

    async def _mute(self, duration_ms: int) -> None:
        """Stop reading from this client for `duration_ms`, after its response was sent (KIP-219)."""
        if self._reading and self._transport is not None and not self._transport.is_closing():
            self._reading = False
            self._transport.pause_reading()
        self.last_active = self._loop.time()
        self._muted = self._loop.create_future()
        timer = self._loop.call_later(duration_ms / 1000, self._unmute)
        if self._transport is not None:
            await self._muted
        timer.cancel()
        self._muted = None
        if not self._reading and self._transport is not None and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()

    def _unmute(self) -> None:
        if self._muted is not None and not self._muted.done():
            self._muted.set_result(None)

    def _reply(self, correlation_id: int, response: KafkaMessage, parts: list[bytes]) -> None:
        self._replies += parts
        if self._line is not None and self._line.awaits:
            self._line.response_sent(correlation_id, response, sum(map(len, parts)))
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _send_half(self, parts: list[bytes]) -> None:
        """Send half of a response and close the connection, because of a request fault."""
        whole = b"".join(parts)
        self._replies.append(whole[: len(whole) // 2])
        self.close()

    def _flush(self) -> None:
        self._flushing = False
        if self._replies and self._transport is not None:
            with contextlib.suppress(RuntimeError):  # uvloop raises this if the transport is closing
                if sum(map(len, self._replies)) < JOINED_BYTES_MAX:
                    self._transport.write(b"".join(self._replies))
                else:
                    self._transport.writelines(self._replies)
        self._replies.clear()

    def _drop(self, reason: str) -> None:
        self._frames.clear()
        if self._transport is not None and not self._transport.is_closing():
            self._port.broken(self._remote, reason)
            self.close()
