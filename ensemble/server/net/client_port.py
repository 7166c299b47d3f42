"""The client port: incoming and outgoing frames, and four-letter words (NIOServerCnxn, FourLetterCommands).

All complete frames of a read are parsed together, and all replies of a turn are sent in one write. Bytes that are not
a frame, or a frame larger than jute.maxbuffer, close the connection. The TLS port works in the same way after the
handshake.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import cast

from zabka.ensemble.auth.addresses import canonical_address
from zabka.ensemble.auth.names import subject_of
from zabka.ensemble.auth.policy import AuthPolicy
from zabka.ensemble.auth.schemes import X509, AuthId
from zabka.ensemble.ids import ConnectionId, SessionId
from zabka.ensemble.jute import MalformedRecord, pack_int
from zabka.ensemble.records import (
    REQUEST_HEADER_SIZE,
    ClientMessage,
    ConnectRequest,
    ConnectResponse,
    Frames,
    Reply,
    ReplyFrames,
    ServerMessage,
)
from zabka.ensemble.request_fault import HeldRequestFault
from zabka.ensemble.request_fault_uses import Counts
from zabka.ensemble.runtime.client_end import session_name
from zabka.ensemble.runtime.client_links import ClientLink, ClientLinks, KnownClient
from zabka.ensemble.runtime.descriptors import may_stay
from zabka.ensemble.runtime.links import FaultTable
from zabka.ensemble.server.config.tls import TlsStore, certificate_of
from zabka.ensemble.server.net.admission import Admission, RequestGate
from zabka.ensemble.server.net.client_faults import ClientFaults, ConnectionState
from zabka.ensemble.server.net.client_listener import ClientListener, Newcomer
from zabka.ensemble.server.net.lingering import Lingering
from zabka.ensemble.server.net.peer_tap import PeerTap
from zabka.ensemble.server.net.secure_entrance import SecureEntrance
from zabka.ensemble.server.net.sockets import keep_alive, listen, remote_name
from zabka.ensemble.tree.backlog import ANSWERS_BYTES_MAX
from zabka.journal.events import Event

OUTSTANDING_HIGH = 4000
OUTSTANDING_LOW = 1000
"""Number of requests in progress at which reading from a paused connection resumes.

Reading pauses when a connection has more than OUTSTANDING_HIGH requests in progress.
"""
WRITES_AT_ONCE = 200
"""Number of connections to which replies are written before the event loop runs other work.

Otherwise a watch event for ten thousand clients would delay all other work.
"""
LINGER_S = 5.0
"""Time that a client has to read its remaining replies after the server closed its connection."""

_SIZE = struct.Struct(">I")
_SESSION_AT = 20
"""Offset of the session id in a ConnectRequest frame: after length, protocol version, zxid and timeout."""


class Arriving:
    """Collects the pieces of a large frame, and joins them only once, when the frame is complete."""

    __slots__ = ("_missing", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._missing = 0

    def append(self, data: bytes) -> bytes:
        """Add received bytes, and return all bytes since the last complete frame.

        If they do not contain the whole next frame yet, store them and return nothing.
        """
        if not self._pieces:
            return data
        self._pieces.append(data)
        self._missing -= len(data)
        if self._missing > 0:
            return b""
        whole = b"".join(self._pieces)
        self._pieces.clear()
        return whole

    def keep(self, rest: bytes, missing: int) -> None:
        """Store the beginning of an incomplete frame.

        `missing` is the number of bytes that are still missing, 0 if the frame's length is not known yet.
        """
        if rest:
            self._pieces.append(rest)
            self._missing = missing


def complaint_of_size(size: int, limit: int, *, first: bool) -> str:
    """Return the error message for a frame that is too large; `first` marks the first frame of a connection."""
    if first:
        return "it does not speak ZooKeeper's protocol"
    if size < limit:
        return f"it sent a request of {size} bytes"
    return (
        f"it sent a request of {size} bytes, jute.maxbuffer is {limit}: keep less in one znode or multi, or raise "
        "jute.maxbuffer for every server and client"
    )


def messages_of(first: ConnectRequest | None, frames: list[bytes]) -> list[ClientMessage]:
    """Return the messages of one read: first the ConnectRequest, if any; all other frames form one message."""
    return [each for each in (first, Frames(frames) if frames else None) if each is not None]


class ClientPort:
    """The client ports of a server, and all client connections."""

    def __init__(
        self,
        listener: ClientListener,
        admission: Admission,
        policy: AuthPolicy,
        tap: PeerTap | None = None,
        faults: ClientFaults | None = None,
        emit: Callable[[Event], object] = lambda _: None,
    ) -> None:
        self.listener = listener
        self.tap = tap
        self.faults: ClientFaults | None = None
        """Request faults; None until the first fault is added, so that requests have no overhead without faults."""
        self._all_faults = faults
        self._all_links = ClientLinks("session", self._first_names, emit)
        self.links: ClientLinks | None = None
        """Link faults of clients, or None without such faults, so that connections then have no overhead."""
        self.admission = admission
        self.gate = RequestGate(admission) if admission.limits.in_process else None
        self._policy = policy
        self._server: asyncio.AbstractServer | None = None
        self._secure: list[SecureEntrance] = []
        self._unified: SecureEntrance | None = None
        self._connections: dict[ConnectionId, ClientConnection] = {}
        self._newcomers: dict[ClientConnection, None] = {}
        self._unflushed: dict[ConnectionId, ClientConnection] = {}
        # Connections to write to in later turns, because one turn had replies for too many connections.
        self._late: dict[ConnectionId, ClientConnection] = {}
        self._next = self.bytes_received = self.bytes_sent = 0
        self._last: ConnectResponse | Reply | None = None
        self._last_framed = b""
        self.open_at: tuple[str, int] | None = None

    async def listen(self, host: str, port: int) -> None:
        """Open the port. If a client port is already open, replace it, with TLS if that port uses TLS.

        Raises PortError.
        """
        self.open_at = host, port
        if self._unified is not None:
            return await self._unified.listen(host, port, "the client port")
        if self._server is not None:
            self._server.close()
        self._server = await listen(lambda: ClientConnection(self, None), host, port, "the client port")

    async def listen_secure(self, host: str, port: int, store: TlsStore) -> None:
        """Open the TLS port.  Raises PortError."""
        await self._entrance(store, accepts_plain=False).listen(host, port, "the secure client port")

    async def listen_unified(self, host: str, port: int, store: TlsStore) -> None:
        """Open the client port for clients with and without TLS.

        Raises PortError.
        """
        self._unified = self._entrance(store, accepts_plain=True)
        await self.listen(host, port)

    def _entrance(self, store: TlsStore, *, accepts_plain: bool) -> SecureEntrance:
        entrance = SecureEntrance(
            self.admission,
            store,
            connection=lambda entrance: ClientConnection(self, entrance),
            on_refused=self.listener.on_client_refused,
            accepts_plain=accepts_plain,
        )
        self._secure.append(entrance)
        return entrance

    async def close(self) -> None:
        """Stop listening and close every connection."""
        if self._server is not None:
            self._server.close()
        for entrance in self._secure:
            entrance.listener.close()
        for connection in list(self._connections.values()):
            connection.close()
        for newcomer in list(self._newcomers):
            newcomer.give_up()

    @property
    def port(self) -> int:
        """The actual port number, even if port 0 was configured."""
        assert self._server is not None
        number: int = self._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        return number

    def hold_faults(self, rules: Sequence[HeldRequestFault]) -> None:
        """Replace the active request faults."""
        if rules and self.faults is None:
            self.faults = self._all_faults
        if self.faults is not None:
            self.faults.hold(rules)

    def hold_links(self, table: FaultTable) -> None:
        """Replace the active link faults of clients by those in the table."""
        self._all_links.apply(table)
        self.links = self._all_links if self._all_links.is_needed else None
        if self.links is not None:
            for newcomer in self._newcomers:
                newcomer.join_unnamed(self.links)
            for connection_id, connection in self._connections.items():
                connection.join(self.links, self._known(self.listener.session(connection_id)))

    def _first_names(self, data: bytes) -> KnownClient | None:
        """Return the client of a connection, given its first bytes, or None if more bytes are needed.

        A client is identified by the session id in its ConnectRequest; one that sends a four-letter word has no name.
        """
        head = data[:4]
        if len(head) == 4 and head.isalpha() and head.islower():
            return KnownClient("")
        if len(data) < _SESSION_AT + 8:
            return None
        return self._known(SessionId(int.from_bytes(data[_SESSION_AT : _SESSION_AT + 8], signed=True)))

    def _known(self, session_id: SessionId) -> KnownClient:
        return KnownClient(session_name(session_id), self.listener.is_session_of_broker(session_id))

    def fault_counts(self) -> Counts:
        """Return (matching requests, requests to which the rule was applied), keyed by the id of the request fault."""
        return {} if self.faults is None else self.faults.counts()

    @property
    def handshakes(self) -> int:
        """Number of TLS handshakes in progress."""
        return sum(entrance.listener.handshakes for entrance in self._secure)

    def identities(self, host: str, transport: asyncio.BaseTransport) -> tuple[AuthId, ...]:
        """Return the identities that a client proves by connecting, before it sends credentials.

        Raises MalformedRecord if its certificate cannot be parsed.
        """
        certificate = certificate_of(transport) if X509 in self._policy.schemes else None
        return self._policy.identities_of(
            canonical_address(host), subject_of(certificate) if certificate is not None else None
        )

    def welcome(self, connection: ClientConnection) -> None:
        """Add a connection that was accepted and has not requested a session yet."""
        self._newcomers[connection] = None

    def leave(self, connection: ClientConnection) -> None:
        """Remove a connection from those that have not requested a session, because it requests one or has ended."""
        self._newcomers.pop(connection, None)

    def newcomers(self) -> list[Newcomer]:
        """Return the connections without a session request, oldest first."""
        return [Newcomer(connection.remote, connection.asks) for connection in self._newcomers]

    def register(self, connection: ClientConnection) -> ConnectionId:
        """Assign an id to a connection that requests a session; return the id."""
        self.leave(connection)
        self._next += 1
        connection_id = ConnectionId(self._next)
        self._connections[connection_id] = connection
        self.listener.on_client_connected(connection_id, connection.identities)
        return connection_id

    def forget(self, connection_id: ConnectionId) -> None:
        """Remove a connection that broke or was closed by its client."""
        if self.gate is not None:
            self.gate.forget(connection_id)
            asyncio.get_running_loop().call_soon(self._release, self.gate)
        if self.tap is not None:
            self.tap.client_gone(connection_id)
        if self._connections.pop(connection_id, None) is not None:
            self.listener.on_client_closed(connection_id)

    def answer(self, connection_id: ConnectionId, message: ServerMessage) -> None:
        """Queue a frame for a client."""
        connection = self._connections.get(connection_id)
        if connection is not None:
            framed = message if isinstance(message, ReplyFrames) else self._framed(message)
            if self.links is not None and isinstance(message, ConnectResponse) and message.session_id:
                connection.join(self.links, self._known(SessionId(message.session_id)))
            if self.faults is None or isinstance(message, ConnectResponse):
                connection.out.append(framed)
            else:
                self.faults.answered(connection, framed)
            self._unflushed[connection_id] = connection
            if self.tap is not None:
                self.tap.sent_to_client(connection_id, message)

    def _framed(self, message: ConnectResponse | Reply) -> bytes:
        """Return the encoded frame of a message. A message sent to many clients, such as a watch event, is encoded
        once.
        """
        if message is not self._last:
            frame = message.encode()
            self._last, self._last_framed = message, pack_int(len(frame)) + frame
        return self._last_framed

    def close_connection(self, connection_id: ConnectionId) -> None:
        """Close a connection after its queued frames are sent; do not notify the listener."""
        connection = self._connections.pop(connection_id, None)
        if connection is not None:
            connection.close()

    def flush(self) -> None:
        """Write the queued replies. With very many connections, write to some of them in later event loop turns."""
        if self._unflushed:
            connections, self._unflushed = self._unflushed, {}
            if len(connections) > WRITES_AT_ONCE:
                self._put_off(connections)
            for connection in connections.values():
                connection.flush()
        if self.gate is not None:
            self._release(self.gate)

    def _put_off(self, connections: dict[ConnectionId, ClientConnection]) -> None:
        """Keep the last WRITES_AT_ONCE connections in `connections`, and write to the others in later turns.

        The last connections wait for a reply to a request; the earlier ones only receive a watch event.
        """
        if not self._late:
            asyncio.get_running_loop().call_soon(self._flush_late)
        for connection_id in list(islice(connections, len(connections) - WRITES_AT_ONCE)):
            self._late[connection_id] = connections.pop(connection_id)

    def _flush_late(self) -> None:
        late = self._late
        for connection_id in list(islice(late, WRITES_AT_ONCE)):
            late.pop(connection_id).flush()
        if late:
            asyncio.get_running_loop().call_soon(self._flush_late)
        if self.gate is not None:
            self._release(self.gate)

    def _release(self, gate: RequestGate) -> None:
        """Pass the queued requests that can be processed now to the listener."""
        while (released := gate.release(now_ms())) is not None:
            connection = self._connections.get(released[0])
            if connection is not None:
                self.admission.hand_over(*released)
                self.listener.on_client_messages(*released)
                connection.note()
                connection.flush()

    def address(self, connection_id: ConnectionId) -> str:
        """Return a client's address, for the four-letter words that list connections."""
        connection = self._connections.get(connection_id)
        return connection.remote if connection is not None else "unknown"


class ClientConnection(asyncio.Protocol):
    """One client connection."""

    def __init__(self, port: ClientPort, secure: SecureEntrance | None) -> None:
        self.out: list[bytes] = []
        self.remote = "unknown"
        self.asks = False
        self.identities: tuple[AuthId, ...] = ()
        self.fault_state: ConnectionState | None = None
        self._link: ClientLink | None = None
        self._port = port
        self._secure = secure
        self._host: str | None = None
        self._noted = self._unread_bytes = self._large_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._id: ConnectionId | None = None
        self._arriving = Arriving()
        self._fresh = True
        self._deadline: asyncio.TimerHandle | Lingering | None = None
        self._throttled = False
        self._paused = False
        self._ended_here = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Add a new connection; it is registered when it sends a ConnectRequest."""
        # uvloop's transports do not inherit from asyncio.Transport, but have the same methods.
        self._transport = transport = cast(asyncio.Transport, transport)
        self.remote = remote_name(transport)
        host = self.remote.rpartition(":")[0]
        # Count the connection here, unless it is on the TLS port, where it was counted before the handshake.
        if self._secure is None and not (may_stay(transport) and self._port.admission.admit(host)):
            transport.abort()
            return
        self._host = host
        if transport.get_extra_info("ssl_object") is None:
            self._port.admission.count_plain(host)
            # Send the replies before the event loop waits for an fsync.
            transport.set_write_buffer_limits(high=0)
        keep_alive(transport)
        try:
            reason = self._secure.refusal(transport, host) if self._secure is not None else None
            self.identities = self._port.identities(host, transport)
        except MalformedRecord as bad:
            reason = f"its certificate cannot be read: {bad}"
        if reason is not None:
            self._port.listener.on_client_refused(self.remote, reason)
            transport.abort()
            return
        self._port.welcome(self)
        if self._port.links is not None:
            self._port.links.attach(self, transport, None)
        timeout_s = self._port.admission.limits.sessionless_timeout_ms / 1000
        self._deadline = asyncio.get_running_loop().call_later(timeout_s, self._expire)

    def join(self, links: ClientLinks, known: KnownClient) -> None:
        """Apply the link faults of the client `known` to this connection."""
        if self._link is not None:
            self._link.name_client(known)
        elif self._transport is not None:
            links.attach(self, self._transport, known)

    def join_unnamed(self, links: ClientLinks) -> None:
        """Apply the link faults that match every client to a connection that had no link when its first bytes arrived.

        A connection's existing `ClientLink` is not changed: it holds the first bytes until they contain the client's
        name, and then keeps the name.
        """
        if self._link is None:
            self.join(links, KnownClient(""))

    def use_transport(self, transport: asyncio.Transport, link: ClientLink | None) -> None:
        """Read from and write to this transport from now on; if `link` is given, it owns the transport."""
        self._transport, self._link = transport, link

    def _expire(self) -> None:
        self._port.admission.counts.sessionless_connections_expired += 1
        self.close()

    def data_received(self, data: bytes) -> None:
        """Parse the complete frames, and pass them together to the listener."""
        if self._transport is None or self._transport.is_closing():
            return
        self._port.bytes_received += len(data)
        buffer = self._arriving.append(data)
        if not buffer:
            return
        if self._fresh and len(buffer) >= 4 and self._is_word(buffer):
            return
        try:
            messages = self._one_frame(buffer) or self._parse(buffer)
        except MalformedRecord as bad:
            self._hand_over([])
            self._port.listener.on_client_refused(self.remote, str(bad))
            self.close()
            return
        self._hand_over(messages)

    def _is_word(self, buffer: bytes) -> bool:
        """Reply if the first four bytes are a four-letter word; return whether they are."""
        head = buffer[:4]
        if not head.isalpha() or not head.islower():
            return False
        self.asks = True
        answer = self._port.listener.answer_word(head.decode(), buffer[4:12])
        self.asks = False
        if answer is None or self._transport is None:
            return False
        # The output may contain a watched path with an unpaired surrogate. Replace it, as Java does.
        self._transport.write(answer.encode("utf-8", "replace"))
        self._ended_here = True
        self._end_by(Lingering(self._transport))
        return True

    def _end_by(self, deadline: asyncio.TimerHandle | Lingering) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = deadline

    def _one_frame(self, buffer: bytes) -> list[ClientMessage] | None:
        """Return the message if the buffer contains exactly one complete frame that is not large, otherwise None.

        This is the common case: a client that waits for each reply sends such frames. `_parse` handles everything else.
        """
        size = len(buffer) - 4
        if self._fresh or size < REQUEST_HEADER_SIZE or _SIZE.unpack_from(buffer)[0] != size:
            return None
        limits = self._port.admission.limits
        if size > limits.frame_bytes or 0 <= limits.large_request_threshold < size:
            return None
        return [Frames([buffer[4:]])]

    def _parse(self, buffer: bytes) -> list[ClientMessage]:
        """Return the messages in the complete frames.

        The first message is a ConnectRequest; all later frames together form one message.
        """
        first: ConnectRequest | None = None
        frames: list[bytes] = []
        pos, end, missing = 0, len(buffer), 0
        limit = self._port.admission.limits.frame_bytes
        large = self._port.admission.limits.large_request_threshold
        while pos + 4 <= end:
            size: int = _SIZE.unpack_from(buffer, pos)[0]
            if size > limit or (size < REQUEST_HEADER_SIZE and not self._fresh):
                # Process the complete frames before this one, then close the connection ("Len error").
                self._hand_over(messages_of(first, frames))
                raise MalformedRecord(complaint_of_size(size, limit, first=self._fresh))
            stop = pos + 4 + size
            if 0 <= large < size and not self._takes_large(size, complete=stop <= end):
                self._hand_over(messages_of(first, frames))
                raise MalformedRecord("too much of large requests")
            if stop > end:
                missing = stop - end
                break
            if self._fresh:
                first = self._first(buffer[pos + 4 : stop])
            else:
                frames.append(buffer[pos + 4 : stop])
            pos = stop
        self._arriving.keep(buffer[pos:], missing)
        return messages_of(first, frames)

    def _first(self, frame: bytes) -> ConnectRequest:
        request = ConnectRequest.decode(frame)
        if not self._port.admission.may_begin(request, now_ms()):
            raise MalformedRecord("too many new sessions")
        self._fresh = False
        if self._deadline is not None:
            self._deadline.cancel()
        self._id = self._port.register(self)
        return request

    def _hand_over(self, messages: list[ClientMessage]) -> None:
        if not messages or self._id is None:
            return
        if self._port.tap is not None and self._transport is not None:
            self._port.tap.received_from_client(self._id, self._transport, messages)
        if self._port.faults is not None:
            messages = self._port.faults.received(self, messages)
        self.deliver(messages)

    def proved(self) -> Sequence[AuthId]:
        """Return the identities that the client has proved."""
        return () if self._id is None else self._port.listener.proved(self._id)

    def deliver(self, messages: list[ClientMessage]) -> None:
        """Pass messages to the listener, unless the connection has ended."""
        if not messages or self._id is None:
            return
        gate = self._port.gate
        if gate is None or not gate.holds(self._id, messages, now_ms()):
            self._port.admission.hand_over(self._id, messages)
            self._port.listener.on_client_messages(self._id, messages)
        self._throttle()

    def note(self) -> int:
        """Update the port's total of requests in progress; return the number for this connection.

        The requests of a client that does not read replies are not included in the total, because reading from this
        client is paused anyway.
        """
        outstanding, admission = 0, self._port.admission
        if self._id is not None:
            outstanding = self._port.listener.outstanding(self._id) + admission.handed_over.get(self._id, 0)
        counted = 0 if self._paused else outstanding
        admission.outstanding += counted - self._noted
        self._noted = counted
        if not outstanding and self._large_bytes:
            admission.large_bytes -= self._large_bytes
            self._large_bytes = 0
        return outstanding

    def _takes_large(self, size: int, *, complete: bool) -> bool:
        """Return whether the limit on large requests allows this request.

        If it is `complete`, count it until all replies of this connection are sent.
        """
        admission = self._port.admission
        if not admission.fits(size):
            return False
        if complete:
            admission.large_bytes += size
            self._large_bytes += size
        return True

    def _throttle(self) -> None:
        """Pause reading if the client has too many requests in progress."""
        if self._transport is None or self._id is None or self._transport.is_closing():
            return
        quiet = not (self._noted or self._large_bytes or self._port.gate)
        if quiet and not self._port.listener.outstanding(self._id):
            return
        outstanding = self.note()
        if not self._throttled and (outstanding > OUTSTANDING_HIGH or self._must_wait(outstanding)):
            self._throttled = True
            self._transport.pause_reading()

    def flush(self) -> None:
        """Write the queued frames."""
        if self._transport is None:
            return
        if self.out:
            out, self.out = self.out, []
            data = out[0] if len(out) == 1 else b"".join(out)
            self._port.bytes_sent += len(data)
            self._unread_bytes += len(data)
            self._transport.write(data)
        if self._unread_bytes >= ANSWERS_BYTES_MAX and self._id is not None and not (self._paused or self._ended_here):
            # The client has read its replies. Notify the listener, which may have postponed later requests until now.
            self._unread_bytes = 0
            self._port.listener.on_client_messages(self._id, [Frames([])])
        outstanding = self.note() if self._noted or self._large_bytes else 0
        if not self._throttled or self._paused or self._transport.is_closing():
            return
        if outstanding < OUTSTANDING_LOW and not self._must_wait(outstanding):
            self._throttled = False
            self._transport.resume_reading()

    def _must_wait(self, outstanding: int) -> bool:
        gate = self._port.gate
        held = gate is not None and self._id is not None and gate.is_holding(self._id)
        return held or (outstanding > 0 and self._port.admission.overloaded(outstanding))

    def pause_writing(self) -> None:
        """Stop reading requests of a client that does not read its replies."""
        self._paused = True
        if self._transport is not None and not self._throttled:
            self._throttled = True
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Resume reading, because the client reads its replies again."""
        self._paused = False
        self.note()
        self.flush()

    def close(self) -> None:
        """Close after the queued frames are sent; abort if the client does not read them in time."""
        self._ended_here = True
        self.flush()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.close()
        if transport.get_write_buffer_size():
            self._end_by(asyncio.get_running_loop().call_later(LINGER_S, transport.abort))

    def give_up(self) -> None:
        """Abort the connection when the server stops, so that the client detects an incomplete reply."""
        if isinstance(self._deadline, Lingering):
            self._deadline.reset()
        else:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        self._transport = None
        self._port.leave(self)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._host is not None:
            self._port.admission.leave(self._host)
            self._host = None
        if self._id is not None:
            self._port.admission.counts.connection_drop_count += not self._ended_here
            self._port.forget(self._id)
            self._id = None
            self.note()


def now_ms() -> int:
    """Return the monotonic time in milliseconds."""
    return time.monotonic_ns() // 1_000_000
