"""Packets of the quorum port: their types, encoders and decoders.

A QuorumPacket is {int type, long zxid, buffer data, vector<Id> authinfo}. The meaning of a packet depends on its
sender: `FROM_LEADER` decodes a leader's packets, and `FROM_LEARNER` a learner's. Sources:
org.apache.zookeeper.server.quorum.Leader, Learner, LearnerHandler, LearnerInfo, SendAckRequestProcessor.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from zabka.ensemble.ids import Epoch, PeerId, SessionId, Zxid, epoch_of
from zabka.ensemble.jute import MalformedRecord, Reader, write_string
from zabka.ensemble.records import OpCode
from zabka.ensemble.txn import DIGEST_VERSION, Txn
from zabka.ensemble.txnlog.snapshot_format import signed
from zabka.ensemble.zab import messages

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

Auth = tuple[tuple[str, str], ...]
"""A client's identities, as (scheme, id) pairs."""
PROTOCOL_VERSION = 0x10000
PACKET_BYTES_MAX = 64 * 1024 * 1024
AUTH_BYTES_MAX = 1024 * 1024
AUTH_ENTRIES_MAX = 2000
SIGNATURE = b"\0\0\0\x0aBenWasHere"
OFFERED = b"\x01"
"""Flag for cumulative acks; other implementations ignore it.

After LearnerInfo, and after the version in LEADERINFO, the flag means that the sender supports cumulative acks. In an
ACK or COMMIT it means that this packet is cumulative.
"""
OFFERED_WITH_ACKS = b"\x02"
"""Flag after LearnerInfo: the learner supports cumulative acks, and processes the leader's own acks.

No other packet contains this flag.
"""
SNAPSHOT_WANTED = b"\x01"
"""Flag with which a learner requests a snapshot, because its history may differ.

It follows the flag for cumulative acks.
"""
NO_ZXID = -1
NO_AUTH = b"\0\0\0\0"
NULL_AUTH = b"\xff\xff\xff\xff"
OFFERED_ALONE = OFFERED + NULL_AUTH
"""Bytes of a cumulative ACK or COMMIT after its type, zxid and data length: the flag, and no authinfo."""
CUMULATIVE: Final[dict[int, type[messages.Ack | messages.Commit]]] = {ACK: messages.Ack, COMMIT: messages.Commit}
HEAD = struct.Struct(">iqi")
head_at = HEAD.unpack_from
EMPTY = struct.Struct(">iqii")
INT = struct.Struct(">i")
LONG = struct.Struct(">q")
_LEARNER_INFO = struct.Struct(">qiq")
REQUEST_FIELDS = struct.Struct(">qii")
request_at = REQUEST_FIELDS.unpack_from
_REQUEST_HEAD = struct.Struct(">iqiqii")
OP_SYNC = int(OpCode.SYNC)
SESSION_FIELDS = struct.Struct(">qi")
DIGEST_FIELDS = struct.Struct(">iq")
DIGEST_MASK = (1 << 64) - 1


def packet_bytes(kind: int, zxid: int, data: bytes | None = None, auth: bytes = NULL_AUTH) -> bytes:
    """Encode a QuorumPacket."""
    if data is None:
        return HEAD.pack(kind, zxid, -1) + auth
    return b"%b%b%b" % (HEAD.pack(kind, zxid, len(data)), data, auth)


@lru_cache(maxsize=1024)
def _encode_auth(pairs: Auth) -> bytes:
    """Encode a client's identities. Cached, because they are the same in all its requests."""
    out = bytearray(INT.pack(len(pairs)))
    for scheme, identity in pairs:
        write_string(out, scheme)
        write_string(out, identity)
    return bytes(out)


def decode_auth(buffer: bytes, pos: int) -> Auth:
    """Decode the client's identities in a REQUEST packet."""
    reader = Reader(buffer, pos)
    return tuple((reader.read_string(), reader.read_string()) for _ in range(reader.read_int()))


def txn_of(zxid: int, data: bytes | None) -> Txn:
    """Decode the transaction in a packet. Raises MalformedRecord, also if its zxid is not the packet's."""
    if data is None:
        raise MalformedRecord("a proposal without its transaction")
    txn = Txn.decode(data)
    if txn.zxid != zxid:
        raise MalformedRecord(f"packet 0x{zxid:x} holds transaction 0x{txn.zxid:x}")
    return txn


def _designated(data: bytes | None) -> PeerId:
    if data is None or len(data) < LONG.size:
        raise MalformedRecord("an activation without its leader")
    return PeerId(LONG.unpack_from(data)[0])


def _commit_and_activate(zxid: int, data: bytes | None) -> messages.CommitAndActivate:
    return messages.CommitAndActivate(Zxid(zxid), _designated(data))


def _inform_and_activate(zxid: int, data: bytes | None) -> messages.InformAndActivate:
    designated = _designated(data)
    txn = txn_of(zxid, (data or b"")[LONG.size :])
    if txn.type != OpCode.RECONFIG:
        raise MalformedRecord(f"an activation of {txn!r}")
    return messages.InformAndActivate(txn, designated)


def _touched(data: bytes | None) -> tuple[tuple[SessionId, int], ...]:
    if not data:
        return ()
    if len(data) % SESSION_FIELDS.size:
        raise MalformedRecord(f"a list of sessions of {len(data)} bytes")
    return tuple((SessionId(session_id), timeout_ms) for session_id, timeout_ms in SESSION_FIELDS.iter_unpack(data))


def _answer_to_revalidate(zxid: int, data: bytes | None) -> messages.Revalidate:
    if data is None or len(data) < LONG.size + 1:
        raise MalformedRecord("an answer about a session that does not say which")
    return messages.Revalidate(SessionId(LONG.unpack_from(data)[0]), 0, data[LONG.size] != 0, Zxid(zxid))


def _revalidate(zxid: int, data: bytes | None, auth: Auth) -> messages.Revalidate:
    if data is None or len(data) < SESSION_FIELDS.size:
        raise MalformedRecord("a question about a session that does not say which")
    session_id, timeout_ms = SESSION_FIELDS.unpack_from(data)
    return messages.Revalidate(SessionId(session_id), timeout_ms)


def _ack_epoch(zxid: int, data: bytes | None, auth: Auth) -> messages.AckEpoch:
    if data is None or len(data) < INT.size:
        raise MalformedRecord("an ACKEPOCH without its epoch")
    return messages.AckEpoch(Zxid(zxid), INT.unpack_from(data)[0])


def _request(zxid: int, data: bytes | None, auth: Auth) -> messages.ForwardedRequest | messages.SyncRequest:
    if data is None or len(data) < REQUEST_FIELDS.size:
        raise MalformedRecord("a request cut short")
    session_id, cxid, op = REQUEST_FIELDS.unpack_from(data)
    if op == OpCode.SYNC:
        reader = Reader(data, REQUEST_FIELDS.size)
        return messages.SyncRequest(SessionId(session_id), cxid, reader.read_string() if reader.left else "")
    return messages.ForwardedRequest(SessionId(session_id), cxid, op, data[REQUEST_FIELDS.size :], auth)


def _leader_info(zxid: int, data: bytes | None) -> messages.LeaderInfo:
    if data is None or len(data) < 4 or INT.unpack_from(data)[0] != PROTOCOL_VERSION:
        raise MalformedRecord("a leader of an unknown protocol version")
    return messages.LeaderInfo(epoch_of(zxid), data[4:] == OFFERED)


def _learner_info(zxid: int, data: bytes | None, *, observer: bool) -> messages.FollowerInfo:
    if data is None or len(data) < _LEARNER_INFO.size:
        raise MalformedRecord("a learner of an old protocol version")
    peer_id, version, config_version = _LEARNER_INFO.unpack_from(data)
    if version < PROTOCOL_VERSION:
        raise MalformedRecord(f"a learner of protocol version 0x{version:x}")
    offered, wanted = data[_LEARNER_INFO.size :][:1], data[_LEARNER_INFO.size :][1:]
    return messages.FollowerInfo(
        accepted_epoch=Epoch(zxid >> 32),
        peer_id=PeerId(peer_id),
        config_version=config_version,
        observer=observer,
        cumulative=offered in (OFFERED, OFFERED_WITH_ACKS),
        heeds_acks=offered == OFFERED_WITH_ACKS,
        wants_snapshot=wanted == SNAPSHOT_WANTED,
    )


def _encode_follower_info(packet: messages.FollowerInfo) -> bytes:
    data = _LEARNER_INFO.pack(packet.peer_id, PROTOCOL_VERSION, packet.config_version)
    kind = OBSERVERINFO if packet.observer else FOLLOWERINFO
    if packet.cumulative:
        data += OFFERED_WITH_ACKS if packet.heeds_acks else OFFERED
        data += SNAPSHOT_WANTED if packet.wants_snapshot else b""
    return packet_bytes(kind, packet.accepted_epoch << 32, data)


def _encode_leader_info(packet: messages.LeaderInfo) -> bytes:
    data = INT.pack(PROTOCOL_VERSION)
    return packet_bytes(LEADERINFO, packet.epoch << 32, data + OFFERED if packet.cumulative else data)


def _encode_proposal(packet: messages.Proposal) -> bytes:
    """Encode a Proposal as one PROPOSAL packet per transaction."""
    parts: list[bytes] = []
    for txn in packet.txns:
        data = txn.raw or txn.encoded()
        parts += (HEAD.pack(PROPOSAL, txn.zxid, len(data)), data, NULL_AUTH)
    return b"".join(parts)


def encode_shared(packet: messages.Proposal | messages.Commit) -> bytes:
    """Encode a packet that a leader sends unchanged to several learners."""
    return ENCODERS[type(packet)](packet)


def _encode_request(packet: messages.ForwardedRequest) -> bytes:
    body = packet.body
    head = _REQUEST_HEAD.pack(REQUEST, NO_ZXID, 16 + len(body), packet.session_id, packet.cxid, packet.op)
    # Never encode a null list: a ZooKeeper leader cannot check permissions without a list.
    return head + body + (_encode_auth(tuple(packet.auth)) if packet.auth else NO_AUTH)


def _encode_ping(packet: messages.Ping) -> bytes:
    data = b"".join(SESSION_FIELDS.pack(session_id, timeout_ms) for session_id, timeout_ms in packet.touched)
    # Never encode a null buffer: a ZooKeeper leader reads the list of sessions without a check.
    return packet_bytes(PING, packet.zxid, data)


def _encode_snap(packet: messages.Snap) -> bytes:
    return packet_bytes(SNAP, packet.zxid, DIGEST_FIELDS.pack(DIGEST_VERSION, signed(packet.snapshot.digest)))


ENCODERS: dict[type, Callable[..., bytes]] = {
    messages.Proposal: _encode_proposal,
    messages.Ack: lambda p: HEAD.pack(ACK, p.zxid, 1) + OFFERED_ALONE if p.cumulative else packet_bytes(ACK, p.zxid),
    messages.Commit: lambda p: (
        HEAD.pack(COMMIT, p.zxid, 1) + OFFERED_ALONE if p.cumulative else packet_bytes(COMMIT, p.zxid)
    ),
    messages.Inform: lambda p: packet_bytes(INFORM, p.txn.zxid, p.txn.encoded()),
    messages.Ping: _encode_ping,
    messages.ForwardedRequest: _encode_request,
    messages.FollowerInfo: _encode_follower_info,
    messages.LeaderInfo: _encode_leader_info,
    messages.AckEpoch: lambda p: packet_bytes(ACKEPOCH, p.last_zxid, INT.pack(p.current_epoch)),
    messages.NewLeader: lambda p: packet_bytes(NEWLEADER, p.zxid, p.config.encode() or None),
    messages.CommitAndActivate: lambda p: packet_bytes(COMMITANDACTIVATE, p.zxid, LONG.pack(p.designated)),
    messages.InformAndActivate: lambda p: packet_bytes(
        INFORMANDACTIVATE, p.txn.zxid, LONG.pack(p.designated) + p.txn.encoded()
    ),
    messages.Diff: lambda p: packet_bytes(DIFF, p.zxid),
    messages.Trunc: lambda p: packet_bytes(TRUNC, p.zxid),
    messages.Snap: _encode_snap,
    messages.UpToDate: lambda p: packet_bytes(UPTODATE, NO_ZXID),
}
FROM_LEADER: dict[int, Callable[[int, bytes | None], messages.Packet]] = {
    PROPOSAL: lambda zxid, data: messages.Proposal((txn_of(zxid, data),)),
    COMMIT: lambda zxid, data: messages.Commit(Zxid(zxid), data == OFFERED),
    ACK: lambda zxid, data: messages.Ack(Zxid(zxid), data == OFFERED),
    PING: lambda zxid, data: messages.Ping(Zxid(zxid)),
    INFORM: lambda zxid, data: messages.Inform(txn_of(zxid, data)),
    REVALIDATE: _answer_to_revalidate,
    LEADERINFO: _leader_info,
    UPTODATE: lambda zxid, data: messages.UpToDate(),
    NEWLEADER: lambda zxid, data: messages.NewLeader(Zxid(zxid), (data or b"").decode("utf-8", "replace")),
    COMMITANDACTIVATE: _commit_and_activate,
    INFORMANDACTIVATE: _inform_and_activate,
    DIFF: lambda zxid, data: messages.Diff(Zxid(zxid)),
    TRUNC: lambda zxid, data: messages.Trunc(Zxid(zxid)),
}
"""Decoders of a leader's packets, keyed by packet type.

SNAP (with a tree) and SYNC (empty) are not in the table, because `QuorumCodec` decodes them.
"""
FROM_LEARNER: dict[int, Callable[[int, bytes | None, Auth], messages.Packet]] = {
    ACK: lambda zxid, data, auth: messages.Ack(Zxid(zxid), data == OFFERED),
    PING: lambda zxid, data, auth: messages.Ping(Zxid(zxid), _touched(data)),
    REQUEST: _request,
    REVALIDATE: _revalidate,
    ACKEPOCH: _ack_epoch,
    FOLLOWERINFO: lambda zxid, data, auth: _learner_info(zxid, data, observer=False),
    OBSERVERINFO: lambda zxid, data, auth: _learner_info(zxid, data, observer=True),
}
