"""Election connections: one between each two peers, newest notification wins.

Source: org.apache.zookeeper.server.quorum.QuorumCnxManager.  Either side may open the connection, but only the one
with the larger id keeps the one it opened; the smaller one's is a request to be called back.  The last notification
is sent again on a fresh connection, since it may have been lost with the old one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol, cast

from ensemble.ids import PeerId
from ensemble.jute import MalformedRecord
from ensemble.links import LinkFaults
from ensemble.server.election_wire import (
    ADDRESS_BYTES_MAX,
    FrameReader,
    decode_notification,
    decode_opening,
    encode_notification,
    encode_opening,
)
from ensemble.server.server_line import ServerLine, bracketed
from ensemble.server.sockets import keep_alive, listen, remote_name
from ensemble.zab.messages import Notification

CONNECT_TIMEOUT_S = 5.0
OPENING_TIMEOUT_S = 10.0
RETRY_MIN_S = 0.05
RETRY_MAX_S = 1.0
CALL_BACK_S = 1.0
"""How long a smaller peer waits to be called back before it asks again."""
UNIDENTIFIED_MAX = 64


class ElectionListener(Protocol):
    """Who hears of notifications."""

    def on_notification(self, src: PeerId, notification: Notification) -> None: ...
    def on_voter_unreachable(self, peer_id: PeerId) -> None: ...
    def on_peer_broken(self, remote: str, reason: str) -> None: ...


class ElectionPort:
    """This peer's election port and its connections."""

    def __init__(
        self,
        my_id: PeerId,
        servers: Mapping[int, ServerLine],
        config_text: str,
        faults: LinkFaults,
        listener: ElectionListener,
    ) -> None:
        self.my_id = my_id
        self.listener = listener
        self.unidentified = 0
        self._servers = servers
        self._config = config_text.encode()
        self._faults = faults
        self._server: asyncio.AbstractServer | None = None
        self._connections: dict[PeerId, ElectionConnection] = {}
        self._waiting: dict[PeerId, bytes] = {}
        self._last: dict[PeerId, bytes] = {}
        self._dialling: dict[PeerId, asyncio.Task[None]] = {}
        self._closed = False

    async def listen(self, host: str) -> None:
        """Open this peer's election port.  Raises PortError."""
        port = self._servers[self.my_id].election_port
        self._server = await listen(lambda: ElectionConnection(self, None), host, port, "the election port")

    async def close(self) -> None:
        """Stop listening, dialling and talking."""
        self._closed = True
        if self._server is not None:
            self._server.close()
        for task in self._dialling.values():
            task.cancel()
        for connection in list(self._connections.values()):
            connection.drop()

    def send(self, to: PeerId, notification: Notification) -> None:
        """Send to a peer, connecting first where needed; what was waiting for it is superseded."""
        if to == self.my_id:
            asyncio.get_running_loop().call_soon(self.listener.on_notification, to, notification)
            return
        frame = encode_notification(notification, self._config)
        connection = self._connections.get(to)
        if connection is not None and connection.ready:
            self._last[to] = frame
            connection.write(frame)
        else:
            self._waiting[to] = frame
            if connection is None:
                self._dial(to)

    # -- connecting ------------------------------------------------------------------------------------------------

    def _dial(self, to: PeerId) -> None:
        if to not in self._dialling and to in self._servers and not self._closed:
            self._dialling[to] = asyncio.get_running_loop().create_task(self._keep_dialling(to))

    async def _keep_dialling(self, to: PeerId) -> None:
        """Try until there is a connection or nothing left to say."""
        delay_s = RETRY_MIN_S
        try:
            while to not in self._connections and to in self._waiting:
                reached = await self._dial_once(to)
                if to in self._connections:
                    break
                if not reached:
                    self.listener.on_voter_unreachable(to)
                await asyncio.sleep(CALL_BACK_S if reached else delay_s)
                delay_s = min(2 * delay_s, RETRY_MAX_S)
        finally:
            if self._dialling.get(to) is asyncio.current_task():
                del self._dialling[to]

    async def _dial_once(self, to: PeerId) -> bool:
        line = self._servers[to]
        opening = self._faults.open_connection(lambda: ElectionConnection(self, to), line.host, line.election_port)
        try:
            await asyncio.wait_for(opening, CONNECT_TIMEOUT_S)
        except (OSError, TimeoutError):
            return False
        return True

    def opening(self) -> bytes:
        """What this peer says first on a connection it opened."""
        mine = self._servers[self.my_id]
        return encode_opening(self.my_id, f"{bracketed(mine.host)}:{mine.election_port}")

    # -- called by connections -------------------------------------------------------------------------------------

    def identified(self, connection: ElectionConnection, peer_id: PeerId) -> bool:
        """A connection's other side said who it is; whether the connection may stay."""
        if peer_id == self.my_id:
            self.listener.on_peer_broken(connection.remote, f"another server has this server's id {peer_id}")
            return False
        if peer_id not in self._servers:
            self.listener.on_peer_broken(connection.remote, f"server {peer_id} is not part of this ensemble")
            return False
        if peer_id < self.my_id:
            # It lost its connection, or never had one: call it back on one that this peer keeps.
            self._forget(peer_id)
            if peer_id in self._last:
                self._waiting.setdefault(peer_id, self._last[peer_id])
            self._waiting.setdefault(peer_id, b"")
            self._dial(peer_id)
            return False
        # This is the call back that a dialler of ours may be waiting for.
        dialler = self._dialling.pop(peer_id, None)
        if dialler is not None:
            dialler.cancel()
        self.established(connection, peer_id)
        return True

    def established(self, connection: ElectionConnection, peer_id: PeerId) -> None:
        """From now on this is the connection with that peer."""
        self._forget(peer_id)
        self._connections[peer_id] = connection
        frame = self._waiting.pop(peer_id, b"") or self._last.get(peer_id, b"")
        if frame:
            self._last[peer_id] = frame
            connection.write(frame)

    def _forget(self, peer_id: PeerId) -> None:
        old = self._connections.pop(peer_id, None)
        if old is not None:
            old.drop()

    def lost(self, connection: ElectionConnection, peer_id: PeerId) -> None:
        """A connection is gone; what still waits for that peer is reason enough for another."""
        if self._connections.get(peer_id) is connection:
            del self._connections[peer_id]
        if peer_id in self._waiting and peer_id not in self._connections:
            self._dial(peer_id)

    def writable(self, connection: ElectionConnection, peer_id: PeerId) -> None:
        """A slow connection can take the newest notification."""
        if self._connections.get(peer_id) is connection and (frame := self._waiting.pop(peer_id, b"")):
            self._last[peer_id] = frame
            connection.write(frame)


class ElectionConnection(asyncio.Protocol):
    """One election connection; `dialled` names whom this side called, None on the accepting side."""

    def __init__(self, port: ElectionPort, dialled: PeerId | None) -> None:
        self._port = port
        self._dialled = dialled
        self._peer_id: PeerId | None = None
        self._transport: asyncio.Transport | None = None
        self._frames = FrameReader()
        self._opening = b""
        self._paused = False
        self._deadline: asyncio.TimerHandle | None = None
        self.remote = "unknown"

    @property
    def ready(self) -> bool:
        """Whether a notification can be sent right now."""
        return self._transport is not None and not self._paused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say who this is, or wait to be told who that is."""
        # uvloop's transports are asyncio.Transport in all but name.
        self._transport = transport = cast(asyncio.Transport, transport)
        self.remote = remote_name(transport)
        keep_alive(transport)
        if self._dialled is None:
            self._port.unidentified += 1
            self._deadline = asyncio.get_running_loop().call_later(OPENING_TIMEOUT_S, self._give_up)
            if self._port.unidentified > UNIDENTIFIED_MAX:
                self._give_up()
            return
        transport.write(self._port.opening())
        if self._port.my_id > self._dialled:
            self._peer_id = self._dialled
            self._port.established(self, self._dialled)
        else:
            # The other side closes this connection and opens one of its own.
            transport.close()

    def data_received(self, data: bytes) -> None:
        """The opening message, then notifications."""
        try:
            if self._peer_id is None:
                data = self._read_opening(data)
            if self._peer_id is None:
                return
            for frame in self._frames.feed(data):
                self._port.listener.on_notification(self._peer_id, decode_notification(frame))
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
        self._identify()
        if not self._port.identified(self, opening.peer_id):
            self._close()
            return b""
        self._peer_id = opening.peer_id
        return self._opening[opening.size :]

    def write(self, frame: bytes) -> None:
        """Send a notification's frame."""
        if self._transport is not None:
            self._transport.write(frame)

    def drop(self) -> None:
        """Close without telling the port."""
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
        """The other side does not read."""
        self._paused = True

    def resume_writing(self) -> None:
        """The other side reads again."""
        self._paused = False
        if self._peer_id is not None:
            self._port.writable(self, self._peer_id)

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone."""
        self._transport = None
        self._identify()
        if self._peer_id is not None:
            self._port.lost(self, self._peer_id)
