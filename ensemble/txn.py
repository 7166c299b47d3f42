"""Transactions: what ZAB orders, what the log holds, what the tree applies (org.apache.zookeeper.txn).

A transaction is idempotent: it says what becomes true, not what was asked.  `Txn` caches its encoding, so that the log
and every follower get the same bytes and nobody encodes twice.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import ClassVar

from ensemble.ids import SessionId, Zxid
from ensemble.jute import BOOL, BUFFER, INT, LONG, STRING, Codec, MalformedRecord, Reader, Record, vector
from ensemble.records import ACL, ACLS, STRINGS, OpCode


class CreateTxn(Record):
    """A znode appears.  `parent_cversion` is the parent's children version afterwards."""

    path: str
    data: bytes | None
    acl: Sequence[ACL]
    ephemeral: bool
    parent_cversion: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, BUFFER, ACLS, BOOL, INT)


class CreateContainerTxn(Record):
    """A container znode appears."""

    path: str
    data: bytes | None
    acl: Sequence[ACL]
    parent_cversion: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, BUFFER, ACLS, INT)


class CreateTTLTxn(Record):
    """A znode with a time to live appears."""

    path: str
    data: bytes | None
    acl: Sequence[ACL]
    parent_cversion: int
    ttl_ms: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, BUFFER, ACLS, INT, LONG)


class DeleteTxn(Record):
    """A znode goes."""

    path: str
    layout: ClassVar[tuple[Codec, ...]] = (STRING,)


class SetDataTxn(Record):
    """A znode's data is now this, at this version."""

    path: str
    data: bytes | None
    version: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, BUFFER, INT)


class CheckVersionTxn(Record):
    """A version check that held, inside a multi."""

    path: str
    version: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, INT)


class SetACLTxn(Record):
    """A znode's ACL is now this, at this ACL version."""

    path: str
    acl: Sequence[ACL]
    version: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, ACLS, INT)


class CreateSessionTxn(Record):
    """A session begins."""

    timeout_ms: int
    layout: ClassVar[tuple[Codec, ...]] = (INT,)


class CloseSessionTxn(Record):
    """A session ends; these ephemerals go with it (since 3.6; older logs have no list)."""

    paths: list[str]
    layout: ClassVar[tuple[Codec, ...]] = (STRINGS,)


class ErrorTxn(Record):
    """A write that was refused still takes its place in the order."""

    err: int
    layout: ClassVar[tuple[Codec, ...]] = (INT,)


class SubTxn(Record):
    """One transaction inside a multi: its type and its encoded body."""

    type: int
    data: bytes
    layout: ClassVar[tuple[Codec, ...]] = (INT, BUFFER)

    def body(self) -> Record:
        """The decoded body; raises MalformedRecord."""
        return decode_body(self.type, Reader(self.data))


class MultiTxn(Record):
    """Several transactions under one zxid."""

    txns: list[SubTxn]


def _write_sub(out: bytearray, sub: SubTxn) -> None:
    sub.encode_into(out)


MultiTxn.layout = (vector(Codec(_write_sub, SubTxn.read_from)),)

TXN_BODIES: dict[int, type[Record]] = {
    OpCode.CREATE: CreateTxn,
    OpCode.CREATE2: CreateTxn,
    OpCode.CREATE_CONTAINER: CreateContainerTxn,
    OpCode.CREATE_TTL: CreateTTLTxn,
    OpCode.DELETE: DeleteTxn,
    OpCode.DELETE_CONTAINER: DeleteTxn,
    OpCode.SET_DATA: SetDataTxn,
    OpCode.RECONFIG: SetDataTxn,
    OpCode.CHECK: CheckVersionTxn,
    OpCode.SET_ACL: SetACLTxn,
    OpCode.CREATE_SESSION: CreateSessionTxn,
    OpCode.CLOSE_SESSION: CloseSessionTxn,
    OpCode.ERROR: ErrorTxn,
    OpCode.MULTI: MultiTxn,
}


def decode_body(kind: int, reader: Reader) -> Record:
    """Read a transaction body of that type; raises MalformedRecord."""
    body = TXN_BODIES.get(kind)
    if body is None:
        raise MalformedRecord(f"unknown transaction type {kind}")
    if kind == OpCode.CLOSE_SESSION and not reader.left:
        return CloseSessionTxn([])
    return body.read_from(reader)


_HEADER = struct.Struct(">qiqqi")
DIGEST_VERSION = 2


class Txn:
    """One transaction with its header; `digest` is the tree's 64-bit digest after it, or None when not carried."""

    __slots__ = ("_encoded", "body", "cxid", "digest", "session_id", "time_ms", "type", "zxid")

    def __init__(
        self,
        session_id: SessionId,
        cxid: int,
        zxid: Zxid,
        time_ms: int,
        type: int,
        body: Record,
        digest: int | None = None,
        encoded: bytes | None = None,
    ) -> None:
        self.session_id = session_id
        self.cxid = cxid
        self.zxid = zxid
        self.time_ms = time_ms
        self.type = type
        self.body = body
        self.digest = digest
        self._encoded = encoded

    def encoded(self) -> bytes:
        """TxnHeader, body and digest, as in a log record and in a PROPOSAL's data."""
        if self._encoded is None:
            out = bytearray(_HEADER.pack(self.session_id, self.cxid, self.zxid, self.time_ms, self.type))
            self.body.encode_into(out)
            if self.digest is not None:
                out += DIGEST_VERSION.to_bytes(4, "big") + (self.digest & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")
            self._encoded = bytes(out)
        return self._encoded

    @classmethod
    def decode(cls, data: bytes) -> Txn:
        """Read header, body and, where present, digest; raises MalformedRecord."""
        if len(data) < _HEADER.size:
            raise MalformedRecord("transaction header cut short")
        session_id, cxid, zxid, time_ms, kind = _HEADER.unpack_from(data)
        reader = Reader(data, _HEADER.size)
        body = decode_body(kind, reader)
        digest = None
        if reader.left >= 12:
            reader.read_int()
            digest = reader.read_long() & 0xFFFFFFFFFFFFFFFF
        return cls(session_id, cxid, zxid, time_ms, kind, body, digest, bytes(data))

    def __repr__(self) -> str:
        return f"Txn(0x{self.zxid:x} {self.body!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Txn) and self.encoded() == other.encoded()

    def __hash__(self) -> int:
        return hash(self.zxid)
