"""Transactions: ZAB orders them, the log stores them, and the tree applies them (org.apache.zookeeper.txn).

A transaction is idempotent: it records the resulting state, not the request. `Txn` caches its encoding, so that each
transaction is encoded once, and the log and every follower get the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar
from zlib import crc32

import msgspec

from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.jute import (
    BOOL,
    BUFFER,
    INT,
    LONG,
    STRING,
    Codec,
    MalformedRecord,
    Reader,
    Record,
    Writer,
    pack_int,
    vector,
    write_path_and_data,
)
from zabka.ensemble.records import ACL, ACLS, CREATES, OPEN_ACL, OPEN_ACL_BYTES, STRINGS, OpCode

_CREATE_END = struct.Struct(">?i")


class CreateTxn(Record):
    """Creation of a znode. `parent_cversion` is the parent's cversion after the creation."""

    path: str
    data: bytes | None
    acl: Sequence[ACL]
    ephemeral: bool
    parent_cversion: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, BUFFER, ACLS, BOOL, INT)

    def encode_into(self, out: Writer) -> None:
        """Encode the fields in the order of `layout`."""
        write_path_and_data(out, self.path, self.data)
        ACLS.write(out, self.acl)
        out += _CREATE_END.pack(self.ephemeral, self.parent_cversion)

    @classmethod
    def read_from(cls, reader: Reader) -> CreateTxn:
        """Decode the fields in the order of `layout`. Raises MalformedRecord."""
        path, data = reader.read_path_and_data()
        acl = ACLS.read(reader)
        ephemeral, parent_cversion = _CREATE_END.unpack_from(reader.data, reader.skip_bytes(_CREATE_END.size))
        return cls(path, data, acl, ephemeral, parent_cversion)


class CreateContainerTxn(Record):
    """Creation of a container znode."""

    path: str
    data: bytes | None
    acl: Sequence[ACL]
    parent_cversion: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, BUFFER, ACLS, INT)


class CreateTTLTxn(Record):
    """Creation of a znode with a time to live."""

    path: str
    data: bytes | None
    acl: Sequence[ACL]
    parent_cversion: int
    ttl_ms: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, BUFFER, ACLS, INT, LONG)


class DeleteTxn(Record):
    """Deletion of a znode."""

    path: str
    layout: ClassVar[tuple[Codec, ...]] = (STRING,)


class SetDataTxn(Record):
    """New data of a znode, and its new version."""

    path: str
    data: bytes | None
    version: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, BUFFER, INT)

    def encode_into(self, out: Writer) -> None:
        """Encode the fields in the order of `layout`."""
        write_path_and_data(out, self.path, self.data)
        out += pack_int(self.version)

    @classmethod
    def read_from(cls, reader: Reader) -> SetDataTxn:
        """Decode the fields in the order of `layout`. Raises MalformedRecord."""
        path, data = reader.read_path_and_data()
        return cls(path, data, reader.read_int())


class CheckVersionTxn(Record):
    """A version check that passed, inside a multi."""

    path: str
    version: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, INT)


class SetACLTxn(Record):
    """New ACL of a znode, and its new ACL version."""

    path: str
    acl: Sequence[ACL]
    version: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, ACLS, INT)


class CreateSessionTxn(Record):
    """Creation of a session."""

    timeout_ms: int
    layout: ClassVar[tuple[Codec, ...]] = (INT,)


class CloseSessionTxn(Record):
    """Close of a session, with the paths of the ephemerals to delete (since 3.6; older logs have no list)."""

    paths: list[str]
    layout: ClassVar[tuple[Codec, ...]] = (STRINGS,)


class ErrorTxn(Record):
    """A rejected write, which uses a zxid too."""

    err: int
    layout: ClassVar[tuple[Codec, ...]] = (INT,)


class SubTxn(Record):
    """One transaction inside a multi: its type and its encoded body."""

    type: int
    data: bytes
    layout: ClassVar[tuple[Codec, ...]] = (INT, BUFFER)

    def body(self) -> Record:
        """Return the decoded body.

        Raises MalformedRecord.
        """
        return decode_body(self.type, Reader(self.data))


class MultiTxn(Record):
    """Several transactions that have one zxid and are applied together."""

    txns: list[SubTxn]


def _write_sub(out: bytearray, sub: SubTxn) -> None:
    sub.encode_into(out)


def _read_subs(reader: Reader) -> list[SubTxn]:
    """Read the transactions of a multi, and check that each one can be applied.

    There is no later check before the multi is logged. Raises MalformedRecord.
    """
    subs: list[SubTxn] = _SUBS.read(reader)
    failed = False
    for sub in subs:
        if sub.type not in _IN_A_MULTI or sub.data is None:
            raise MalformedRecord(f"a multi cannot hold a transaction of type {sub.type}")
        if failed and sub.type != OpCode.ERROR:
            raise MalformedRecord(f"a transaction of type {sub.type} behind the failed one of a multi")
        failed = sub.type == OpCode.ERROR
        sub.body()
    return subs


_SUBS = vector(Codec(_write_sub, SubTxn.read_from))
MultiTxn.layout = (Codec(_SUBS.write, _read_subs),)
_IN_A_MULTI = frozenset(
    {
        *CREATES, OpCode.DELETE, OpCode.DELETE_CONTAINER, OpCode.SET_DATA, OpCode.CHECK, OpCode.ERROR,
    }
)  # fmt: skip
"""Types of transactions that a multi can contain (DataTree.processTxn). Multis cannot be nested."""

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
    """Decode the body of a transaction of type `kind`.

    Raises MalformedRecord.
    """
    body = TXN_BODIES.get(kind)
    if body is None:
        raise MalformedRecord(f"unknown transaction type {kind}")
    if kind == OpCode.CLOSE_SESSION and not reader.left:
        return CloseSessionTxn([])
    return body.read_from(reader)


_HEADER = struct.Struct(">qiqqi")
_DIGEST = struct.Struct(">iQ")
_HEADER_AND_SIZE = struct.Struct(">qiqqii")
_SET_DATA_END = struct.Struct(">iiQ")
_CREATE_END_AND_DIGEST = struct.Struct(">?iiQ")
_CREATE_END_WITH_ACL = struct.Struct(f">{len(OPEN_ACL_BYTES)}s?iiQ")
_set_data_end_at = _SET_DATA_END.unpack_from
_create_end_at = _CREATE_END_WITH_ACL.unpack_from
_SET_DATA, _CREATE = int(OpCode.SET_DATA), int(OpCode.CREATE)
_PLAIN_ENDS: dict[int, int] = {
    _SET_DATA: _SET_DATA_END.size,
    OpCode.CREATE: _CREATE_END_WITH_ACL.size,
    OpCode.CREATE2: _CREATE_END_WITH_ACL.size,
}
"""Number of bytes after the data in a plain transaction, including its digest, keyed by transaction type."""
_PATH_SIZE_AT, _PATH_AT = 35, 36
"""In an encoded transaction, the offset of the last byte of the path's length, and the offset of the path."""
_SYSTEM = b"/zookeeper/"
DIGEST_VERSION = 2


@lru_cache(maxsize=256)
def _plain_beginning(path_size: int) -> Callable[[bytes], tuple[Any, ...]]:
    """Return a function that decodes the header, the path, and the data's length, for paths of this length."""
    return struct.Struct(f">qiqqii{path_size}si").unpack_from


class Txn(msgspec.Struct, eq=False, gc=False):
    """A transaction with its header; `digest` is the tree's 64-bit digest after it, or None if it is not included.

    `raw` is the encoded transaction, if known. `seed` is the result of `digest_seed` for the znode's path and data, if
    it was already computed from these bytes.
    """

    session_id: SessionId
    cxid: int
    zxid: Zxid
    time_ms: int
    type: int
    body: Record
    digest: int | None = None
    raw: bytes | None = None
    seed: int | None = None

    def encoded(self) -> bytes:
        """Return TxnHeader, body and digest, as in a log record and in the data of a PROPOSAL."""
        if self.raw is None and self.digest is not None:
            self.raw = self._encoded_plain(self.digest)
        if self.raw is None:
            out = bytearray(_HEADER.pack(self.session_id, self.cxid, self.zxid, self.time_ms, self.type))
            self.body.encode_into(out)
            if self.digest is not None:
                out += _DIGEST.pack(DIGEST_VERSION, self.digest & 0xFFFFFFFFFFFFFFFF)
            self.raw = bytes(out)
        return self.raw

    def _encoded_plain(self, digest: int) -> bytes | None:
        """Encode a setData, or a create with the open ACL, in one step; return None for every other transaction."""
        body = self.body
        if isinstance(body, SetDataTxn):
            end = _SET_DATA_END.pack(body.version, DIGEST_VERSION, digest & 0xFFFFFFFFFFFFFFFF)
        elif isinstance(body, CreateTxn) and body.acl is OPEN_ACL:
            end = OPEN_ACL_BYTES + _CREATE_END_AND_DIGEST.pack(
                body.ephemeral, body.parent_cversion, DIGEST_VERSION, digest & 0xFFFFFFFFFFFFFFFF
            )
        else:
            return None
        path, data = body.path.encode("utf-8", "surrogatepass"), body.data
        if data is None:
            return None
        head = _HEADER_AND_SIZE.pack(self.session_id, self.cxid, self.zxid, self.time_ms, self.type, len(path))
        return b"".join((head, path, pack_int(len(data)), data, end))

    @classmethod
    def decode(cls, data: bytes) -> Txn:
        """Decode header, body and, if present, digest.

        Raises MalformedRecord.
        """
        plain = decode_plain(data) if type(data) is bytes else None
        if plain is not None:
            return plain
        if len(data) < _HEADER.size:
            raise MalformedRecord("transaction header cut short")
        session_id, cxid, zxid, time_ms, kind = _HEADER.unpack_from(data)
        reader = Reader(data, _HEADER.size)
        body = decode_body(kind, reader)
        digest = None
        if reader.end - reader.pos >= _DIGEST.size:
            _, digest = _DIGEST.unpack_from(data, reader.pos)
        return cls(session_id, cxid, zxid, time_ms, kind, body, digest=digest, raw=bytes(data))

    def __repr__(self) -> str:
        return f"Txn(0x{self.zxid:x} {self.body!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Txn) and self.encoded() == other.encoded()

    def __hash__(self) -> int:
        return hash(self.zxid)


def plain_set_data_bytes(
    session_id: int, cxid: int, zxid: int, time_ms: int, path_and_data: bytes, version: int, digest: int
) -> bytes:
    """Return the encoded transaction for a setData whose path and data are already encoded; `digest` is unsigned."""
    head = _HEADER.pack(session_id, cxid, zxid, time_ms, _SET_DATA)
    return head + path_and_data + _SET_DATA_END.pack(version, DIGEST_VERSION, digest)


def plain_create_bytes(
    session_id: int, cxid: int, zxid: int, time_ms: int, path_data_and_acl: bytes, cversion: int, digest: int
) -> bytes:
    """Return the encoded transaction for a plain create whose path, data and ACL are already encoded.

    `digest` is unsigned.
    """
    head = _HEADER.pack(session_id, cxid, zxid, time_ms, _CREATE)
    return head + path_data_and_acl + _CREATE_END_AND_DIGEST.pack(False, cversion, DIGEST_VERSION, digest)


def decode_plain(data: bytes) -> Txn | None:
    """Decode a setData, or a create with the open ACL, in one step. The transaction must have a digest.

    Nearly all transactions are of these two types. Return None for any other transaction or any irregular encoding.
    """
    try:
        path_size = data[_PATH_SIZE_AT]
        begun = _plain_beginning(path_size)(data)
        session_id, cxid, zxid, time_ms, kind, size, encoded_path, length = begun
        start, stop = _PATH_AT + 4 + size, len(data) - _PLAIN_ENDS[kind]
        if size != path_size or length != stop - start or length < 0:
            return None
        path, node_data = encoded_path.decode(), data[start:stop]
        body: Record
        if kind == _SET_DATA:
            version, _, digest = _set_data_end_at(data, stop)
            body = SetDataTxn(path, node_data, version)
        else:
            acl, ephemeral, cversion, _, digest = _create_end_at(data, stop)
            if acl != OPEN_ACL_BYTES:
                return None
            body = CreateTxn(path, node_data, OPEN_ACL, ephemeral, cversion)
    except (struct.error, IndexError, KeyError, UnicodeDecodeError):
        return None
    # Compute the seed now: when the transaction is applied, path and data may no longer be in the CPU cache.
    plain = size > 1 and encoded_path[:11] != _SYSTEM
    seed = crc32(node_data, crc32(encoded_path)) if plain else None
    return Txn(session_id, cxid, zxid, time_ms, kind, body, digest=digest, raw=data, seed=seed)
