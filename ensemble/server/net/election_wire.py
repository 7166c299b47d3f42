"""Wire format of the election port: the initial message of a connection, and notifications.

Sources: org.apache.zookeeper.server.quorum.QuorumCnxManager (InitialMessage), FastLeaderElection (buildMsg and the
receiver). After the initial message every frame is a 4-byte length and a notification.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from zabka.ensemble.ids import Epoch, PeerId, Zxid
from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.zab.messages import Notification, PeerState, Vote

PROTOCOL_V1 = -65536
PROTOCOL_V2 = -65535
"""Version of the initial message in which several addresses, separated by `|`, are allowed."""
ADDRESS_BYTES_MAX = 2048
FRAME_BYTES_MAX = 512 * 1024
NOTIFICATION_VERSION = 2
_OPENING = struct.Struct(">qqi")
_LONG = struct.Struct(">q")
_VOTE = struct.Struct(">iqqq")
_VOTE_WITH_EPOCH = struct.Struct(">iqqqq")
_HEAD = struct.Struct(">iqqqqii")


class Opening(NamedTuple):
    """Initial message of an election connection: the sender's id and its addresses, "host:port" separated by `|`.

    `size` is the length of the message in bytes.
    """

    peer_id: PeerId
    address: str
    size: int


def encode_opening(peer_id: int, addresses: Sequence[str]) -> bytes:
    """Encode the initial message of a connection that this peer opened.

    `addresses` are this peer's own, each "host:port".
    """
    raw = "|".join(addresses).encode()
    return _OPENING.pack(PROTOCOL_V1 if len(addresses) == 1 else PROTOCOL_V2, peer_id, len(raw)) + raw


def decode_opening(data: bytes) -> Opening | None:
    """Decode an initial message, or return None if more bytes are needed. Raises MalformedRecord."""
    if len(data) < _LONG.size:
        return None
    (version,) = _LONG.unpack_from(data)
    if version >= 0:
        # Before ZooKeeper 3.5 the initial message contained only the id.
        return Opening(PeerId(version), "", _LONG.size)
    if version not in (PROTOCOL_V1, PROTOCOL_V2):
        raise MalformedRecord(f"unknown election protocol version {version}")
    if len(data) < _OPENING.size:
        return None
    _, peer_id, length = _OPENING.unpack_from(data)
    if not 0 < length <= ADDRESS_BYTES_MAX:
        raise MalformedRecord(f"an address of {length} bytes")
    if len(data) < _OPENING.size + length:
        return None
    address = data[_OPENING.size : _OPENING.size + length].decode("utf-8", "replace")
    return Opening(PeerId(peer_id), address, _OPENING.size + length)


def encode_notification(notification: Notification) -> bytes:
    """Encode a notification, with its length prefix."""
    vote, config = notification.vote, notification.config.encode()
    head = (notification.state, vote.leader, vote.zxid, notification.round, vote.peer_epoch)
    body = _HEAD.pack(*head, NOTIFICATION_VERSION, len(config))
    return struct.pack(">i", len(body) + len(config)) + body + config


def decode_notification(body: bytes) -> Notification:
    """Decode a notification of version 2, 1 (40 bytes) or 0 (28 bytes). Raises MalformedRecord."""
    if len(body) < _VOTE.size:
        raise MalformedRecord(f"a notification of {len(body)} bytes")
    state, leader, zxid, election_round = _VOTE.unpack_from(body)
    if len(body) >= _VOTE_WITH_EPOCH.size:
        epoch = _VOTE_WITH_EPOCH.unpack_from(body)[4]
    else:
        epoch = zxid >> 32
    try:
        peer_state = PeerState(state)
    except ValueError:
        raise MalformedRecord(f"server state {state}") from None
    vote = Vote(PeerId(leader), Zxid(zxid), Epoch(epoch))
    return Notification(peer_state, vote, election_round, _config_of(body))


def _config_of(body: bytes) -> str:
    """Return the sender's membership in a notification of version 2, or "" if it has none.

    Raises MalformedRecord if the membership is shorter than its length field says.
    """
    if len(body) < _HEAD.size:
        return ""
    length = _HEAD.unpack_from(body)[6]
    if not 0 <= length <= len(body) - _HEAD.size:
        raise MalformedRecord(f"a configuration of {length} bytes in {len(body) - _HEAD.size}")
    return body[_HEAD.size : _HEAD.size + length].decode("utf-8", "replace")


class FrameReader:
    """Splits a connection's bytes into length-prefixed frames."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return every frame that is complete now. Raises MalformedRecord for an invalid length."""
        buffer = self._buffer + data if self._buffer else data
        frames: list[bytes] = []
        pos = 0
        while len(buffer) - pos >= 4:
            size = int.from_bytes(buffer[pos : pos + 4], "big", signed=True)
            if not 0 < size <= FRAME_BYTES_MAX:
                raise MalformedRecord(f"invalid frame length {size}")
            if len(buffer) - pos - 4 < size:
                break
            frames.append(buffer[pos + 4 : pos + 4 + size])
            pos += 4 + size
        self._buffer = buffer[pos:]
        return frames
