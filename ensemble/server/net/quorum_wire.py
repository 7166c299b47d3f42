"""Wire format of the quorum port: conversion between typed packets and ZooKeeper's QuorumPackets.

Packets follow each other without framing; a SNAP is followed by the serialised tree and the string "BenWasHere". Each
side of a connection has a `QuorumCodec`; `zabka.ensemble.server.net.quorum_packets` defines the packets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.jute import MalformedRecord, write_string
from zabka.ensemble.records import OpCode
from zabka.ensemble.server.net.quorum_packets import (
    ACK,
    AUTH_BYTES_MAX,
    AUTH_ENTRIES_MAX,
    CUMULATIVE,
    DIGEST_FIELDS,
    DIGEST_MASK,
    EMPTY,
    ENCODERS,
    FROM_LEADER,
    FROM_LEARNER,
    HEAD,
    INT,
    LONG,
    NO_AUTH,
    NO_ZXID,
    NULL_AUTH,
    OFFERED_ALONE,
    OP_SYNC,
    PACKET_BYTES_MAX,
    PROPOSAL,
    REQUEST,
    REQUEST_FIELDS,
    REVALIDATE,
    SESSION_FIELDS,
    SIGNATURE,
    SNAP,
    SYNC,
    Auth,
    decode_auth,
    head_at,
    packet_bytes,
    request_at,
    txn_of,
)
from zabka.ensemble.txn import Txn, decode_plain
from zabka.ensemble.txnlog.snapshot_format import TreeDecoder, encode_tree
from zabka.ensemble.zab.messages import (
    Ack,
    ForwardedRequest,
    Packet,
    Proposal,
    Revalidate,
    Snap,
    SyncRequest,
)


class QuorumCodec:
    """Encoder and decoder for the learner's or the leader's side of one connection.

    ZooKeeper replies to SYNC packets in order, without an id; so the learner's codec stores its sync requests.
    """

    def __init__(self, *, learner: bool) -> None:
        self._learner = learner
        self._syncs: deque[SyncRequest] = deque()
        self._buffer = b""
        self._late: list[bytes] = []
        self._missing = 0
        self._auth: Auth = ()
        self._auth_bytes = NO_AUTH
        self._tree: TreeDecoder | None = None
        self._snap_zxid = 0
        self._snap_digest = 0
        self._decode_one: Callable[[int, int, bytes | None, Auth], Packet] = (
            self._from_leader if learner else self._from_learner
        )
        self._feed_common = self._feed_leaders if learner else self._feed_learners

    # -- writing ---------------------------------------------------------------------------------------------------

    def encode(self, packet: Packet) -> bytes:
        """Encode a packet; for a Snap, only the part before the tree."""
        encoder = ENCODERS.get(type(packet))
        if encoder is not None:
            return encoder(packet)
        if isinstance(packet, Revalidate):
            if self._learner:
                return packet_bytes(REVALIDATE, NO_ZXID, SESSION_FIELDS.pack(packet.session_id, packet.timeout_ms))
            answer = LONG.pack(packet.session_id) + (b"\1" if packet.valid else b"\0")
            return packet_bytes(REVALIDATE, packet.proposed, answer)
        if isinstance(packet, SyncRequest):
            return self._encode_sync(packet)
        raise AssertionError(f"{packet!r} cannot be sent")

    def _encode_sync(self, packet: SyncRequest) -> bytes:
        if not self._learner:
            return packet_bytes(SYNC, 0)
        self._syncs.append(packet)
        data = bytearray(REQUEST_FIELDS.pack(packet.session_id, packet.cxid, OpCode.SYNC))
        write_string(data, packet.path)
        return packet_bytes(REQUEST, NO_ZXID, bytes(data), NO_AUTH)

    @staticmethod
    def encode_stream(packet: Snap) -> Iterator[bytes]:
        """Yield the bytes that follow a SNAP packet: the tree in chunks, then the string "BenWasHere"."""
        yield from encode_tree(packet.snapshot)
        yield SIGNATURE

    # -- reading ---------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> list[Packet]:
        """Decode received bytes; return the packets that are complete now. Raises MalformedRecord."""
        if self._missing > 0:
            # A large packet arrives in many pieces. Join them only once, when the last one has arrived.
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
        """Decode one packet of any type from `pos`; return the position after it, or -1 if it is incomplete."""
        if len(buffer) - pos < EMPTY.size:
            return -1
        kind, zxid, size = HEAD.unpack_from(buffer, pos)
        start = pos + HEAD.size
        if not -1 <= size <= PACKET_BYTES_MAX:
            raise MalformedRecord(f"a packet of {size} bytes")
        end = start + max(size, 0)
        if len(buffer) < end + 4:
            self._missing = end + 4 - len(buffer)
            return -1
        behind = self._skip_auth(buffer, end)
        if behind < 0:
            return -1
        auth = () if behind == end + 4 else decode_auth(buffer, end)
        if kind == REQUEST and buffer[end:behind] != NULL_AUTH:
            # Cache the decoded identities: consecutive requests are usually from one connection and have the same
            # identities.
            self._auth, self._auth_bytes = auth, buffer[end:behind]
        if kind == SNAP and self._learner:
            self._begin_snap(zxid, buffer[start:end])
        else:
            out.append(self._decode_one(kind, zxid, buffer[start:end] if size >= 0 else None, auth))
        return behind

    def _feed_leaders(self, buffer: bytes, pos: int, out: list[Packet]) -> int:
        """Decode a leader's transactions, commits and acks; return the position after the last decoded packet.

        Nearly all packets of a leader have these types. Decoding stops at any other packet, and at an irregular or
        incomplete one: `_feed_one` decodes these.
        """
        last = len(buffer) - EMPTY.size
        txns: list[Txn] = []
        while pos <= last:
            kind, zxid, size = head_at(buffer, pos)
            start = pos + 16
            end = start + size
            if size == 1 and kind in CUMULATIVE and buffer.startswith(OFFERED_ALONE, start):
                if txns:
                    out.append(Proposal(txns))
                    txns = []
                out.append(CUMULATIVE[kind](Zxid(zxid), cumulative=True))
                pos = end + 4
                continue
            if kind != PROPOSAL or not buffer.startswith(NULL_AUTH, end) or size < 0:
                break
            data = buffer[start:end]
            txn = decode_plain(data)
            if txn is None or txn.zxid != zxid:
                txn = txn_of(zxid, data)
            txns.append(txn)
            pos = end + 4
        if txns:
            out.append(Proposal(txns))
        return pos

    def _feed_learners(self, buffer: bytes, pos: int, out: list[Packet]) -> int:
        """Decode the requests and acks at the start of a learner's packets; see `_feed_leaders`.

        Nearly all packets of a learner are of these two types.
        """
        last = len(buffer) - EMPTY.size
        while pos <= last:
            kind, zxid, size = head_at(buffer, pos)
            start = pos + HEAD.size
            end = start + size
            if kind == ACK and size == 1 and buffer.startswith(OFFERED_ALONE, start):
                out.append(Ack(Zxid(zxid), cumulative=True))
                pos = end + 4
                continue
            if kind != REQUEST or size < REQUEST_FIELDS.size or not buffer.startswith(self._auth_bytes, end):
                break
            session_id, cxid, op = request_at(buffer, start)
            if op == OP_SYNC:
                break
            body = buffer[start + REQUEST_FIELDS.size : end]
            out.append(ForwardedRequest(SessionId(session_id), cxid, op, body, self._auth))
            pos = end + len(self._auth_bytes)
        return pos

    @staticmethod
    def _skip_auth(buffer: bytes, pos: int) -> int:
        """Return the position after the authinfo at `pos`, or -1 if the authinfo is incomplete."""
        (count,) = INT.unpack_from(buffer, pos)
        begin = pos
        pos += 4
        if not -1 <= count <= AUTH_ENTRIES_MAX:
            raise MalformedRecord(f"{count} authentication entries")
        for _ in range(2 * max(count, 0)):
            if len(buffer) < pos + 4:
                return -1
            (size,) = INT.unpack_from(buffer, pos)
            pos += 4 + max(size, 0)
            if not -1 <= size <= AUTH_BYTES_MAX or pos - begin > AUTH_BYTES_MAX:
                raise MalformedRecord("authentication entries too long")
        return pos if pos <= len(buffer) else -1

    def _begin_snap(self, zxid: int, data: bytes) -> None:
        self._tree = TreeDecoder()
        self._snap_zxid = zxid
        # Only servers of this project append the tree's digest here. Without an appended digest, the tree computes its
        # own digest.
        self._snap_digest = DIGEST_FIELDS.unpack(data)[1] & DIGEST_MASK if len(data) == DIGEST_FIELDS.size else 0

    def _feed_tree(self, tree: TreeDecoder, data: bytes, out: list[Packet]) -> bytes:
        """Pass bytes to the decoder of a tree; return the bytes that follow the complete tree."""
        tree.feed(data)
        if not tree.done or len(tree.rest) < len(SIGNATURE):
            return b""
        if not tree.rest.startswith(SIGNATURE):
            raise MalformedRecord("a snapshot without its signature")
        out.append(Snap(Zxid(self._snap_zxid), tree.snapshot(self._snap_zxid, self._snap_digest)))
        self._tree = None
        return tree.rest[len(SIGNATURE) :]

    def _from_leader(self, kind: int, zxid: int, data: bytes | None, auth: Auth) -> Packet:
        if kind == SYNC:
            if not self._syncs:
                raise MalformedRecord("a SYNC that nobody asked for")
            return self._syncs.popleft()
        decoder = FROM_LEADER.get(kind)
        if decoder is None:
            raise MalformedRecord(f"a leader sent a packet of type {kind}")
        return decoder(zxid, data)

    @staticmethod
    def _from_learner(kind: int, zxid: int, data: bytes | None, auth: Auth) -> Packet:
        decoder = FROM_LEARNER.get(kind)
        if decoder is None:
            raise MalformedRecord(f"a learner sent a packet of type {kind}")
        return decoder(zxid, data, auth)
