"""One election connection: opening, authentication of each side, and the notifications that follow.

Source: QuorumCnxManager's initiateConnection, receiveConnection, SendWorker and RecvWorker.
`zabka.ensemble.server.net.election_port` reacts to new and lost connections.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol, cast

from zabka.ensemble.ids import PeerId
from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.runtime.descriptors import may_stay
from zabka.ensemble.server.net.election_wire import (
    ADDRESS_BYTES_MAX,
    FrameReader,
    Opening,
    decode_notification,
    decode_opening,
)
from zabka.ensemble.server.net.peer_tap import PeerTap
from zabka.ensemble.server.net.quorum_auth import QuorumAuth, Side, step_of
from zabka.ensemble.server.net.sockets import keep_alive, remote_name
from zabka.ensemble.zab.messages import Notification
from zabka.journal.message_log import MessageLine

OPENING_TIMEOUT_S = 10.0
UNACKNOWLEDGED_MS = 5_000
"""Time after which a connection with unacknowledged data is closed.

If a host comes back with another address, it never replies on its old connections, and no new connection is made while
an old one is open. The limit does not affect a paused or busy server, because its kernel still acknowledges data.
"""
UNIDENTIFIED_MAX = 64
"""Maximum number of accepted connections on which the other side has not identified itself yet."""


class ElectionListener(Protocol):
    """Receiver of the notifications and of the errors on election connections."""

    def on_notification(self, src: PeerId, notification: Notification) -> None: ...
    def on_voter_unreachable(self, peer_id: PeerId) -> None: ...
    def on_peer_broken(self, remote: str, reason: str) -> None: ...
    def on_unlisted_server(self, peer_id: PeerId, address: str) -> None: ...


class ElectionHub(Protocol):
    """Interface of the port that owns an election connection (implemented by `ElectionPort`)."""

    my_id: PeerId
    listener: ElectionListener
    auth: QuorumAuth | None
    unidentified: int
    tap: PeerTap | None

    def refusal(self, transport: asyncio.BaseTransport, dialled: PeerId | None) -> str | None: ...
    def opening(self) -> bytes: ...
    def identified(self, connection: ElectionConnection, opening: Opening) -> bool: ...
    def established(self, connection: ElectionConnection, peer_id: PeerId) -> None: ...
    def lost(self, connection: ElectionConnection, peer_id: PeerId) -> None: ...
    def writable(self, connection: ElectionConnection, peer_id: PeerId) -> None: ...


class ElectionConnection(asyncio.Protocol):
    """A connection between two servers for leader election.

    `dialled` is the peer to which this side connected, or None on the accepting side.
    """

    def __init__(self, port: ElectionHub, dialled: PeerId | None) -> None:
        self._port = port
        self._dialled = dialled
        self._peer_id: PeerId | None = None
        self._transport: asyncio.Transport | None = None
        self._frames = FrameReader()
        self._opening = b""
        self._paused = False
        self._deadline: asyncio.TimerHandle | None = None
        self.remote = "unknown"
        self.refused = False
        self.proved: asyncio.Future[None] | None = None
        """Resolved when the SASL authentication has succeeded or failed; only for connections that this side opened."""
        self._unanswered_since_s: float | None = None
        self._side: Side | None = None
        self._opened: Opening | None = None
        self._line: MessageLine | None = None

    @property
    def ready(self) -> bool:
        """Whether a notification can be sent now."""
        return self._transport is not None and not self._paused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the initial message, or, on the accepting side, wait for it."""
        # uvloop's transports do not inherit from asyncio.Transport, but have the same methods.
        self._transport = transport = cast(asyncio.Transport, transport)
        self.remote = remote_name(transport)
        if self._port.tap is not None:
            self._line = self._port.tap.line(transport, self._dialled)
        keep_alive(transport, UNACKNOWLEDGED_MS)
        reason = self._port.refusal(transport, self._dialled)
        if reason is not None:
            self.refused = True
            self._port.listener.on_peer_broken(self.remote, f"election port: {reason}")
            transport.abort()
            return
        if self._dialled is None:
            self._port.unidentified += 1
            self._deadline = asyncio.get_running_loop().call_later(OPENING_TIMEOUT_S, self._give_up)
            if self._port.unidentified > UNIDENTIFIED_MAX or not may_stay(transport, is_of_few=True):
                self._give_up()
            return
        transport.write(self._port.opening())
        auth = self._port.auth
        side = auth.learner_side() if auth is not None else None
        if side is not None:
            self._side, self.proved = side, asyncio.get_running_loop().create_future()
            transport.write(side.first_message())
        else:
            self._called(transport, self._dialled)

    def _called(self, transport: asyncio.Transport, dialled: PeerId) -> None:
        """After the handshake of a connection that this side opened, start to send notifications.

        If the other side has the larger id, close this connection instead, because the other side opens a connection
        itself.
        """
        if self._port.my_id > dialled:
            self._peer_id = dialled
            self._port.established(self, dialled)
        else:
            # The server with the higher id opens the connection, so close this connection and wait for that one.
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Process the initial message, then notifications."""
        try:
            if self._peer_id is None:
                data = self._prove(data) if self._side is not None else self._read_opening(data)
            if self._peer_id is None:
                return
            self._unanswered_since_s = None
            for frame in self._frames.feed(data):
                notification = decode_notification(frame)
                if self._line is not None and self._port.tap is not None:
                    self._port.tap.vote_received(self._line, notification)
                self._port.listener.on_notification(self._peer_id, notification)
        except MalformedRecord as bad:
            self._port.listener.on_peer_broken(self.remote, f"election port: {bad}")
            self.drop()

    def _read_opening(self, data: bytes) -> bytes:
        self._opening += data
        opening = decode_opening(self._opening)
        if opening is None:
            if len(self._opening) > 2 * ADDRESS_BYTES_MAX:
                raise MalformedRecord("an endless opening message")
            return b""
        rest = self._opening[opening.size :]
        if self._port.auth is None:
            return self._admit(opening, rest)
        self._opened, self._side = opening, self._port.auth.server_side()
        return self._prove(rest) if rest else b""

    def _prove(self, data: bytes | None) -> bytes:
        """Continue the SASL negotiation with received bytes; return the bytes that follow the negotiation.

        `data` is None if the other side closed its half of the connection.
        """
        transport, side, auth = self._transport, self._side, self._port.auth
        if transport is None or side is None or auth is None or transport.is_closing():
            return b""
        step, refused = step_of(side, data)
        if step.send:
            transport.write(step.send)
        if refused is not None:
            self.refused = True
            auth.report_refusal(self._port.listener.on_peer_broken, self.remote, "election port", refused)
            self._close()
        elif step.done:
            self._side = None
            if self._opened is not None:
                return self._admit(self._opened, step.rest)
            assert self._dialled is not None
            self._called(transport, self._dialled)
            self._settle()
            return step.rest
        return b""

    def _admit(self, opening: Opening, rest: bytes) -> bytes:
        """Register the other server with the port, after that server was identified and authenticated.

        The port may reject it.
        """
        self._identify()
        if not self._port.identified(self, opening):
            self._close()
            return b""
        self._peer_id = opening.peer_id
        return rest

    def _settle(self) -> None:
        if self.proved is not None and not self.proved.done():
            self.proved.set_result(None)

    def eof_received(self) -> bool:
        """Handle the other side's half-close. Return False, so that the transport closes the connection."""
        if self._side is not None:
            self._prove(None)
        return False

    def write(self, frame: bytes) -> None:
        """Send the frame of a notification."""
        if self._unanswered_since_s is None:
            self._unanswered_since_s = time.monotonic()
        if self._transport is not None:
            if self._line is not None and self._port.tap is not None:
                self._port.tap.votes_sent(self._line, frame)
            self._transport.write(frame)

    def silent_s(self) -> float:
        """Return the seconds since the oldest notification that the other side has not replied to."""
        return 0.0 if self._unanswered_since_s is None else time.monotonic() - self._unanswered_since_s

    def drop(self) -> None:
        """Close the connection without notifying the port."""
        self._peer_id = None
        self._close()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _give_up(self) -> None:
        if self._deadline is not None:
            self._close()

    def _identify(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self._port.unidentified -= 1

    def pause_writing(self) -> None:
        """Pause sending, because the other side does not read."""
        self._paused = True

    def resume_writing(self) -> None:
        """Resume sending, because the other side reads again."""
        self._paused = False
        if self._peer_id is not None:
            self._port.writable(self, self._peer_id)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        self._transport = None
        self._identify()
        self._settle()
        if self._peer_id is not None:
            self._port.lost(self, self._peer_id)
