"""The quorum port's bytes: typed packets to ZooKeeper's QuorumPackets and back.

A QuorumPacket is {int type, long zxid, buffer data, vector<Id> authinfo}, one after the other with no framing; a SNAP
is followed by the serialised tree and the string "BenWasHere".  Sources: org.apache.zookeeper.server.quorum.Leader,
Learner, LearnerHandler, LearnerInfo, SendAckRequestProcessor.  What a packet means depends on who sent it, so a
connection has a `QuorumCodec` for its end.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

from ensemble.ids import Epoch, PeerId, SessionId, Zxid, epoch_of
from ensemble.jute import MalformedRecord, Reader, write_string
from ensemble.records import OpCode
from ensemble.txn import DIGEST_VERSION, Txn, decode_plain
from ensemble.txnlog.snapshot_format import TreeDecoder, encode_tree, signed
from ensemble.zab.messages import (
    Ack,
    AckEpoch,
    Commit,
    CommitAndActivate,
    Diff,
    FollowerInfo,
    ForwardedRequest,
    Inform,
    InformAndActivate,
    LeaderInfo,
    NewLeader,
    Packet,
    Ping,
    Proposal,
    Revalidate,
    Snap,
    SyncRequest,
    Trunc,
    UpToDate,
)

REQUEST: Final = 1
PROPOSAL: Final = 2
ACK: Final = 3
COMMIT: Final = 4
PING: Final = 5
REVALIDATE: Final = 6
SYNC: Final = 7
INFORM: Final = 8
COMMITANDACTIVATE: Final = 9
NEWLEADER: Final = 10
FOLLOWERINFO: Final = 11
UPTODATE: Final = 12
DIFF: Final = 13
TRUNC: Final = 14
SNAP: Final = 15
OBSERVERINFO: Final = 16
LEADERINFO: Final = 17
ACKEPOCH: Final = 18
INFORMANDACTIVATE: Final = 19

_Auth = tuple[tuple[str, str], ...]
"""A client's identities: schemes and ids."""
PROTOCOL_VERSION = 0x10000
PACKET_BYTES_MAX = 64 * 1024 * 1024
AUTH_BYTES_MAX = 1024 * 1024
AUTH_ENTRIES_MAX = 2000
SIGNATURE = b"\0\0\0\x0aBenWasHere"
OFFERED = b"\x01"
"""Behind LearnerInfo and LEADERINFO's version: cumulative acks; in ACK and COMMIT: this one is.  Others ignore it."""
OFFERED_WITH_ACKS = b"\x02"
"""Behind LearnerInfo alone: as above, and the leader's own acks are heeded."""
NO_ZXID = -1
NO_AUTH = b"\0\0\0\0"
NULL_AUTH = b"\xff\xff\xff\xff"
_OFFERED_ALONE = OFFERED + NULL_AUTH
"""What is behind the head of a cumulative ACK or COMMIT."""
_CUMULATIVE: Final[dict[int, type[Ack | Commit]]] = {ACK: Ack, COMMIT: Commit}
_HEAD = struct.Struct(">iqi")
_head_at = _HEAD.unpack_from
_EMPTY = struct.Struct(">iqii")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_LEARNER_INFO = struct.Struct(">qiq")
_REQUEST = struct.Struct(">qii")
_request_at = _REQUEST.unpack_from
_REQUEST_HEAD = struct.Struct(">iqiqii")
_OP_SYNC = int(OpCode.SYNC)
_SESSION = struct.Struct(">qi")
_DIGEST = struct.Struct(">iq")
_MASK = (1 << 64) - 1


def _packet(kind: int, zxid: int, data: bytes | None = None, auth: bytes = NULL_AUTH) -> bytes:
    if data is None:
        return _HEAD.pack(kind, zxid, -1) + auth
    return b"%b%b%b" % (_HEAD.pack(kind, zxid, len(data)), data, auth)


@lru_cache(maxsize=1024)
def _encode_auth(pairs: _Auth) -> bytes:
    """A client's identities are the same in each of its requests."""
    out = bytearray(_INT.pack(len(pairs)))
    for scheme, identity in pairs:
        write_string(out, scheme)
        write_string(out, identity)
    return bytes(out)


class QuorumCodec:
    """Both directions of one connection, as seen from its learner or from its leader.

    ZooKeeper answers a SYNC without saying which, in order; the learner's codec remembers what it asked.
    """

    def __init__(self, *, learner: bool) -> None:
        self._learner = learner
        self._syncs: deque[SyncRequest] = deque()
        self._buffer = b""
        self._late: list[bytes] = []
        self._missing = 0
        self._auth: _Auth = ()
        self._auth_bytes = NO_AUTH
        self._tree: TreeDecoder | None = None
        self._snap_zxid = 0
        self._snap_digest = 0
        self._decode_one: Callable[[int, int, bytes | None, _Auth], Packet] = (
            self._from_leader if learner else self._from_learner
        )
        self._feed_common = self._feed_leaders if learner else self._feed_learners

    # -- writing ---------------------------------------------------------------------------------------------------

    def encode(self, packet: Packet) -> bytes:
        """A packet's bytes; for Snap those before the tree."""
        encoder = _ENCODERS.get(type(packet))
        if encoder is not None:
            return encoder(packet)
        if isinstance(packet, Revalidate):
            if self._learner:
                return _packet(REVALIDATE, NO_ZXID, _SESSION.pack(packet.session_id, packet.timeout_ms))
            return _packet(REVALIDATE, NO_ZXID, _LONG.pack(packet.session_id) + (b"\1" if packet.valid else b"\0"))
        if isinstance(packet, SyncRequest):
            return self._encode_sync(packet)
        raise AssertionError(f"{packet!r} cannot be sent")

    def _encode_sync(self, packet: SyncRequest) -> bytes:
        if not self._learner:
            return _packet(SYNC, 0)
        self._syncs.append(packet)
        data = bytearray(_REQUEST.pack(packet.session_id, packet.cxid, OpCode.SYNC))
        write_string(data, packet.path)
        return _packet(REQUEST, NO_ZXID, bytes(data), NO_AUTH)

    @staticmethod
    def encode_stream(packet: Snap) -> Iterator[bytes]:
        """What follows a SNAP packet: the tree in chunks, and the signature."""
        yield from encode_tree(packet.snapshot)
        yield SIGNATURE

    # -- reading ---------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> list[Packet]:
        """Every packet that is complete now.  Raises MalformedRecord."""
        if self._missing > 0:
            # A large packet in many pieces: they are joined once, when the last one has come.
            self._late.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return []
            data, self._late = b"".join(self._late), []
        out: list[Packet] = []
        buffer = self._buffer + data if self._buffer else data
        pos = self._feed_common(buffer, 0, out) if self._tree is None else 0
        if pos == len(buffer):
            self._buffer = b""
            return out
        while True:
            if self._tree is None:
                pos = self._feed_common(buffer, pos, out)
            if self._tree is not None:
                buffer = self._feed_tree(self._tree, buffer[pos:], out)
                pos = 0
                if self._tree is not None:
                    break
            behind = self._feed_one(buffer, pos, out)
            if behind < 0:
                break
            pos = behind
        self._buffer = buffer[pos:]
        return out

    def _feed_one(self, buffer: bytes, pos: int, out: list[Packet]) -> int:
        """Read one packet, whatever it is; where it ends, or -1 where it is not complete."""
        if len(buffer) - pos < _EMPTY.size:
            return -1
        kind, zxid, size = _HEAD.unpack_from(buffer, pos)
        start = pos + _HEAD.size
        if not -1 <= size <= PACKET_BYTES_MAX:
            raise MalformedRecord(f"a packet of {size} bytes")
        end = start + max(size, 0)
        if len(buffer) < end + 4:
            self._missing = end + 4 - len(buffer)
            return -1
        behind = self._skip_auth(buffer, end)
        if behind < 0:
            return -1
        auth = () if behind == end + 4 else _decode_auth(buffer, end)
        if kind == REQUEST and buffer[end:behind] != NULL_AUTH:
            # One connection's requests come with the same identities, and come together.
            self._auth, self._auth_bytes = auth, buffer[end:behind]
        if kind == SNAP and self._learner:
            self._begin_snap(zxid, buffer[start:end])
        else:
            out.append(self._decode_one(kind, zxid, buffer[start:end] if size >= 0 else None, auth))
        return behind

    def _feed_leaders(self, buffer: bytes, pos: int, out: list[Packet]) -> int:
        """Read a leader's transactions, commits and acks, which nearly all its packets are, as long as that is what
        comes.  Where that ends; anything else, odd or not complete is left to `_feed_one`."""
        last = len(buffer) - _EMPTY.size
        txns: list[Txn] = []
        while pos <= last:
            kind, zxid, size = _head_at(buffer, pos)
            start = pos + 16
            end = start + size
            if size == 1 and kind in _CUMULATIVE and buffer.startswith(_OFFERED_ALONE, start):
                if txns:
                    out.append(Proposal(txns))
                    txns = []
                out.append(_CUMULATIVE[kind](Zxid(zxid), cumulative=True))
                pos = end + 4
                continue
            if kind != PROPOSAL or not buffer.startswith(NULL_AUTH, end) or size < 0:
                break
            data = buffer[start:end]
            txn = decode_plain(data)
            if txn is None or txn.zxid != zxid:
                txn = _txn(zxid, data)
            txns.append(txn)
            pos = end + 4
        if txns:
            out.append(Proposal(txns))
        return pos

    def _feed_learners(self, buffer: bytes, pos: int, out: list[Packet]) -> int:
        """The same of a learner's requests and acks."""
        last = len(buffer) - _EMPTY.size
        while pos <= last:
            kind, zxid, size = _head_at(buffer, pos)
            start = pos + _HEAD.size
            end = start + size
            if kind == ACK and size == 1 and buffer.startswith(_OFFERED_ALONE, start):
                out.append(Ack(Zxid(zxid), cumulative=True))
                pos = end + 4
                continue
            if kind != REQUEST or size < _REQUEST.size or not buffer.startswith(self._auth_bytes, end):
                break
            session_id, cxid, op = _request_at(buffer, start)
            if op == _OP_SYNC:
                break
            body = buffer[start + _REQUEST.size : end]
            out.append(ForwardedRequest(SessionId(session_id), cxid, op, body, self._auth))
            pos = end + len(self._auth_bytes)
        return pos

    @staticmethod
    def _skip_auth(buffer: bytes, pos: int) -> int:
        """Where the authinfo at `pos` ends, or -1 where it is not complete yet."""
        (count,) = _INT.unpack_from(buffer, pos)
        begin = pos
        pos += 4
        if not -1 <= count <= AUTH_ENTRIES_MAX:
            raise MalformedRecord(f"{count} authentication entries")
        for _ in range(2 * max(count, 0)):
            if len(buffer) < pos + 4:
                return -1
            (size,) = _INT.unpack_from(buffer, pos)
            pos += 4 + max(size, 0)
            if not -1 <= size <= AUTH_BYTES_MAX or pos - begin > AUTH_BYTES_MAX:
                raise MalformedRecord("authentication entries too long")
        return pos if pos <= len(buffer) else -1

    def _begin_snap(self, zxid: int, data: bytes) -> None:
        self._tree = TreeDecoder()
        self._snap_zxid = zxid
        # Only ours carry the digest; without it the tree computes its own.
        self._snap_digest = _DIGEST.unpack(data)[1] & _MASK if len(data) == _DIGEST.size else 0

    def _feed_tree(self, tree: TreeDecoder, data: bytes, out: list[Packet]) -> bytes:
        """Give bytes to the tree being read; what is left once it is complete."""
        tree.feed(data)
        if not tree.done or len(tree.rest) < len(SIGNATURE):
            return b""
        if not tree.rest.startswith(SIGNATURE):
            raise MalformedRecord("a snapshot without its signature")
        out.append(Snap(Zxid(self._snap_zxid), tree.snapshot(self._snap_zxid, self._snap_digest)))
        self._tree = None
        return tree.rest[len(SIGNATURE) :]

    def _from_leader(self, kind: int, zxid: int, data: bytes | None, auth: _Auth) -> Packet:
        if kind == SYNC:
            if not self._syncs:
                raise MalformedRecord("a SYNC that nobody asked for")
            return self._syncs.popleft()
        decoder = _FROM_LEADER.get(kind)
        if decoder is None:
            raise MalformedRecord(f"a leader sent a packet of type {kind}")
        return decoder(zxid, data)

    @staticmethod
    def _from_learner(kind: int, zxid: int, data: bytes | None, auth: _Auth) -> Packet:
        decoder = _FROM_LEARNER.get(kind)
        if decoder is None:
            raise MalformedRecord(f"a learner sent a packet of type {kind}")
        return decoder(zxid, data, auth)


def _decode_auth(buffer: bytes, pos: int) -> _Auth:
    reader = Reader(buffer, pos)
    return tuple((reader.read_string(), reader.read_string()) for _ in range(reader.read_int()))


def _txn(zxid: int, data: bytes | None) -> Txn:
    if data is None:
        raise MalformedRecord("a proposal without its transaction")
    txn = Txn.decode(data)
    if txn.zxid != zxid:
        raise MalformedRecord(f"packet 0x{zxid:x} holds transaction 0x{txn.zxid:x}")
    return txn


def _designated(data: bytes | None) -> PeerId:
    if data is None or len(data) < _LONG.size:
        raise MalformedRecord("an activation without its leader")
    return PeerId(_LONG.unpack_from(data)[0])


def _commit_and_activate(zxid: int, data: bytes | None) -> CommitAndActivate:
    return CommitAndActivate(Zxid(zxid), _designated(data))


def _inform_and_activate(zxid: int, data: bytes | None) -> InformAndActivate:
    designated = _designated(data)
    txn = _txn(zxid, (data or b"")[_LONG.size :])
    if txn.type != OpCode.RECONFIG:
        raise MalformedRecord(f"an activation of {txn!r}")
    return InformAndActivate(txn, designated)


def _touched(data: bytes | None) -> tuple[tuple[SessionId, int], ...]:
    if not data:
        return ()
    if len(data) % _SESSION.size:
        raise MalformedRecord(f"a list of sessions of {len(data)} bytes")
    return tuple((SessionId(session_id), timeout_ms) for session_id, timeout_ms in _SESSION.iter_unpack(data))


def _answer_to_revalidate(zxid: int, data: bytes | None) -> Revalidate:
    if data is None or len(data) < _LONG.size + 1:
        raise MalformedRecord("an answer about a session that does not say which")
    return Revalidate(SessionId(_LONG.unpack_from(data)[0]), 0, data[_LONG.size] != 0)


def _revalidate(zxid: int, data: bytes | None, auth: _Auth) -> Revalidate:
    if data is None or len(data) < _SESSION.size:
        raise MalformedRecord("a question about a session that does not say which")
    session_id, timeout_ms = _SESSION.unpack_from(data)
    return Revalidate(SessionId(session_id), timeout_ms)


def _ack_epoch(zxid: int, data: bytes | None, auth: _Auth) -> AckEpoch:
    if data is None or len(data) < _INT.size:
        raise MalformedRecord("an ACKEPOCH without its epoch")
    return AckEpoch(Zxid(zxid), _INT.unpack_from(data)[0])


def _request(zxid: int, data: bytes | None, auth: _Auth) -> ForwardedRequest | SyncRequest:
    if data is None or len(data) < _REQUEST.size:
        raise MalformedRecord("a request cut short")
    session_id, cxid, op = _REQUEST.unpack_from(data)
    if op == OpCode.SYNC:
        reader = Reader(data, _REQUEST.size)
        return SyncRequest(SessionId(session_id), cxid, reader.read_string() if reader.left else "")
    return ForwardedRequest(SessionId(session_id), cxid, op, data[_REQUEST.size :], auth)


def _leader_info(zxid: int, data: bytes | None) -> LeaderInfo:
    if data is None or len(data) < 4 or _INT.unpack_from(data)[0] != PROTOCOL_VERSION:
        raise MalformedRecord("a leader of an unknown protocol version")
    return LeaderInfo(epoch_of(zxid), data[4:] == OFFERED)


def _learner_info(zxid: int, data: bytes | None, *, observer: bool) -> FollowerInfo:
    if data is None or len(data) < _LEARNER_INFO.size:
        raise MalformedRecord("a learner of an old protocol version")
    peer_id, version, config_version = _LEARNER_INFO.unpack_from(data)
    if version < PROTOCOL_VERSION:
        raise MalformedRecord(f"a learner of protocol version 0x{version:x}")
    offered = data[_LEARNER_INFO.size :]
    return FollowerInfo(
        accepted_epoch=Epoch(zxid >> 32),
        peer_id=PeerId(peer_id),
        config_version=config_version,
        observer=observer,
        cumulative=offered in (OFFERED, OFFERED_WITH_ACKS),
        heeds_acks=offered == OFFERED_WITH_ACKS,
    )


def _encode_follower_info(packet: FollowerInfo) -> bytes:
    data = _LEARNER_INFO.pack(packet.peer_id, PROTOCOL_VERSION, packet.config_version)
    kind = OBSERVERINFO if packet.observer else FOLLOWERINFO
    if packet.cumulative:
        data += OFFERED_WITH_ACKS if packet.heeds_acks else OFFERED
    return _packet(kind, packet.accepted_epoch << 32, data)


def _encode_leader_info(packet: LeaderInfo) -> bytes:
    data = _INT.pack(PROTOCOL_VERSION)
    return _packet(LEADERINFO, packet.epoch << 32, data + OFFERED if packet.cumulative else data)


def _encode_proposal(packet: Proposal) -> bytes:
    """One PROPOSAL a transaction."""
    parts: list[bytes] = []
    for txn in packet.txns:
        data = txn.raw or txn.encoded()
        parts += (_HEAD.pack(PROPOSAL, txn.zxid, len(data)), data, NULL_AUTH)
    return b"".join(parts)


def encode_shared(packet: Proposal | Commit) -> bytes:
    """What a leader sends to several learners, each the same."""
    return _ENCODERS[type(packet)](packet)


def _encode_request(packet: ForwardedRequest) -> bytes:
    body = packet.body
    head = _REQUEST_HEAD.pack(REQUEST, NO_ZXID, 16 + len(body), packet.session_id, packet.cxid, packet.op)
    # Never a null list: a ZooKeeper leader cannot check permissions without one.
    return head + body + (_encode_auth(tuple(packet.auth)) if packet.auth else NO_AUTH)


def _encode_ping(packet: Ping) -> bytes:
    data = b"".join(_SESSION.pack(session_id, timeout_ms) for session_id, timeout_ms in packet.touched)
    # Never a null buffer: a ZooKeeper leader reads the list of sessions without looking.
    return _packet(PING, packet.zxid, data)


def _encode_snap(packet: Snap) -> bytes:
    return _packet(SNAP, packet.zxid, _DIGEST.pack(DIGEST_VERSION, signed(packet.snapshot.digest)))


_ENCODERS: dict[type, Callable[..., bytes]] = {
    Proposal: _encode_proposal,
    Ack: lambda p: _HEAD.pack(ACK, p.zxid, 1) + _OFFERED_ALONE if p.cumulative else _packet(ACK, p.zxid),
    Commit: lambda p: _HEAD.pack(COMMIT, p.zxid, 1) + _OFFERED_ALONE if p.cumulative else _packet(COMMIT, p.zxid),
    Inform: lambda p: _packet(INFORM, p.txn.zxid, p.txn.encoded()),
    Ping: _encode_ping,
    ForwardedRequest: _encode_request,
    FollowerInfo: _encode_follower_info,
    LeaderInfo: _encode_leader_info,
    AckEpoch: lambda p: _packet(ACKEPOCH, p.last_zxid, _INT.pack(p.current_epoch)),
    NewLeader: lambda p: _packet(NEWLEADER, p.zxid, p.config.encode() or None),
    CommitAndActivate: lambda p: _packet(COMMITANDACTIVATE, p.zxid, _LONG.pack(p.designated)),
    InformAndActivate: lambda p: _packet(INFORMANDACTIVATE, p.txn.zxid, _LONG.pack(p.designated) + p.txn.encoded()),
    Diff: lambda p: _packet(DIFF, p.zxid),
    Trunc: lambda p: _packet(TRUNC, p.zxid),
    Snap: _encode_snap,
    UpToDate: lambda p: _packet(UPTODATE, NO_ZXID),
}
_FROM_LEADER: dict[int, Callable[[int, bytes | None], Packet]] = {
    PROPOSAL: lambda zxid, data: Proposal((_txn(zxid, data),)),
    COMMIT: lambda zxid, data: Commit(Zxid(zxid), data == OFFERED),
    ACK: lambda zxid, data: Ack(Zxid(zxid), data == OFFERED),
    PING: lambda zxid, data: Ping(Zxid(zxid)),
    INFORM: lambda zxid, data: Inform(_txn(zxid, data)),
    REVALIDATE: _answer_to_revalidate,
    LEADERINFO: _leader_info,
    UPTODATE: lambda zxid, data: UpToDate(),
    NEWLEADER: lambda zxid, data: NewLeader(Zxid(zxid), (data or b"").decode("utf-8", "replace")),
    COMMITANDACTIVATE: _commit_and_activate,
    INFORMANDACTIVATE: _inform_and_activate,
    DIFF: lambda zxid, data: Diff(Zxid(zxid)),
    TRUNC: lambda zxid, data: Trunc(Zxid(zxid)),
}
"""What a leader sends, by type: SNAP, which a tree follows, and SYNC, which says nothing, are the codec's own."""
_FROM_LEARNER: dict[int, Callable[[int, bytes | None, _Auth], Packet]] = {
    ACK: lambda zxid, data, auth: Ack(Zxid(zxid), data == OFFERED),
    PING: lambda zxid, data, auth: Ping(Zxid(zxid), _touched(data)),
    REQUEST: _request,
    REVALIDATE: _revalidate,
    ACKEPOCH: _ack_epoch,
    FOLLOWERINFO: lambda zxid, data, auth: _learner_info(zxid, data, observer=False),
    OBSERVERINFO: lambda zxid, data, auth: _learner_info(zxid, data, observer=True),
}
